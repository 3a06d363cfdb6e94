/**
 * Joins rules, counters, local cache and statistics into decisions. A decision has two halves: `#prepare` before the
 * store counts and `#conclude` after it did; nothing is shared between two requests but what the store counts.
 */
import type { Clock } from '../../process/time/clock.ts';
import type { RuleMatcher } from '../../rules/match-result.ts';
import type { Entry } from '../../rules/model.ts';
import type { Override, OverrideEffect } from '../../rules/override.ts';
import {
  type DescriptorStatus,
  type RateLimitRequest,
  type RateLimitResponse,
  ServiceError,
} from '../decide/messages.ts';
import type { Plan, PlanSettings } from '../decide/plan.ts';
import {
  assembleResponse,
  okStatus,
  type ResponseOptions,
  type StoreFailureAnswer,
  tellsLimits,
  unlimitedStatus,
} from '../decide/response.ts';
import type { WindowOptions } from '../decide/windows.ts';
import type { RuleStats } from '../stats/registry/rule-stats.ts';
import type { BoundedLocalCache } from '../stores/local-cache.ts';
import { type Caller, callAbandoned, wasLeftOut } from '../stores/operation.ts';
import { countAll, type Store } from '../stores/store.ts';
import { StoreError } from '../stores/store-error.ts';
import { AnsweredHits } from './answered-hits.ts';
import { type BudgetOptions, BudgetService } from './budget-service.ts';
import type { Budgets } from './budgets.ts';
import {
  added,
  addendOf,
  type CountedHit,
  forgetRefunded,
  HitMaker,
  planHoldingBack,
} from './counted-hit.ts';
import type { LimitWarnings } from './limit-warnings.ts';
import { type Marked, MarkedDescriptors } from './marked-descriptors.ts';
import { PlansInForce } from './plans-in-force.ts';
import { type BudgetOutcome, type Held, noteNeverFits, noteReserved, Reserving } from './reserving.ts';
import { type HitsAsked, Verdicts } from './verdicts.ts';

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
  /** What became of a reserve or settle that was asked for. */
  onBudgetCall?: ((call: 'reserve' | 'settle', outcome: BudgetOutcome) => void) | undefined;
  /** So much of what nobody settled in time was given back. */
  onReservationsExpired?: ((hits: number) => void) | undefined;
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
  store: Store;
  /** Why the store keeps no reservations, for those who ask for one. Undefined: it does, unless it can keep no notes of them. */
  whyReservesNothing?: string | undefined;
  /** Undefined is off: LOCAL_CACHE_SIZE_IN_BYTES=0. */
  localCache: BoundedLocalCache | undefined;
  stats: RuleStats;
  clock: Clock;
  /** From 0 to below 1. */
  random: () => number;
  counting: CountingOptions;
  response: ResponseOptions;
  /** Undefined: nobody is told of marks. */
  warnings?: LimitWarnings | undefined;
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
interface Decision extends HitsAsked {
  readonly plans: readonly Plan[];
  /** One a descriptor, the first of its group; undefined where nothing is counted. */
  readonly hits: readonly (CountedHit | undefined)[];
  /** Those of `hits` that the store is asked for. */
  readonly ops: CountedHit[];
  /** Undefined: no descriptor is reserved or settled. */
  readonly marked: Marked | undefined;
}

const noOps: CountedHit[] = [];
const stopWhenOver = { stopWhenOver: true } as const;

export class RateLimitService {
  readonly #options: RateLimitServiceOptions;
  readonly #plans: PlansInForce;
  readonly #hits: HitMaker;
  readonly #verdicts: Verdicts;
  readonly #reserving: Reserving;
  readonly #marked: MarkedDescriptors;
  readonly #answered: AnsweredHits;
  /** Statuses say of which limit they are, and what is used of it. */
  readonly #tells: boolean;
  /** Metadata says what is held of quotas. */
  readonly #tellsReserved: boolean;

  constructor(options: RateLimitServiceOptions) {
    this.#options = options;
    this.#plans = new PlansInForce({ ...options, onPlansEnded: options.events.onPlansEnded });
    this.#hits = new HitMaker(options);
    this.#verdicts = new Verdicts(options, this.#plans);
    this.#reserving = new Reserving(options);
    this.#marked = new MarkedDescriptors(this.#reserving, options);
    this.#answered = new AnsweredHits(options.stats);
    this.#tellsReserved = options.response.dynamicMetadata && this.#reserving.reservesNothing === undefined;
    this.#tells = tellsLimits(options.response) || options.response.dynamicMetadata;
  }

