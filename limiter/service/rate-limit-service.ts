/**
 * Joins rules, counters, local cache and statistics into decisions. A decision has two halves: `#prepare` before the
 * store counts and `#conclude` after it did; nothing is shared between two requests but what the store counts.
 */
import type { Clock } from '../../process/time/clock.ts';
import type { RuleMatcher } from '../../rules/match-result.ts';
import type { Entry } from '../../rules/model.ts';
import type { Override, OverrideEffect } from '../../rules/overrides/override.ts';
import { OverrideIndex } from '../../rules/overrides/override-index.ts';
import {
  Assessment,
  assessRefund,
  assessRefused,
  assessRemembered,
  assessTotal,
  countAssessment,
} from '../decide/assess.ts';
import {
  type DescriptorStatus,
  type RateLimitRequest,
  type RateLimitResponse,
  ServiceError,
} from '../decide/messages.ts';
import {
  applyReplaces,
  enterWindow,
  type LimitPlan,
  type Plan,
  Planner,
  type PlanSettings,
} from '../decide/plan.ts';
import {
  assembleResponse,
  okStatus,
  type ResponseOptions,
  type StoreFailureAnswer,
  tellsLimits,
  uncountedStatus,
  unlimitedStatus,
} from '../decide/response.ts';
import { type WindowOptions, Windows } from '../decide/windows.ts';
import { leasedHitsStat, type RuleMetric, RuleStat, type RuleStats } from '../stats/registry/rule-stats.ts';
import {
  type Caller,
  type CounterStore,
  callAbandoned,
  StoreError,
  wasLeftOut,
} from '../stores/counter-store.ts';
import type { BoundedLocalCache } from '../stores/local-cache.ts';
import {
  added,
  addendOf,
  type CountedHit,
  forgetRefunded,
  planHoldingBack,
  secondsToReset,
  statusOfHit,
  usedOf,
} from './counted-hit.ts';

export interface CountingOptions extends PlanSettings, WindowOptions {
  /** EXPIRATION_JITTER_MAX_SECONDS: a counter lives up to this much longer. 0 and less: no jitter. */
  expirationJitterMaxSeconds: number;
  /**
   * Counters end with their window instead of a whole window, and the jitter, after their first hit: for a store in
   * which those that are over would take the room of those in force.
   */
  countersEndWithWindow: boolean;
  /** STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT. */
  stopCacheKeyIncrementWhenOverLimit: boolean;
  /** STORE_FAILURE_MODE: what a descriptor gets whose counter failed. `error` fails the request. */
  storeFailureMode: StoreFailureAnswer;
}

/** What the service tells of itself, besides the statistics of rules. */
export interface ServiceEvents {
  /** A request was refused for what it is: call.should_rate_limit.service_error. */
  onServiceError(): void;
  /** A request failed with its counter: call.should_rate_limit.redis_error. Once a request. */
  onStoreError(error: StoreError): void;
  /** A request with a counter that failed was answered nevertheless, by STORE_FAILURE_MODE. Once a request. */
  onUncounted(): void;
  /** A caller gave up before anything of its request was sent to the store: it was not counted. Once a request. */
  onAbandoned(): void;
  /** Hits of one descriptor exceeded its limit, whether or not they were let pass. Undefined: nobody wants to know. */
  onOverLimit?: ((domain: string, hit: CountedHit, overLimit: number) => void) | undefined;
  /** Hits that an override decided over. */
  onOverridden?: ((effect: OverrideEffect['kind'], hits: number) => void) | undefined;
  /** Other limits may hold from now on: rules or overrides came, or an override ended. */
  onPlansEnded?: (() => void) | undefined;
  /**
   * A limit refused hits of a descriptor with these entries; of several limits that which refuses longest. Undefined: nobody
   * wants to know.
   */
  onRefused?: ((hit: CountedHit, entries: readonly Entry[], used: number, asker: Caller) => void) | undefined;
  /** SHADOW_MODE made an OVER_LIMIT an OK: global_shadow_mode. */
  onGlobalShadow(): void;
}

