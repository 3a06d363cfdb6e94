/** The counters of one metric key. They are adjacent in the registry's array, so that a decision holds one number and adds an offset. */
export const ruleStatNames = [
  'total_hits',
  'over_limit',
  'near_limit',
  'over_limit_with_local_cache',
  'within_limit',
  'shadow_mode',
  'total_negative_hits',
  'passed',
  'limited',
] as const;
/** Follows the offsets of `RuleStat` if leases are on: hits that a lease covered, for which the store was not asked. */
export const leasedHitsStat = ruleStatNames.length;
export const leasedHitsName = 'leased_hits';

/** Offsets from the first slot of a metric key. */
export const RuleStat = {
  totalHits: 0,
  overLimit: 1,
  nearLimit: 2,
  overLimitWithLocalCache: 3,
  withinLimit: 4,
  shadowMode: 5,
  totalNegativeHits: 6,
  passed: 7,
  limited: 8,
} as const;

/**
 * The statistics of one metric key, as long as they exist. Call `slotOf` before each count, because a metric that left may have lost its
 * slots.
 */
export interface RuleMetric {
  readonly key: string;
  /** The first of its slots, or that of the overflow after it left. */
  slot: number;
  /** The last period in which it was used. `Infinity`: it never leaves; `-1`: it has left. */
  lastUse: number;
}

/** The part of the registry that decisions need. */
export interface RuleStats {
  /**
   * Returns the metric `ratelimit.service.rate_limit.<metric key>`; the key is sanitized here. `perValue`: the key contains values of
   * requests, so the number of such metrics is unbounded and idle ones leave.
   */
  ruleMetric(metricKey: string, perValue: boolean): RuleMetric;
  /** Returns the first slot to count in now. */
  slotOf(metric: RuleMetric): number;
  /** `ratelimit.service.rate_limit.<domain>.domain_not_found` += 1. */
  domainNotFound(domain: string): void;
  add(slot: number, amount: number): void;
}
