/** Decides requests. It calls the phases of a decision, which decision.ts describes. */
import type { Clock } from '../../process/time/clock.ts';
import type { RuleMatcher } from '../../rules/match-result.ts';
import type { Override } from '../../rules/override.ts';
import type { Plan } from '../decide/limit-plan.ts';
import { type RateLimitRequest, ServiceError } from '../decide/messages.ts';
import { isQuota } from '../decide/plan.ts';
import { type ResponseOptions, reportsLimits } from '../decide/response.ts';
import type { DescriptorStatus, RateLimitResponse } from '../decide/response-message.ts';
import type { RuleStats } from '../stats/registry/rule-stats.ts';
import type { BoundedLocalCache } from '../stores/local-cache.ts';
import { type Caller, callAbandoned, wasLeftOut } from '../stores/operation.ts';
import type { ReservationStore, Store } from '../stores/store.ts';
import { StoreError } from '../stores/store-error.ts';
import { Commit } from './commit.ts';
import { Count } from './count.ts';
import type { CountingOptions, Decision, ServiceEvents } from './decision.ts';
import { HitStatuses } from './hit-statuses.ts';
import type { LimitWarnings } from './limit-warnings.ts';
import { PlansInForce } from './plans-in-force.ts';
import { HitMaker, Prepare } from './prepare.ts';
import { Reserve } from './reserve.ts';
import {
  chargesExpired,
  type DescriptorHold,
  noteReserved,
  Reserving,
  statusOfReserved,
} from './reserving.ts';
import { AnsweredHits, Respond } from './respond.ts';

export interface RateLimitServiceOptions {
  store: Store;
  /** Decorates `store`. Undefined: calls about reservations go to `store`, and hits do not return expired reservations. */
  reservations?: ReservationStore | undefined;
  /** The same as in `ReservingOptions`. */
  whyReservesNothing?: string | undefined;
  /** Undefined: off (LOCAL_CACHE_SIZE_IN_BYTES=0). */
  localCache: BoundedLocalCache | undefined;
  stats: RuleStats;
  clock: Clock;
  /** Returns a random number from 0 to below 1. */
  random: () => number;
  counting: CountingOptions;
  response: ResponseOptions;
  /** Undefined: thresholds of `warn_at` are not reported. */
  warnings?: LimitWarnings | undefined;
  events: ServiceEvents;
}

/** The receiver of a decision. One of the two is called once per request, possibly before `decide` returns. */
export interface Decided<Asker extends Caller> {
  /** The response options for its answers; their statuses contain everything. Undefined: the options of the service. */
  readonly response?: ResponseOptions | undefined;
  /** `plans`: one per descriptor. */
  answer(response: RateLimitResponse, asker: Asker, plans: readonly Plan[]): void;
  /** `error` is a `ServiceError`, a `StoreError`, or any other error, which indicates a bug. */
  reject(error: unknown, asker: Asker): void;
}

/** The parts of the service that it shares with the APIs for reservations. */
export interface DecisionParts {
  /** The store of reservations. */
  readonly store: Store;
  readonly clock: Clock;
  readonly warnings: LimitWarnings | undefined;
  readonly events: Pick<ServiceEvents, 'onGlobalShadow'>;
  readonly isQuota: (plan: Plan) => boolean;
  readonly hits: HitMaker;
  readonly plans: PlansInForce;
  readonly hitStatuses: HitStatuses;
  readonly reserving: Reserving;
  readonly answered: AnsweredHits;
}

const noHolds: readonly DescriptorHold[] = [];

export class RateLimitService {
  readonly #events: ServiceEvents;
  readonly #parts: DecisionParts;
  readonly #prepare: Prepare;
  readonly #commit: Commit;
  readonly #count: Count;
  readonly #reserve: Reserve;
  readonly #respond: Respond;
  /** Statuses contain their limit, and how much of it is used. */
  readonly #reports: boolean;
  /** Metadata contains the reserved amounts of quotas. */
  readonly #reportsReserved: boolean;

  constructor(options: RateLimitServiceOptions) {
    const { events, response, stats, whyReservesNothing, warnings } = options;
    const { quotaMode } = response;
    const parts = {
      ...options,
      store: options.reservations ?? options.store,
      whyReservesNothing,
      warnings,
      isQuota: (plan: Plan) => isQuota(plan, quotaMode),
      hits: new HitMaker(options),
      plans: new PlansInForce({ ...options, onPlansEnded: events.onPlansEnded }),
      answered: new AnsweredHits(stats),
    };
    const reserving = new Reserving(parts);
    const hitStatuses = new HitStatuses({ ...options, chargesExpired }, parts.plans);
    this.#events = events;
    this.#parts = { ...parts, reserving, hitStatuses };
    this.#prepare = new Prepare(parts);
    this.#commit = new Commit(reserving, parts.isQuota);
    this.#count = new Count({ ...options, hitStatuses });
    this.#reserve = new Reserve({ ...parts, reserving });
    this.#respond = new Respond({ ...parts, hitStatuses });
    // Without reservations, requests pass no code of reservations.
    this.#reportsReserved = response.dynamicMetadata && reserving.reservesNothing === undefined;
    this.#reports = reportsLimits(response) || response.dynamicMetadata;
  }

  /** Decides by these rules from now on. Requests that wait for the store are decided by the rules with which they began. */
  useRules(matcher: RuleMatcher): void {
    this.#parts.plans.useRules(matcher);
  }

  /** Applies these overrides from now on, until each of them ends. */
  useOverrides(overrides: readonly Override[]): void {
    this.#parts.plans.useOverrides(overrides);
  }