export interface RateLimitServiceOptions {
  store: CounterStore;
  /** Undefined is off: LOCAL_CACHE_SIZE_IN_BYTES=0. */
  localCache: BoundedLocalCache | undefined;
  stats: RuleStats;
  clock: Clock;
  /** From 0 to below 1. */
  random: () => number;
  counting: CountingOptions;
  response: ResponseOptions;
  events: ServiceEvents;
}

/** Whom a decision goes to. Called once a request, with one of the two; possibly before `decide` returns. */
export interface Decided<Asker extends Caller> {
  /** How its answers are made, and that their statuses tell all; undefined: as those of the service. */
  readonly response?: ResponseOptions | undefined;
  /** `plans`: one a descriptor. */
  answer(response: RateLimitResponse, asker: Asker, plans: readonly Plan[]): void;
  /** A `ServiceError`, a `StoreError`, or whatever else went wrong, which is then a fault of ours. */
  refuse(error: unknown, asker: Asker): void;
}

/** A request between its two halves. */
interface Decision {
  readonly request: RateLimitRequest;
  /** Of what may be remembered, when the store was asked. */
  readonly epoch: number;
  readonly plans: readonly Plan[];
  /** One a descriptor, the first of its group; undefined where nothing is counted. */
  readonly hits: readonly (CountedHit | undefined)[];
  /** Those of `hits` that the store is asked for. */
  readonly ops: CountedHit[];
  readonly asker: Caller;
}

const noOps: CountedHit[] = [];
const countAll = { stopWhenOver: false } as const;
const stopWhenOver = { stopWhenOver: true } as const;

export class RateLimitService {
  readonly #options: RateLimitServiceOptions;
  readonly #windows: Windows;
  /** Reused by all descriptors: it holds nothing between two of them. */
  readonly #assessment = new Assessment();
  #matcher: RuleMatcher | undefined;
  /** Undefined: nothing lies over the rules. */
  #overrides: OverrideIndex | undefined;
  /** Statuses say of which limit they are, and what is used of it. */
  readonly #tells: boolean;
  #planner: Planner | undefined;
  /** Grows with rules and resets: what the store was asked before is not remembered after. */
  #epoch = 0;

  constructor(options: RateLimitServiceOptions) {
    this.#options = options;
    this.#windows = new Windows(options.counting);
    this.#tells = tellsLimits(options.response);
  }

  /** Decides by these rules from now on; requests at the store are concluded by those they began with. */
  useRules(matcher: RuleMatcher): void {
    this.#matcher = matcher;
    this.#planAnew(matcher, this.#options.clock.nowMs());
  }

  /** Decides with these over the rules from now on, each until it ends. */
  useOverrides(overrides: readonly Override[]): void {
    this.#overrides = overrides.length === 0 ? undefined : new OverrideIndex(overrides);
    if (this.#matcher !== undefined) this.#planAnew(this.#matcher, this.#options.clock.nowMs());
  }

  /** What was remembered by other limits may be wrong now. */
  #planAnew(matcher: RuleMatcher, nowMs: number): Planner {
    const { stats, counting, localCache, events } = this.#options;
    const overrides = this.#overrides && { index: this.#overrides, nowMs };
    const planner = new Planner(matcher, stats, counting, overrides);
    this.#planner = planner;
    this.#epoch += 1;
    localCache?.clear();
    events.onPlansEnded?.();
    return planner;
  }

  /** Somebody reset these counters; undefined: nobody knows which. */
  forgetCounters(keys: readonly string[] | undefined): void {
    const { localCache } = this.#options;
    this.#epoch += 1;
    if (keys === undefined) localCache?.clear();
    else for (const key of keys) localCache?.forget(key);
  }

