/** Turns counted hits into the status of a descriptor, counts them in statistics, and reports them. */
import type { Clock } from '../../process/time/clock.ts';
import type { LimitPlan } from '../decide/limit-plan.ts';
import { Code } from '../decide/messages.ts';
import { uncountedStatus } from '../decide/response.ts';
import type { DescriptorStatus } from '../decide/response-message.ts';
import { leasedHitsStat, RuleStat, type RuleStats } from '../stats/registry/rule-stats.ts';
import { maxTotal } from '../stores/folded-run.ts';
import type { BoundedLocalCache } from '../stores/local-cache.ts';
import { asksForHits } from '../stores/operation.ts';
import { StoreError } from '../stores/store-error.ts';
import type { CountedHit, CountingOptions, HitsAsked, ServiceEvents } from './decision.ts';

export interface HitStatusOptions {
  readonly stats: RuleStats;
  readonly localCache: BoundedLocalCache | undefined;
  readonly clock: Clock;
  readonly counting: CountingOptions;
  /** Whether reservations for this limit are charged when they expire. They may still be committed for less. */
  readonly chargesExpired: (plan: LimitPlan) => boolean;
  readonly events: Pick<ServiceEvents, 'onUncounted' | 'onOverLimit' | 'onRequestOverLimit'>;
}

export class HitStatuses {
  readonly #options: HitStatusOptions;
  readonly #inForce: { readonly epoch: number };
  /** Reused by all descriptors. It holds no state between two of them. */
  readonly #assessment: Assessment;

  constructor(options: HitStatusOptions, inForce: { readonly epoch: number }) {
    this.#options = options;
    this.#assessment = new Assessment(options.stats);
    this.#inForce = inForce;
  }

  /** Throws the first error that STORE_FAILURE_MODE does not answer. */
  acceptFailures(ops: readonly CountedHit[]): void {
    let first: StoreError | undefined;
    for (const { error } of ops) {
      if (error === undefined) continue;
      const hasAnswer = this.#options.counting.storeFailureMode !== 'error' && error instanceof StoreError;
      if (!hasAnswer) throw error;
      first ??= error;
    }
    if (first !== undefined) this.#options.events.onUncounted(first);
  }

  /** Returns the status of hits of the given descriptor. `reports`: whether the status names its limit and the used amount. */
  statusOf(first: CountedHit, decision: HitsAsked, index: number, reports: boolean): DescriptorStatus {
    const { group } = first;
    const assessment = this.#assessment;
    let hit = first;
    if (group !== undefined) {
      for (const { error } of group) if (error !== undefined) return this.#uncountedGroup(group);
      hit = this.#assessGroup(group, first.remembered, decision);
    } else {
      if (first.error !== undefined) return uncountedStatus(first, this.#options.counting.storeFailureMode);
      this.#assess(first, decision);
    }
    const { over, rejected, remaining: limitRemaining } = assessment;
    if (rejected) this.#noteOverLimit(hit, decision, index);
    const code = rejected ? Code.OVER_LIMIT : Code.OK;
    const { counter: plan } = hit;
    const { currentLimit } = plan;
    const durationUntilResetSeconds = secondsToReset(hit, over);
    const status: DescriptorStatus = reports
      ? { code, currentLimit, limitRemaining, durationUntilResetSeconds, plan, used: usedOf(hit) }
      : { code, currentLimit, limitRemaining, durationUntilResetSeconds };
    if (hit.full && isBlockedForGood(plan)) status.neverPasses = true;
    return status;
  }

  /**
   * Assesses the hits of all limits of a rule. Returns those of the limit that rejects longest or, if no limit rejects them, of the limit
   * with the least left. Afterward, `#assessment` is that of the returned hits.
   */
  #assessGroup(group: readonly CountedHit[], isRemembered: boolean, decision: HitsAsked): CountedHit {
    const assessment = this.#assessment;
    let chosen: CountedHit | undefined;
    let over = false;
    let rejected = false;
    let remaining = 0;
    let seconds = 0;
    for (const one of group) {
      // The store was not asked for the others, and the local cache does not know them.
      if (isRemembered && !one.full) continue;
      this.#assess(one, decision);
      const isOver = assessment.over;
      const itsSeconds = secondsToReset(one, isOver);
      const isTighter = isOver ? itsSeconds > seconds : assessment.remaining < remaining;
      if (chosen !== undefined && (isOver === over ? !isTighter : over)) continue;
      chosen = one;
      over = isOver;
      rejected = assessment.rejected;
      remaining = assessment.remaining;
      seconds = itsSeconds;
    }
    assessment.over = over;
    assessment.rejected = rejected;
    assessment.remaining = remaining;
    return chosen!;
  }

