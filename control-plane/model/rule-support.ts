/** The rules that limiters can never apply with their settings, as the limiters report them, and the reasons. */
import { z } from 'zod';
import { plainText } from '../../process/log/error-text.ts';
import type { RuleSupport } from '../../rules/validate-limits.ts';
import type { LimiterReport, ReplicaReport } from './fleet-snapshot.ts';

/** The maximum length of a reason, above that of all reasons of this version. */
const longestReason = 300;

const reason = z
  .string()
  .transform((text) => plainText(text, longestReason))
  .optional();

export const ruleSupportSchema = z
  .object({
    admission: reason,
    groups: reason,
    reservations: reason,
    calendarMonths: z.boolean().default(false),
  })
  .transform(
    ({ admission, groups, reservations, calendarMonths }): RuleSupport => ({
      admission,
      groups,
      reservations,
      calendarMonths,
    }),
  );

/** Returns a limiter for each different report, among the limiters of the fleet that can never apply all rules. */
export function limitedOf(reports: readonly ReplicaReport[], fleet: string): LimiterReport[] {
  const found = new Map<string, LimiterReport>();
  for (const { limiters } of reports)
    for (const limiter of limiters)
      if (limiter.fleet === fleet && limiter.ruleSupport !== undefined)
        found.set(JSON.stringify(limiter.ruleSupport), limiter);
  return [...found.values()];
}
