/** Plans the descriptors, and creates the hits for the store. decision.ts lists the phases of a decision. */
import type { Clock } from '../../process/time/clock.ts';
import type { Override } from '../../rules/override.ts';
import type { LimitPlan, Plan } from '../decide/limit-plan.ts';
import type { Descriptor, RateLimitRequest } from '../decide/messages.ts';
import { enterWindow } from '../decide/plan.ts';
import { CurrentWindows } from '../decide/windows.ts';
import { type RuleMetric, RuleStat, type RuleStats } from '../stats/registry/rule-stats.ts';
import type { BoundedLocalCache } from '../stores/local-cache.ts';
import { asksForHits, type Caller, newOperation, type Verb } from '../stores/operation.ts';
import type { CountedHit, CountingOptions, Decision, MarkerIndexes, ServiceEvents } from './decision.ts';
import type { PlansInForce } from './plans-in-force.ts';

export interface PrepareOptions {
  readonly clock: Clock;
  readonly plans: PlansInForce;
  readonly hits: HitMaker;
  readonly counting: Pick<CountingOptions, 'stopCacheKeyIncrementWhenOverLimit'>;
  /** Returns true for all limits with QUOTA_MODE. */
  readonly isQuota: (plan: Plan) => boolean;
}

const noOps: CountedHit[] = [];
const noIndexes: readonly number[] = [];

/** Returns an array that reserves no space for further items, which few requests need. */
export function appended<T>(list: readonly T[], item: T): T[] {
  return list.length === 0 ? [item] : list.toSpliced(list.length, 0, item);
}

export class Prepare {
  readonly #options: PrepareOptions;
  readonly #plans: PlansInForce;
  readonly #hits: HitMaker;

  constructor(options: PrepareOptions) {
    this.#options = options;
    this.#plans = options.plans;
    this.#hits = options.hits;
  }

  /**
   * Counts the requested hits in the rules' statistics, whatever the outcome, and selects the hits for the store. Throws a
   * `ServiceError` for a request that cannot be decided; nothing is counted then.
   */
  prepare(request: RateLimitRequest, asker: Caller): Decision {
    const nowMs = this.#options.clock.nowMs();
    const plans = this.#plans.plan(request, nowMs);
    // An array that is created with its length reserves no space for further elements.
    const hits = new Array<CountedHit | undefined>(plans.length);
    let ops: CountedHit[] | undefined;
    let marked: MarkerIndexes | undefined;
    for (let index = 0; index < plans.length; index++) {
      const plan = plans[index]!;
      if (plan.kind !== 'limited') {
        if (plan.kind === 'domain-not-found') this.#plans.noteNoDomain(request.domain);
        else if (plan.kind === 'unlimited' && plan.metrics !== undefined)
          this.#hits.countUnlimited(plan.metrics, request, index);
        continue;
      }
      const descriptor = request.descriptors[index]!;
      const { limits, marker } = plan;
      if (marker !== undefined && !descriptor.isNegativeHits) {
        marked ??= { committing: noIndexes, reserving: noIndexes };
        if (marker.commits) marked.committing = appended(marked.committing, index);
        else marked.reserving = appended(marked.reserving, index);
        continue;
      }
      const addend = addendOf(descriptor, request);
      const verb = descriptor.isNegativeHits ? 'refund' : 'add';
      const hit = this.#hits.hit(limits[0]!, addend, verb, nowMs);
      hits[index] = hit;
      if (limits.length > 1) {
        ops ??= [];
        this.#hits.addGroup(hit, limits, nowMs, ops);
      } else if (!hit.remembered) {
        if (ops === undefined) ops = [hit];
        else ops.push(hit);
      }
    }
    const { counting, isQuota } = this.#options;
    if (counting.stopCacheKeyIncrementWhenOverLimit && plans.length > 1)
      planStopWhenOver(plans, hits, isQuota);
    return { request, epoch: this.#plans.epoch, plans, hits, ops: ops ?? noOps, marked, asker };
  }
}

/**
 * Implements stop-when-over: sets for each hit how it affects the others. Hits are held back exactly when the totals before the request
 * would reject the request as a whole (`overallCode`, regardless of SHADOW_MODE). If the local cache knows that a limit rejects the
 * request, the other counters are only read. There is one hit per plan, the first of its group, or undefined if nothing is counted.
 */
function planStopWhenOver(
  plans: readonly Plan[],
  hits: readonly (CountedHit | undefined)[],
  isQuota: (plan: Plan) => boolean,
): void {
  let isRejected = false;
  let quotaIsNeverOver = false;
  let quotasRemembered = 0;
  let quotasAsked = 0;
  for (let index = 0; index < plans.length; index++) {
    const hit = hits[index];
    const canBeOverLimit = hit !== undefined && hit.verb !== 'refund' && !hit.counter.rule.shadowMode;
    if (isQuota(plans[index]!)) {
      if (!canBeOverLimit) quotaIsNeverOver = true;
      else if (hit.remembered) quotasRemembered++;
      else quotasAsked++;
      if (hit !== undefined) hit.holdsBack = 'together';
    } else if (canBeOverLimit && hit.remembered) {
      isRejected = true;
    }
    if (hit !== undefined && !canBeOverLimit) hit.holdsBack = 'never';
  }
  if (!quotaIsNeverOver && quotasRemembered > 0 && quotasAsked === 0) isRejected = true;
  for (const hit of hits) {
    if (hit === undefined) continue;
    if (quotaIsNeverOver && hit.holdsBack === 'together') hit.holdsBack = 'never';
    if (isRejected && hit.verb !== 'refund') hit.verb = 'peek';
    if (hit.group === undefined) continue;
    for (const other of hit.group) {
      other.holdsBack = hit.holdsBack;
      other.verb = hit.verb;
    }
  }
}

export interface HitMakerOptions {
  readonly stats: RuleStats;
  readonly localCache: BoundedLocalCache | undefined;
  readonly clock: Clock;
  /** A random number from 0 to below 1. */
  readonly random: () => number;
  readonly counting: CountingOptions;
  readonly events: Pick<ServiceEvents, 'onOverridden'>;
}

/** Creates the hits of plans, counts them in the statistics of the rules, and finds their windows. */
export class HitMaker {
  readonly #options: HitMakerOptions;
  readonly #windows: CurrentWindows;