  /** Never throws. `decided` is one object for all requests of a listener, `asker` whoever made this one. */
  decide<Asker extends Caller>(request: RateLimitRequest, asker: Asker, decided: Decided<Asker>): void {
    let decision: Decision;
    try {
      decision = this.#prepare(request, asker);
    } catch (error) {
      this.#noteRefusal(error);
      decided.refuse(error, asker);
      return;
    }
    // Must not throw once the store has counted, as other requests' turns come after this one.
    const conclude = (): void => {
      let response: RateLimitResponse;
      try {
        response = this.#conclude(decision, decided.response);
      } catch (error) {
        this.#noteRefusal(error);
        decided.refuse(error, asker);
        return;
      }
      decided.answer(response, asker, decision.plans);
    };
    const ops = decision.ops;
    if (ops.length === 0) {
      conclude();
      return;
    }
    for (const op of ops) op.caller = asker;
    // One alone is held back by nobody in the store, but may be by what the local cache remembers.
    const stop =
      this.#options.counting.stopCacheKeyIncrementWhenOverLimit &&
      (ops.length > ops[0]!.groupSize || ops[0]!.lookOnly);
    this.#options.store.submit(ops, stop ? stopWhenOver : countAll, conclude);
  }

  /** Throws a `ServiceError` for a request that cannot be decided; nothing is counted then. */
  #prepare(request: RateLimitRequest, asker: Caller): Decision {
    const { domain, descriptors } = request;
    if (domain === '') throw new ServiceError('rate limit domain must not be empty');
    if (descriptors.length === 0) throw new ServiceError('rate limit descriptor list must not be empty');
    let planner = this.#planner;
    if (planner === undefined)
      throw new ServiceError('no rate limit configuration loaded', { transient: true });
    const nowMs = this.#options.clock.nowMs();
    if (nowMs >= planner.staleAtMs) planner = this.#planAnew(this.#matcher!, nowMs);
    for (let index = 0; index < descriptors.length; index++) {
      // No store can add it.
      if (descriptors[index]!.hitsAddend !== Number.POSITIVE_INFINITY) continue;
      throw new ServiceError(`hits_addend of descriptor ${index} must be at most 9223372036854775807`);
    }
    // Most requests have one, and an array that begins with its element has no room to spare.
    const plans: Plan[] = [planner.plan(domain, descriptors[0]!)];
    for (let index = 1; index < descriptors.length; index++) {
      plans.push(planner.plan(domain, descriptors[index]!));
    }
    let replaces = false;
    for (let index = 0; index < plans.length; index++) {
      const { rule } = plans[index]!;
      if (rule !== undefined && rule.replaces.length > 0) replaces = true;
    }
    if (replaces) applyReplaces(plans);
    return this.#gatherHits(request, plans, nowMs, asker);
  }

  /** Counts the hits as asked in the rules' statistics, whatever becomes of the request, and picks those that the store is to count. */
  #gatherHits(request: RateLimitRequest, plans: readonly Plan[], nowMs: number, asker: Caller): Decision {
    let hits: (CountedHit | undefined)[] | undefined;
    let ops: CountedHit[] | undefined;
    for (let index = 0; index < plans.length; index++) {
      const plan = plans[index]!;
      if (plan.kind !== 'limited') {
        if (plan.kind === 'domain-not-found') this.#options.stats.domainNotFound(request.domain);
        else if (plan.kind === 'unlimited' && plan.metrics !== undefined)
          this.#countUnlimited(plan.metrics, request, index);
        hits = added(hits, undefined);
        continue;
      }
      const descriptor = request.descriptors[index]!;
      const addend = addendOf(descriptor, request);
      const { limits } = plan;
      const hit = this.#countedHit(limits[0]!, addend, descriptor.isNegativeHits, nowMs);
      hits = added(hits, hit);
      if (limits.length > 1) {
        ops ??= [];
        this.#gatherGroup(hit, limits, nowMs, ops);
      } else if (!hit.remembered) ops = added(ops, hit);
    }
    const { counting, response } = this.#options;
    if (counting.stopCacheKeyIncrementWhenOverLimit && plans.length > 1)
      planHoldingBack(plans, hits!, response.quotaMode);
    return { request, epoch: this.#epoch, plans, hits: hits!, ops: ops ?? noOps, asker };
  }

  /** By an override: the store is not asked, and the rule's statistics go on. */
  #countUnlimited(metrics: readonly RuleMetric[], request: RateLimitRequest, index: number): void {
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

  /** The store is asked for all of them or, where the local cache knows one to be full, for none. */
  #gatherGroup(first: CountedHit, limits: readonly LimitPlan[], nowMs: number, ops: CountedHit[]): void {
    const group: CountedHit[] = [];
    let remembered = false;
    for (const plan of limits) {
      const hit = group.length === 0 ? first : this.#countedHit(plan, first.hits, first.negative, nowMs);
      hit.groupSize = limits.length;
      if (hit.remembered) remembered = true;
      group.push(hit);
    }
    first.group = group;
    first.remembered = remembered;
    if (!remembered) for (const hit of group) ops.push(hit);
  }

  #countedHit(plan: LimitPlan, hits: number, negative: boolean, nowMs: number): CountedHit {
    const { stats, localCache, random, counting, clock, events } = this.#options;
    // Hits taken back are no hits: they count in their own statistic alone.
    stats.add(stats.slotOf(plan.metric) + (negative ? RuleStat.totalNegativeHits : RuleStat.totalHits), hits);
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
      // From the first hit on the whole length, or the rest of a calendar month.
      if (lifeSeconds !== undefined) ttlSeconds = lifeSeconds;
      const jitter = counting.expirationJitterMaxSeconds;
      if (jitter > 0) ttlSeconds += Math.floor(random() * jitter);
    }
    // What takes nothing looks, and a bound refuses it never.
    const asksCache = localCache !== undefined && !negative && (hits > 0 || plan.bound === undefined);
    // A wait has no date: the clock of dates may be set.
    const cacheMs = asksCache && isSteady ? clock.monotonicMs() : nowMs;
    const fullUntilMs = asksCache ? localCache.until(key, cacheMs) : 0;
    let full = fullUntilMs !== 0;
    if (full && isSteady) secondsToReset = Math.max(1, Math.ceil((fullUntilMs - cacheMs) / 1000));
    const { override } = plan;
    if (override !== undefined && !negative) {
      const { kind } = override.effect;
      events.onOverridden?.(kind, hits);
      // A block is not counted, so that nobody is over for it when it ends.
      if (kind === 'block') full = true;
    }
    return {
      plan,
      key,
      hits,
      negative,
      ttlSeconds,
      limit: plan.capacity,
      secondsToReset,
      windowEndSeconds: isSteady ? 0 : endSeconds,
      full,
      remembered: full,
      group: undefined,
      perSecond: plan.perSecond,
      caller: undefined,
      lookOnly: false,
      holdsBack: 'alone',
      bound: plan.bound,
      groupSize: 1,
      leaseMost: plan.leaseMost,
      lease: undefined,
      applied: 0,
      after: 0,
      over: false,
      waitMicros: 0,
      held: undefined,
      leased: 0,
      mayReturn: plan.leaseMost !== 0,
      fromLease: false,
      error: undefined,
    };
  }

  /** Throws the `StoreError` of the first counter that failed, unless failed counters have an answer. */
  #conclude(decision: Decision, own: ResponseOptions | undefined): RateLimitResponse {
    const { request, plans, hits, ops } = decision;
    const { response, events, localCache } = this.#options;
    const tells = this.#tells || own !== undefined;
    let anyFailed = false;
    for (const op of ops) if (op.error !== undefined) anyFailed = true;
    if (anyFailed && wasLeftOut(ops)) throw callAbandoned;
    if (localCache !== undefined) forgetRefunded(ops, localCache);
    if (anyFailed) this.#acceptFailures(ops);
    let statuses: DescriptorStatus[] | undefined;
    for (let index = 0; index < plans.length; index++) {
      const hit = hits[index];
      const other = plans[index]!.kind === 'unlimited' ? unlimitedStatus : okStatus;
      statuses = added(statuses, hit !== undefined ? this.#statusOf(hit, decision, index, tells) : other);
    }
    return assembleResponse({ request, plans, statuses: statuses! }, own ?? response, events);
  }

  #acceptFailures(ops: readonly CountedHit[]): void {
    for (const { error } of ops) {
      if (error === undefined) continue;
      const hasAnswer = this.#options.counting.storeFailureMode !== 'error' && error instanceof StoreError;
      if (!hasAnswer) throw error;
    }
    this.#options.events.onUncounted();
  }

  /** Of several limits that which refuses longest, else that of which the least is left. */
  #statusOf(hit: CountedHit, decision: Decision, index: number, tells: boolean): DescriptorStatus {
    const { group, remembered } = hit;
    const assessment = this.#assessment;
    if (group === undefined) {
      if (hit.error !== undefined) return uncountedStatus(hit, this.#options.counting.storeFailureMode);
      this.#assess(hit, decision);
      if (assessment.refused) this.#noteRefused(hit, decision, index);
      return statusOfHit(hit, assessment.refused, assessment.remaining, secondsToReset(hit), tells);
    }
    for (const { error } of group) if (error !== undefined) return this.#uncountedGroup(group);
    let chosen: CountedHit | undefined;
    let over = false;
    let refused = false;
    let remaining = 0;
    let seconds = 0;
    for (const one of group) {
      // The others were neither asked for nor known.
      if (remembered && !one.full) continue;
      this.#assess(one, decision);
      const itsSeconds = secondsToReset(one);
      const isOver = assessment.over;
      const isTighter = isOver ? itsSeconds > seconds : assessment.remaining < remaining;
      if (chosen !== undefined && (isOver === over ? !isTighter : over)) continue;
      chosen = one;
      over = isOver;
      refused = assessment.refused;
      remaining = assessment.remaining;
      seconds = itsSeconds;
    }
    if (refused) this.#noteRefused(chosen!, decision, index);
    return statusOfHit(chosen!, refused, remaining, seconds, tells);
  }

  #noteRefused(hit: CountedHit, { request, asker }: Decision, index: number): void {
    const { onRefused } = this.#options.events;
    if (onRefused !== undefined) onRefused(hit, request.descriptors[index]!.entries, usedOf(hit), asker);
  }

  /** They fail together. */
  #uncountedGroup(group: readonly CountedHit[]): DescriptorStatus {
    const longest = group.reduce((one, other) => (other.secondsToReset > one.secondsToReset ? other : one));
    return uncountedStatus(longest, this.#options.counting.storeFailureMode);
  }

  /** Writes the assessment, and counts it in the limit's statistics. */
  #assess(hit: CountedHit, { epoch, request }: Decision): void {
    const { stats, localCache, events } = this.#options;
    const { plan, hits, after, leased } = hit;
    const assessment = this.#assessment;
    if (hit.full) {
      assessRemembered(plan, hits, assessment);
      if (plan.override?.effect.kind === 'block') assessment.overLimitWithLocalCache = 0;
    } else if (hit.negative || (plan.bound !== undefined && !hit.over && hit.applied < hits)) {
      // Refused by another limit, the hits count in no statistic of what passed.
      assessRefund(plan, after + leased, assessment);
    } else {
      if (hit.over) assessRefused(plan, hits, after, assessment);
      else assessTotal(plan, hits, after, leased, assessment);
      // Rules that came meanwhile may allow more, and a counter that was reset has hits left.
      if (assessment.over && !hit.mayReturn && localCache !== undefined && epoch === this.#epoch) {
        this.#remember(hit, localCache);
      }
    }
    const slot = stats.slotOf(plan.metric);
    countAssessment(stats, slot, assessment);
    if (hit.fromLease) stats.add(slot + leasedHitsStat, hits);
    if (assessment.overLimit !== 0) events.onOverLimit?.(request.domain, hit, assessment.overLimit);
  }

  /** Until a single hit would pass; not at all where fewer hits than these would pass now. */
  #remember(hit: CountedHit, localCache: BoundedLocalCache): void {
    if (hit.windowEndSeconds !== 0) {
      if (hit.bound === undefined || hit.after >= hit.limit)
        localCache.remember(hit.key, hit.windowEndSeconds * 1000);
    } else if (hit.after >= hit.limit) {
      localCache.remember(hit.key, this.#options.clock.monotonicMs() + Math.floor(hit.waitMicros / 1000));
    }
  }

  #noteRefusal(error: unknown): void {
    const { events } = this.#options;
    if (error === callAbandoned) events.onAbandoned();
    else if (error instanceof StoreError) events.onStoreError(error);
    else if (error instanceof ServiceError) events.onServiceError();
  }
}
