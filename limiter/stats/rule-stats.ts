/**
 * The counters of one metric key stand side by side in the registry's array, so that a decision holds one number
 * and adds an offset. Names: reference section 8.1.
 */
export const ruleStatNames = [
  'total_hits',
  'over_limit',
  'near_limit',
  'over_limit_with_local_cache',
  'within_limit',
  'shadow_mode',
  'total_negative_hits',
] as const;
export type RuleStatName = (typeof ruleStatNames)[number];

/** Offsets from the first slot of a metric key. */
export const RuleStat = {
  totalHits: 0,
  overLimit: 1,
  nearLimit: 2,
  overLimitWithLocalCache: 3,
  withinLimit: 4,
  shadowMode: 5,
  totalNegativeHits: 6,
} as const;

/** What decisions need of the registry. */
export interface RuleStats {
  /** First of the slots of `ratelimit.service.rate_limit.<metric key>`; the key is sanitised here. */
  ruleSlot(metricKey: string): number;
  /** `ratelimit.service.rate_limit.<domain>.domain_not_found` += 1. */
  domainNotFound(domain: string): void;
  add(slot: number, amount: number): void;
}
