/**
 * The share of its limit that one limiter may lease and then spend without the store. Shares are always in millionths, so that
 * shares of limits are whole numbers without rounding.
 */
import { algorithmNames, algorithmOf } from './algorithms/registry.ts';
import { ruleFields } from './language/fields.ts';
import type { Rule } from './model.ts';

/** A share of 100%. */
export const wholeLimit = 1_000_000;

/** The spellings of a share. `0`: limiters take nothing ahead. */
const expression = new RegExp(ruleFields.lease.pattern);

/** Continues "lease must be" in errors about texts that do not have the form. */
export const leaseForm = 'a share of the limit such as 2% or 0.5%, of 100% at most, or 0';

/** The message of an error. */
export function unknownLease(found: string): string {
  return `lease must be ${leaseForm}, found '${found}'`;
}

/** Returns the share in millionths: 20,000 for `2%`. Undefined if the text is not a share. */
export function leaseFromText(text: string): number | undefined {
  if (!expression.test(text)) return undefined;
  const [percent = '', decimals = ''] = text.replace('%', '').split('.');
  return Number(percent + decimals.padEnd(4, '0'));
}

/** Writes the share in the one form that `leaseFromText` reads: `0.5%`, `0`. */
export function leaseText(lease: number): string {
  return lease === 0 ? '0' : `${lease / 10_000}%`;
}

/**
 * Returns the maximum number of hits that a limiter leases from such a limit. Below 2 it leases none, because each hit would
 * still cost a call.
 */
export function maxLease(lease: number, requestsPerUnit: number): number {
  // Computed in two parts, so that it is exact for large limits, too.
  const rest = requestsPerUnit % wholeLimit;
  const max = ((requestsPerUnit - rest) / wholeLimit) * lease + Math.floor((rest * lease) / wholeLimit);
  return max < 2 ? 0 : max;
}

/** Returns why a rule cannot have its lease. Undefined if it can. */
export function leaseProblem({ lease, limits }: Pick<Rule, 'lease' | 'limits'>): string | undefined {
  const [limit, ...others] = limits;
  if (lease === undefined) return undefined;
  if (limit === undefined) return 'lease needs a rate_limit beside it';
  if (limit.unlimited) return 'should not specify lease when unlimited';
  if (lease === 0) return undefined;
  if (others.length > 0) return 'lease can only be 0 beside rate_limits, which one operation counts';
  return algorithmOf(limit).countsAllHits
    ? undefined
    : `lease can only be 0 with algorithm ${algorithmNames[limit.algorithm]}: only fixed windows are leased`;
}

/** Returns whether limiters may take hits of it ahead, according to the rule itself. */
export function isLeased({ lease = 0 }: Pick<Rule, 'lease'>): boolean {
  return lease > 0;
}

/** Returns the effect of a change of the lease: its new value. */
export function leaseChange({ lease, limits: [limit] }: Pick<Rule, 'lease' | 'limits'>): string {
  if (lease === undefined) return 'limiters lease its hits according to their settings';
  const max = limit === undefined ? 0 : maxLease(lease, limit.requestsPerUnit);
  return max === 0
    ? 'limiters lease none of its hits'
    : `a limiter leases up to ${max} of its hits at a time, if LEASES is on`;
}
