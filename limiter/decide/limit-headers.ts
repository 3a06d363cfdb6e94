/** Headers that tell a client how close it is to a limit. Reference sections 5 and 13.3. */
import { Unit } from '../../rules/model.ts';
import { Code, type DescriptorStatus, type Header } from './messages.ts';
import { isQuota } from './overall-code.ts';
import type { Plan } from './plan.ts';

export interface LimitHeaderNames {
  limit: string;
  remaining: string;
  reset: string;
}

/**
 * The status that the headers describe: the first with the least remaining; but a status over its limit that is no
 * quota goes before, and of several of those the last. Undefined when no status has a limit.
 */
export function statusForHeaders(
  plans: readonly Plan[],
  statuses: readonly DescriptorStatus[],
  quotaModeForAll: boolean,
): DescriptorStatus | undefined {
  let chosen: DescriptorStatus | undefined;
  for (let index = 0; index < statuses.length; index++) {
    const status = statuses[index]!;
    if (status.currentLimit === undefined) continue;
    const over = status.code === Code.OVER_LIMIT && !isQuota(plans[index]!, quotaModeForAll);
    if (over || chosen === undefined || status.limitRemaining < chosen.limitRemaining) chosen = status;
  }
  return chosen;
}

/** Limit, remaining and reset, in this order. */
export function limitHeaders(status: DescriptorStatus, names: LimitHeaderNames): Header[] {
  return [
    { key: names.limit, value: String(status.currentLimit?.requestsPerUnit ?? 0) },
    { key: names.remaining, value: String(status.limitRemaining) },
    { key: names.reset, value: String(status.durationUntilResetSeconds ?? 0) },
  ];
}

/** From the shortest unit to the longest, as their headers come. The names do not follow renamed standard headers. */
const unitHeaders: readonly { unit: Unit; limit: string; remaining: string }[] = [
  { unit: Unit.SECOND, limit: 'RateLimit-Limit-Seconds', remaining: 'RateLimit-Remaining-Seconds' },
  { unit: Unit.MINUTE, limit: 'RateLimit-Limit-Minutes', remaining: 'RateLimit-Remaining-Minutes' },
  { unit: Unit.HOUR, limit: 'RateLimit-Limit-Hours', remaining: 'RateLimit-Remaining-Hours' },
  { unit: Unit.DAY, limit: 'RateLimit-Limit-Days', remaining: 'RateLimit-Remaining-Days' },
  { unit: Unit.WEEK, limit: 'RateLimit-Limit-Weeks', remaining: 'RateLimit-Remaining-Weeks' },
  { unit: Unit.MONTH, limit: 'RateLimit-Limit-Months', remaining: 'RateLimit-Remaining-Months' },
  { unit: Unit.YEAR, limit: 'RateLimit-Limit-Years', remaining: 'RateLimit-Remaining-Years' },
];

/** For each unit present, limit and remaining of the first status with the least remaining. */
export function perUnitHeaders(statuses: readonly DescriptorStatus[]): Header[] {
  const headers: Header[] = [];
  for (const names of unitHeaders) {
    let least: DescriptorStatus | undefined;
    for (const status of statuses) {
      if (status.currentLimit?.unit !== names.unit) continue;
      if (least === undefined || status.limitRemaining < least.limitRemaining) least = status;
    }
    if (least?.currentLimit === undefined) continue;
    headers.push({ key: names.limit, value: String(least.currentLimit.requestsPerUnit) });
    headers.push({ key: names.remaining, value: String(least.limitRemaining) });
  }
  return headers;
}