  constructor(options: HitMakerOptions) {
    this.#options = options;
    this.#windows = new CurrentWindows(options.counting);
  }

  /**
   * Returns the hits of one limit, and counts them in its statistics unless they are the amount of a reservation. The store is asked
   * unless they are `remembered`.
   */
  hit(plan: LimitPlan, hits: number, verb: Verb, nowMs: number): CountedHit {
    const { localCache, random, counting, clock, events, stats } = this.#options;
    // Refunded hits count only in a statistic of their own.
    if (verb === 'add') stats.add(stats.slotOf(plan.metric) + RuleStat.totalHits, hits);
    else if (verb === 'refund') stats.add(stats.slotOf(plan.metric) + RuleStat.totalNegativeHits, hits);
    const nowSeconds = Math.floor(nowMs / 1000);
    let window = plan.window;
    if (window === undefined || nowSeconds >= window.endSeconds || nowSeconds < window.startSeconds) {
      window = enterWindow(plan, this.#windows.at(plan.limit, plan.isOwn, nowSeconds));
    }
    const key = plan.key;
    const { endSeconds, lifeSeconds } = window;
    const isSteady = endSeconds === Number.POSITIVE_INFINITY;
    let secondsToReset = isSteady ? plan.secondsUncounted : endSeconds - nowSeconds;
    let ttlSeconds = isSteady ? lifeSeconds! : secondsToReset;
    if (!counting.countersEndWithWindow) {
      // The whole window from the first hit on, or the rest of a calendar month.
      if (lifeSeconds !== undefined) ttlSeconds = lifeSeconds;
      const jitter = counting.expirationJitterMaxSeconds;
      if (jitter > 0) ttlSeconds += Math.floor(random() * jitter);
    }
    // An operation that takes nothing only reads the counter, and bounds never reject it.
    const asks = asksForHits(verb);
    const asksCache = localCache !== undefined && asks && (hits > 0 || plan.bound === undefined);
    // A wait is not a date, because the wall clock may be adjusted.
    const cacheMs = asksCache && isSteady ? clock.monotonicMs() : nowMs;
    const fullUntilMs = asksCache ? localCache.until(key, cacheMs) : 0;
    let full = fullUntilMs !== 0;
    if (full && isSteady) secondsToReset = Math.max(1, Math.ceil((fullUntilMs - cacheMs) / 1000));
    let isBlocked = false;
    const { override } = plan;
    if (override !== undefined && (asks || verb === 'look')) {
      const { kind } = override.effect;
      if (asks) events.onOverridden?.(kind, hits);
      // A blocked hit is not counted, so that it does not put callers over the limit when the block ends.
      if (kind === 'block') {
        secondsToReset = secondsOfBlock(override, nowMs) ?? secondsToReset;
        full = true;
        isBlocked = true;
      }
    }
    const hit = newOperation(plan, key, verb, hits, ttlSeconds);
    hit.secondsToReset = secondsToReset;
    if (!isSteady && !isBlocked) hit.windowEndSeconds = endSeconds;
    if (full) {
      hit.full = true;
      hit.remembered = true;
    }
    if (plan.maxLease !== 0) hit.mayReturn = true;
    return hit;
  }

  /** Asks the store for all limits, or for none if the local cache knows that one of them is full. */
  addGroup(first: CountedHit, limits: readonly LimitPlan[], nowMs: number, ops: CountedHit[]): void {
    const group: CountedHit[] = [];
    let remembered = false;
    for (const plan of limits) {
      const hit = group.length === 0 ? first : this.hit(plan, first.hits, first.verb, nowMs);
      hit.groupSize = limits.length;
      if (hit.remembered) remembered = true;
      group.push(hit);
    }
    first.group = group;
    first.remembered = remembered;
    if (!remembered) for (const hit of group) ops.push(hit);
  }

  /** Counts hits that an override decided. The limiter does not ask the store, but the statistics of the rule include the hits. */
  countUnlimited(metrics: readonly RuleMetric[], request: RateLimitRequest, index: number): void {
    const { stats, events } = this.#options;
    const descriptor = request.descriptors[index]!;
    const addend = addendOf(descriptor, request);
    if (!descriptor.isNegativeHits) events.onOverridden?.('unlimited', addend);
    for (const metric of metrics) {
      const slot = stats.slotOf(metric);
      if (descriptor.isNegativeHits) stats.add(slot + RuleStat.totalNegativeHits, addend);
      else {
        stats.add(slot + RuleStat.totalHits, addend);
        stats.add(slot + RuleStat.withinLimit, addend);
      }
    }
  }
}

/** Returns the seconds until an override stops blocking a limit. Returns undefined if the block has no end. */
function secondsOfBlock({ endsMs }: Override, nowMs: number): number | undefined {
  if (endsMs === undefined) return undefined;
  return Math.max(1, Math.ceil((endsMs - nowMs) / 1000));
}

/** Returns the descriptor's own addend, even if it is 0. Without one, returns the addend of the request, which counts as at least 1. */
export function addendOf(descriptor: Descriptor, request: RateLimitRequest): number {
  return descriptor.hitsAddend ?? Math.max(1, request.hitsAddend);
}
