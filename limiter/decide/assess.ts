/** Computes the decision about one limit, and its statistics, from the hits and the total. */
import type { MatchedRule } from '../../rules/match-result.ts';
import { maxUint32 } from '../../rules/model.ts';
import { RuleStat, type RuleStats } from '../stats/registry/rule-stats.ts';

/**
 * Returns the hits above which a limit is near. It uses 32-bit floats, as the Go service does. A result above the limit (16777219 with a
 * ratio of 1) is replaced by the limit. Limits above 32 bits, which the Go service does not support, are computed exactly.
 */
export function nearThreshold(requestsPerUnit: number, ratio: number): number {
  if (requestsPerUnit > maxUint32) return Math.min(requestsPerUnit, Math.floor(requestsPerUnit * ratio));
  const product = Math.fround(Math.fround(requestsPerUnit) * Math.fround(ratio));
  return Math.min(requestsPerUnit, Math.floor(product));
}

/** The percentages of a limit at which answers carry a mark, and the number of hits that reaches each of them. Both lists ascend. */
export interface WarningMarks {
  readonly percents: readonly number[];
  readonly hits: readonly number[];
}

/** Returns the marks, or undefined if there are none. They are exact up to 2^53 - 1: a single product would be rounded. */
export function marksOf(percents: readonly number[], capacity: number): WarningMarks | undefined {
  if (percents.length === 0) return undefined;
  const hundreds = Math.floor(capacity / 100);
  const rest = capacity % 100;
  const hits = percents.map((percent) => hundreds * percent + Math.ceil((rest * percent) / 100));
  // With a limit of 0, the first hit reaches every threshold.
  return { percents, hits: hits.map((needed) => Math.max(1, needed)) };
}

/** Returns the number of reached thresholds. */
export function marksReached({ hits }: WarningMarks, used: number): number {
  let reached = 0;
  while (reached < hits.length && used >= hits[reached]!) reached++;
  return reached;
}

/** The outcome for one descriptor. It is filled in place, because each descriptor needs one. */
export class Assessment {
  /** Whether the total exceeds the limit, also in shadow mode. */
  over = false;
  /** Whether the limit is `over` and not in shadow mode, so that the descriptor's code is OVER_LIMIT. */
  rejected = false;
  remaining = 0;
  /** Amounts for the rule's statistics. */
  nearLimit = 0;
  overLimit = 0;
  overLimitWithLocalCache = 0;
  withinLimit = 0;
  shadowMode = 0;

  reset(): void {
    this.over = false;
    this.rejected = false;
    this.remaining = 0;
    this.nearLimit = 0;
    this.overLimit = 0;
    this.overLimitWithLocalCache = 0;
    this.withinLimit = 0;
    this.shadowMode = 0;
  }
}

/** The parts of a plan that an assessment needs. */
export interface Threshold {
  readonly rule: Pick<MatchedRule, 'shadowMode'>;
  readonly capacity: number;
  readonly nearThreshold: number;
}

/**
 * Assesses a total from the store. `after` does not include hits that stop-when-over held back. These are assessed as if they were the
 * last of the total. `leased` hits are charged in addition, so less is left.
 */
export function assessTotal(
  threshold: Threshold,
  hits: number,
  after: number,
  leased: number,
  into: Assessment,
): void {
  into.reset();
  const limit = threshold.capacity;
  const near = threshold.nearThreshold;
  const before = after > hits ? after - hits : 0;
  if (after <= limit) {
    into.remaining = after + leased < limit ? limit - after - leased : 0;
    into.withinLimit = hits;
    if (after > near) into.nearLimit = before >= near ? hits : after - near;
    return;
  }
  into.over = true;
  if (before >= limit) {
    into.overLimit = hits;
  } else {
    into.overLimit = after - limit;
    into.nearLimit = limit - Math.max(near, before);
  }
  overrule(threshold, into);
}

/** Assesses a counter that the local cache knows to be over its limit. The store was not asked. */
export function assessRemembered(threshold: Threshold, hits: number, into: Assessment): void {
  into.reset();
  into.over = true;
  into.overLimit = hits;
  into.overLimitWithLocalCache = hits;
  overrule(threshold, into);
}

/** Assesses refunded hits. They are always OK, and neither over nor near the limit. */
export function assessRefund(threshold: Threshold, after: number, into: Assessment): void {
  into.reset();
  into.remaining = Math.max(0, threshold.capacity - after);
}

/** Assesses hits that this limit did not count because they did not fit. `after` is the total without them. */
export function assessOverLimit(threshold: Threshold, hits: number, after: number, into: Assessment): void {
  into.reset();
  into.over = true;
  into.overLimit = hits;
  into.remaining = Math.max(0, threshold.capacity - after);
  overrule(threshold, into);
}

function overrule(threshold: Threshold, into: Assessment): void {
  if (threshold.rule.shadowMode) into.shadowMode = into.overLimit;
  else into.rejected = true;
}

/** Adds the amounts to the statistics of a rule. */
export function countAssessment(stats: RuleStats, slot: number, assessment: Assessment): void {
  const { nearLimit, overLimit, overLimitWithLocalCache, withinLimit, shadowMode } = assessment;
  if (withinLimit !== 0) stats.add(slot + RuleStat.withinLimit, withinLimit);
  if (nearLimit !== 0) stats.add(slot + RuleStat.nearLimit, nearLimit);
  if (overLimit !== 0) stats.add(slot + RuleStat.overLimit, overLimit);
  if (overLimitWithLocalCache !== 0) {
    stats.add(slot + RuleStat.overLimitWithLocalCache, overLimitWithLocalCache);
  }
  if (shadowMode !== 0) stats.add(slot + RuleStat.shadowMode, shadowMode);
}