  #noteOverLimit(hit: CountedHit, { request, asker }: HitsAsked, index: number): void {
    const { onRequestOverLimit } = this.#options.events;
    if (onRequestOverLimit !== undefined)
      onRequestOverLimit(hit, request.descriptors[index]!.entries, usedOf(hit), asker);
  }

  /** All hits of one descriptor fail together. */
  #uncountedGroup(group: readonly CountedHit[]): DescriptorStatus {
    const longest = group.reduce((one, other) => (other.secondsToReset > one.secondsToReset ? other : one));
    return uncountedStatus(longest, this.#options.counting.storeFailureMode);
  }

  /** Assesses the hits of one limit, and counts them in its statistics. */
  #assess(hit: CountedHit, { epoch, request }: HitsAsked): void {
    const { stats, localCache, events } = this.#options;
    const { counter: plan, hits, after, leased } = hit;
    const assessment = this.#assessment;
    if (request.foreseenHits !== undefined) foresee(hit, request.foreseenHits, this.#options.clock.nowMs());
    if (hit.full) {
      assessment.ofFull(plan, hits, plan.override?.effect.kind === 'block');
    } else if (!asksForHits(hit.verb) || (plan.bound !== undefined && !hit.over && hit.applied < hits)) {
      // If another limit rejected the hits, this limit does not count them as passed.
      assessment.passes(plan, after + leased);
    } else {
      if (hit.over) assessment.ofUncounted(plan, hits, after);
      else assessment.ofTotal(plan, hits, after, leased);
      // Newer rules may allow more, and a counter that was reset has hits left.
      const isCounted = request.foreseenHits === undefined && epoch === this.#inForce.epoch;
      if (assessment.over && isCounted && localCache !== undefined) this.#remember(hit, localCache);
    }
    if (hit.fromLease) stats.add(stats.slotOf(plan.metric) + leasedHitsStat, hits);
    if (assessment.overLimit !== 0) events.onOverLimit?.(request.domain, hit, assessment.overLimit);
  }

  /**
   * Remembers a full counter until a single hit would pass. It does not remember a counter if a smaller number of hits would pass now, or
   * if hits may be given back earlier.
   */
  #remember(hit: CountedHit, localCache: BoundedLocalCache): void {
    const { bound, capacity } = hit.counter;
    if (hit.mayReturn || this.#options.chargesExpired(hit.counter)) return;
    if (hit.windowEndSeconds !== 0) {
      if (bound === undefined || hit.after >= capacity)
        localCache.remember(hit.key, hit.windowEndSeconds * 1000);
    } else if (hit.after >= capacity) {
      localCache.remember(hit.key, this.#options.clock.monotonicMs() + Math.floor(hit.waitMicros / 1000));
    }
  }
}

/** The parts of a plan that an assessment needs. */
export type AssessedLimit = Pick<LimitPlan, 'capacity' | 'nearThreshold' | 'metric'> & {
  readonly rule: Pick<LimitPlan['rule'], 'shadowMode'>;
};

/** Compares hits with their limit, and counts them in the statistics of the limit. It has the outcome of the last call. */
export class Assessment {
  /** Whether the total exceeds the limit, also in shadow mode. */
  over = false;
  /** Whether the limit is `over` and not in shadow mode, so that the descriptor's code is OVER_LIMIT. */
  rejected = false;
  remaining = 0;
  /** The hits over the limit. */
  overLimit = 0;
  readonly #stats: RuleStats;