  /** Decides by these rules from now on; requests at the store are concluded by those they began with. */
  useRules(matcher: RuleMatcher): void {
    this.#plans.useRules(matcher);
  }

  /** Decides with these over the rules from now on, each until it ends. */
  useOverrides(overrides: readonly Override[]): void {
    this.#plans.useOverrides(overrides);
  }

  /** Somebody reset these counters; undefined: nobody knows which. */
  forgetCounters(keys: readonly string[] | undefined): void {
    this.#plans.forgetCounters(keys);
  }

  /** For APIs, by the same rules. */
  budgets(options: BudgetOptions): Budgets {
    const parts = {
      plans: this.#plans,
      verdicts: this.#verdicts,
      reserving: this.#reserving,
      answered: this.#answered,
    };
    return new BudgetService({ ...parts, options: this.#options }, options);
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
      if (this.#tellsReserved && decided.response === undefined) {
        this.#orRefuse(decided, asker, () => {
          const statuses = this.#statuses(decision, this.#tells);
          this.#answerReserved(decision, statuses, decided, asker);
        });
        return;
      }
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
    if (decision.marked !== undefined) this.#decideMarked(decision, decided, asker);
    else this.#submit(decision, conclude);
  }

  #submit({ ops, asker }: Decision, conclude: () => void): void {
    if (ops.length === 0) {
      conclude();
      return;
    }
    for (const op of ops) op.caller = asker;
    // One alone is held back by nobody in the store, but may be by what the local cache remembers.
    const stop =
      this.#options.counting.stopCacheKeyIncrementWhenOverLimit &&
      (ops.length > ops[0]!.groupSize || ops[0]!.verb === 'peek');
    this.#options.store.submit(ops, stop ? stopWhenOver : countAll, conclude);
  }

  /** Settles in any case; what is counted decides whether anything is reserved. */
  #decideMarked<Asker extends Caller>(decision: Decision, decided: Decided<Asker>, asker: Asker): void {
    const marked = decision.marked!;
    const tells = this.#tells || decided.response !== undefined;
    const { plans } = decision;
    let statuses: DescriptorStatus[];
    const addVerdicts = (all: readonly Held[]): void => {
      const hits = all.length === 1 ? all[0]!.hits : all.flatMap((one) => one.hits);
      if (wasLeftOut(hits)) throw callAbandoned;
      if (hits.some(({ error }) => error !== undefined)) this.#verdicts.acceptFailures(hits);
      for (const one of all) {
        const { hits, index } = one;
        const status = this.#verdicts.statusOf(hits[0]!, decision, index, tells);
        noteNeverFits(status, one);
        if (hits[0]!.counter.warns) this.#options.warnings?.tell(hits[0]!, status);
        if (this.#tellsReserved) noteReserved(status, one);
        statuses[index] = status;
      }
    };
    const orRefuse = (step: () => void): void => this.#orRefuse(decided, asker, step);
    const answer = (): void => {
      if (this.#tellsReserved && decided.response === undefined) {
        this.#answerReserved(decision, statuses, decided, asker);
        return;
      }
      decided.answer(this.#answerTo(decision, statuses, decided.response), asker, plans);
    };
    this.#marked.settle(marked, (settled) =>
      this.#submit(decision, () =>
        orRefuse(() => {
          statuses = this.#statuses(decision, tells);
          addVerdicts(settled);
          if (!this.#marked.letsReserve(marked, statuses)) {
            this.#marked.refuse(marked);
            answer();
            return;
          }
          this.#marked.reserve(marked, statuses, (reserved) =>
            orRefuse(() => {
              addVerdicts(reserved);
              answer();
            }),
          );
        }),
      ),
    );
  }

  #orRefuse<Asker extends Caller>(decided: Decided<Asker>, asker: Asker, step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#noteRefusal(error);
      decided.refuse(error, asker);
    }
  }

  /** With what is held of its quotas, for which the store may have to be asked once more. */
  #answerReserved<Asker extends Caller>(
    decision: Decision,
    statuses: DescriptorStatus[],
    decided: Decided<Asker>,
    asker: Asker,
  ): void {
    const { plans } = decision;
    this.#reserving.addReserved(plans, statuses, asker, () =>
      this.#orRefuse(decided, asker, () =>
        decided.answer(this.#answerTo(decision, statuses, undefined), asker, plans),
      ),
    );
  }

  /** Throws a `ServiceError` for a request that cannot be decided; nothing is counted then. */
  #prepare(request: RateLimitRequest, asker: Caller): Decision {
    const nowMs = this.#options.clock.nowMs();
    const plans = this.#plans.plan(request, nowMs);
    return this.#gatherHits(request, plans, nowMs, asker);
  }

  /** Counts the hits as asked in the rules' statistics, whatever becomes of the request, and picks those that the store is to count. */
  #gatherHits(request: RateLimitRequest, plans: readonly Plan[], nowMs: number, asker: Caller): Decision {
    let hits: (CountedHit | undefined)[] | undefined;
    let ops: CountedHit[] | undefined;
    let marked: Marked | undefined;
    for (let index = 0; index < plans.length; index++) {
      const plan = plans[index]!;
      if (plan.kind !== 'limited') {
        if (plan.kind === 'domain-not-found') this.#plans.noteNoDomain(request.domain);
        else if (plan.kind === 'unlimited' && plan.metrics !== undefined)
          this.#hits.countUnlimited(plan.metrics, request, index);
        hits = added(hits, undefined);
        continue;
      }
      const descriptor = request.descriptors[index]!;
      const { limits, marker } = plan;
      if (marker !== undefined && !descriptor.isNegativeHits) {
        marked ??= { request, plans, asker, settling: [], reserving: [] };
        (marker.settles ? marked.settling : marked.reserving).push(index);
        hits = added(hits, undefined);
        continue;
      }
      const addend = addendOf(descriptor, request);
      const verb = descriptor.isNegativeHits ? 'refund' : 'add';
      const hit = this.#hits.hit(limits[0]!, addend, verb, nowMs);
      hits = added(hits, hit);
      if (limits.length > 1) {
        ops ??= [];
        this.#hits.addGroup(hit, limits, nowMs, ops);
      } else if (!hit.remembered) ops = added(ops, hit);
    }
    const { counting, response } = this.#options;
    if (counting.stopCacheKeyIncrementWhenOverLimit && plans.length > 1)
      planHoldingBack(plans, hits!, response.quotaMode);
    return { request, epoch: this.#plans.epoch, plans, hits: hits!, ops: ops ?? noOps, marked, asker };
  }

  #conclude(decision: Decision, own: ResponseOptions | undefined): RateLimitResponse {
    return this.#answerTo(decision, this.#statuses(decision, this.#tells || own !== undefined), own);
  }

  /** Makes the answer, and counts the hits of the request by it. */
  #answerTo(
    decision: Decision,
    statuses: DescriptorStatus[],
    own: ResponseOptions | undefined,
  ): RateLimitResponse {
    const { request, plans } = decision;
    const { response, events } = this.#options;
    const answer = assembleResponse({ request, plans, statuses }, own ?? response, events);
    this.#answered.count(decision, answer.overallCode);
    return answer;
  }

  /** Throws the `StoreError` of the first counter that failed, unless failed counters have an answer. */
  #statuses(decision: Decision, tells: boolean): DescriptorStatus[] {
    const { plans, hits, ops } = decision;
    const { localCache, warnings } = this.#options;
    let anyFailed = false;
    for (const op of ops) if (op.error !== undefined) anyFailed = true;
    if (anyFailed && wasLeftOut(ops)) throw callAbandoned;
    if (localCache !== undefined) forgetRefunded(ops, localCache);
    if (anyFailed) this.#verdicts.acceptFailures(ops);
    let statuses: DescriptorStatus[] | undefined;
    for (let index = 0; index < plans.length; index++) {
      const hit = hits[index];
      const other = plans[index]!.kind === 'unlimited' ? unlimitedStatus : okStatus;
      const status = hit !== undefined ? this.#verdicts.statusOf(hit, decision, index, tells) : other;
      if (hit?.counter.warns === true) warnings?.tell(hit, status);
      statuses = added(statuses, status);
    }
    return statuses!;
  }

  #noteRefusal(error: unknown): void {
    const { events } = this.#options;
    if (error === callAbandoned) events.onAbandoned();
    else if (error instanceof StoreError) events.onStoreError(error);
    else if (error instanceof ServiceError) events.onServiceError();
  }
}
