/**
 * The counters of one metric key stand side by side in the registry's array, so that a decision holds one number
 * and adds an offset.
 */
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
/** Behind those of `RuleStat`, where limiters take hits ahead: hits that a lease covered, for which the store was not asked. */
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
 * The statistics of one metric key, for as long as they are kept. Who holds one asks `slotOf` before each time it
 * counts: a metric that left may have lost its slots to another one.
 */
export interface RuleMetric {
  readonly key: string;
  /** The first of its slots; those of the overflow once it left. */
  slot: number;
  /** The last period in which it was used. `Infinity`: it never leaves; `-1`: it left. */
  lastUse: number;
}

/** What decisions need of the registry. */
export interface RuleStats {
  /**
   * `ratelimit.service.rate_limit.<metric key>`; the key is sanitised here. `perValue`: the key is made of what the
   * request says, so that there may be any number of them, and idle ones leave.
   */
  ruleMetric(metricKey: string, perValue: boolean): RuleMetric;
  /** Where to count for it now: its first slot. */
  slotOf(metric: RuleMetric): number;
  /** `ratelimit.service.rate_limit.<domain>.domain_not_found` += 1. */
  domainNotFound(domain: string): void;
  add(slot: number, amount: number): void;
}