  /** An operator reset these counters. Undefined: it is unknown which. */
  forgetCounters(keys: readonly string[] | undefined): void {
    this.#parts.plans.forgetCounters(keys);
  }

  get parts(): DecisionParts {
    return this.#parts;
  }

  /** Decides a request. It never throws. All requests of a listener use the same `decided`. `asker` identifies who made this request. */
  decide<Asker extends Caller>(request: RateLimitRequest, asker: Asker, decided: Decided<Asker>): void {
    let decision: Decision;
    try {
      decision = this.#prepare.prepare(request, asker);
    } catch (error) {
      this.#reject(error, decided, asker);
      return;
    }
    if (decision.marked !== undefined) {
      this.#decideMarked(decision, decided, asker);
      return;
    }
    this.#count.submit(decision, () => this.#answerCounted(decision, decided, asker));
  }

  /** This must not throw after the store has counted, because other requests of this turn follow. */
  #answerCounted<Asker extends Caller>(decision: Decision, decided: Decided<Asker>, asker: Asker): void {
    let response: RateLimitResponse;
    try {
      const own = decided.response;
      if (!this.#count.check(decision)) {
        this.#count.giveBack(decision, () => this.#answerCounted(decision, decided, asker));
        return;
      }
      const statuses = this.#respond.statuses(decision, this.#reports || own !== undefined);
      if (this.#reportsReserved && own === undefined) {
        this.#answerReserved(decision, statuses, decided, asker);
        return;
      }
      response = this.#respond.answer(decision, statuses, own);
    } catch (error) {
      this.#reject(error, decided, asker);
      return;
    }
    decided.answer(response, asker, decision.plans);
  }

  /** Commits in any case. Only if the counted hits allow the request is anything reserved. */
  #decideMarked<Asker extends Caller>(decision: Decision, decided: Decided<Asker>, asker: Asker): void {
    if (decision.marked!.committing.length === 0) this.#countMarked(decision, noHolds, decided, asker);
    else this.#commit.commit(decision, (held) => this.#countMarked(decision, held, decided, asker));
  }

  #countMarked<Asker extends Caller>(
    decision: Decision,
    committed: readonly DescriptorHold[],
    decided: Decided<Asker>,
    asker: Asker,
  ): void {
    this.#count.submit(decision, () => this.#reserveMarked(decision, committed, decided, asker));
  }

  #reserveMarked<Asker extends Caller>(
    decision: Decision,
    committed: readonly DescriptorHold[],
    decided: Decided<Asker>,
    asker: Asker,
  ): void {
    try {
      if (!this.#count.check(decision)) {
        this.#count.giveBack(decision, () => this.#reserveMarked(decision, committed, decided, asker));
        return;
      }
      const reports = this.#reports || decided.response !== undefined;
      const statuses = this.#respond.statuses(decision, reports);
      this.#addStatuses(decision, committed, statuses, reports);
      if (this.#reserve.letsReserve(decision, statuses)) {
        this.#reserve.reserve(decision, statuses, (reserved) =>
          this.#answerMarked(decision, reserved, statuses, decided, asker),
        );
        return;
      }
      this.#reserve.reject(decision);
      this.#answerMarked(decision, noHolds, statuses, decided, asker);
    } catch (error) {
      this.#reject(error, decided, asker);
    }
  }

  #answerMarked<Asker extends Caller>(
    decision: Decision,
    reserved: readonly DescriptorHold[],
    statuses: DescriptorStatus[],
    decided: Decided<Asker>,
    asker: Asker,
  ): void {
    try {
      const own = decided.response;
      this.#addStatuses(decision, reserved, statuses, this.#reports || own !== undefined);
      if (this.#reportsReserved && own === undefined)
        this.#answerReserved(decision, statuses, decided, asker);
      else decided.answer(this.#respond.answer(decision, statuses, own), asker, decision.plans);
    } catch (error) {
      this.#reject(error, decided, asker);
    }
  }

  /** Writes the statuses of committed and reserved descriptors. */
  #addStatuses(
    decision: Decision,
    all: readonly DescriptorHold[],
    statuses: DescriptorStatus[],
    reports: boolean,
  ): void {
    if (all.length === 0) return;
    const { hitStatuses } = this.#parts;
    const counted = all.length === 1 ? all[0]!.hits : all.flatMap(({ hits }) => hits);
    if (wasLeftOut(counted)) throw callAbandoned;
    if (counted.some(({ error }) => error !== undefined)) hitStatuses.acceptFailures(counted);
    for (const one of all) {
      const status = statusOfReserved(this.#parts, one, decision, { reports });
      if (this.#reportsReserved) noteReserved(status, one);
      statuses[one.index] = status;
    }
  }

  /** Adds the reserved amounts of the request's quotas. This may require a call of the store. */
  #answerReserved<Asker extends Caller>(
    decision: Decision,
    statuses: DescriptorStatus[],
    decided: Decided<Asker>,
    asker: Asker,
  ): void {
    const { plans } = decision;
    this.#parts.reserving.addReserved(plans, statuses, asker, () => {
      try {
        decided.answer(this.#respond.answer(decision, statuses, undefined), asker, plans);
      } catch (error) {
        this.#reject(error, decided, asker);
      }
    });
  }

  #reject<Asker extends Caller>(error: unknown, decided: Decided<Asker>, asker: Asker): void {
    const events = this.#events;
    if (error === callAbandoned) events.onAbandoned();
    else if (error instanceof StoreError) events.onStoreError(error);
    else if (error instanceof ServiceError) events.onServiceError();
    decided.reject(error, asker);
  }
}