  constructor(stats: RuleStats) {
    this.#stats = stats;
  }

  /**
   * For a total from the store. `after` does not include hits that stop-when-over held back. These are assessed as if they were the last
   * of the total. `leased` hits are charged in addition, so less is left.
   */
  ofTotal(limit: AssessedLimit, hits: number, after: number, leased: number): void {
    const { capacity, nearThreshold: near } = limit;
    const stats = this.#stats;
    const slot = stats.slotOf(limit.metric);
    const before = after > hits ? after - hits : 0;
    if (after > capacity) {
      this.#exceeds(limit, slot, before >= capacity ? hits : after - capacity);
      if (before < capacity) stats.add(slot + RuleStat.nearLimit, capacity - Math.max(near, before));
      return;
    }
    this.passes(limit, after + leased);
    stats.add(slot + RuleStat.withinLimit, hits);
    if (after > near) stats.add(slot + RuleStat.nearLimit, before >= near ? hits : after - near);
  }

  /** For a counter that is known to be full, so that the store was not asked. `isBlocked`: because of an override. */
  ofFull(limit: AssessedLimit, hits: number, isBlocked: boolean): void {
    const slot = this.#stats.slotOf(limit.metric);
    this.#exceeds(limit, slot, hits);
    if (!isBlocked) this.#stats.add(slot + RuleStat.overLimitWithLocalCache, hits);
  }

  /** For hits that this limit did not count because they did not fit. `after` is the total without them. */
  ofUncounted(limit: AssessedLimit, hits: number, after: number): void {
    this.#exceeds(limit, this.#stats.slotOf(limit.metric), hits);
    this.remaining = Math.max(0, limit.capacity - after);
  }

  /** For hits that are neither over nor near the limit, such as refunded hits. `used`: how much of the limit is used. */
  passes({ capacity }: Pick<AssessedLimit, 'capacity'>, used: number): void {
    this.over = false;
    this.rejected = false;
    this.remaining = Math.max(0, capacity - used);
    this.overLimit = 0;
  }

  #exceeds({ rule }: AssessedLimit, slot: number, overLimit: number): void {
    this.over = true;
    this.rejected = !rule.shadowMode;
    this.remaining = 0;
    this.overLimit = overLimit;
    this.#stats.add(slot + RuleStat.overLimit, overLimit);
    if (rule.shadowMode) this.#stats.add(slot + RuleStat.shadowMode, overLimit);
  }
}

/** For a counter that was only read: determines whether this many hits would be over the limit, and how long they would have to wait. */
function foresee(hit: CountedHit, hits: number, nowMs: number): void {
  const { counter, after, leased, held, full } = hit;
  if (full || hits <= Math.max(0, counter.capacity - after - leased)) return;
  hit.over = true;
  // As for counted hits, the wait ends when a single hit passes.
  const isFull = after >= counter.capacity && held !== undefined;
  hit.waitMicros = isFull ? counter.bound!.untilRoomMicros(held, nowMs * 1000) : 0;
}

/**
 * Returns the whole seconds until the window ends. For a sliding window or a token bucket, the store reports the time: 0 if another hit
 * passes at once, and at least 1 if the hits are over the limit.
 */
export function secondsToReset(
  { windowEndSeconds, secondsToReset: known, full, waitMicros }: CountedHit,
  isOver: boolean,
): number {
  if (windowEndSeconds !== 0 || full) return known;
  return Math.max(isOver ? 1 : 0, Math.ceil(waitMicros / 1_000_000));
}

/** Returns how much of a limit is used, at most 2^53 - 1. A counter that the local cache knows to be full counts as the whole limit. */
export function usedOf({ full, counter, after, leased }: CountedHit): number {
  return full ? counter.capacity : Math.min(maxTotal, after + leased);
}

/** Whether an override without an end blocks a limit. */
function isBlockedForGood({ override }: LimitPlan): boolean {
  return override?.effect.kind === 'block' && override.endsMs === undefined;
}
