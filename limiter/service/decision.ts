/**
 * A decision is one value that passes through phases, one file each:
 *
 *     prepare ──► commit ──► count ──► reserve ──► respond
 *        │                    ▲  │                   ▲
 *        └── no markers ──────┘  └── no markers ─────┘
 *
 * `prepare` plans the descriptors and creates their hits. `commit` commits reservations that the request names by marker entries.
 * `count` sends the hits to the store. `reserve` holds the amounts of marked descriptors if nothing else limits the request.
 * `respond` creates the statuses, the statistics and the answer. `rate-limit-service.ts` calls the phases. Two decisions share
 * nothing except the counters in the store.
 */
import type { Entry } from '../../rules/model.ts';
import type { OverrideEffect } from '../../rules/override.ts';
import type { LimitPlan, Plan } from '../decide/limit-plan.ts';
import type { RateLimitRequest } from '../decide/messages.ts';
import type { PlanSettings } from '../decide/plan.ts';
import type { StoreFailureAnswer } from '../decide/response.ts';
import type { WindowOptions } from '../decide/windows.ts';
import type { Caller, Operation, Reservation } from '../stores/operation.ts';
import type { StoreError } from '../stores/store-error.ts';

/** The hits of one limit of a descriptor, on their way to the store and back. */
export type CountedHit = Operation<LimitPlan>;

/** The request that hits belong to. */
export interface HitsAsked {
  readonly request: RateLimitRequest;
  /** The epoch of the plans that were in force when the store was asked. */
  readonly epoch: number;
  readonly asker: Caller;
}

export interface Decision extends HitsAsked {
  readonly plans: readonly Plan[];
  /** One for each descriptor: the first hit of its group, or undefined if nothing is counted. */
  readonly hits: readonly (CountedHit | undefined)[];
  /** The hits that are sent to the store. */
  readonly ops: CountedHit[];
  /** Undefined: no descriptor has marker entries. */
  readonly marked: Readonly<MarkerIndexes> | undefined;
}

/** Indexes of descriptors with marker entries. */
export interface MarkerIndexes {
  committing: readonly number[];
  reserving: readonly number[];
}

export interface CountingOptions extends PlanSettings, WindowOptions {
  /** EXPIRATION_JITTER_MAX_SECONDS: a counter lives up to this much longer. 0 or less: no jitter. */
  expirationJitterMaxSeconds: number;
  /**
   * Whether counters end with their window. Otherwise they end a whole window, plus the jitter, after their first hit. True for a store
   * in which old counters would take the room of current ones.
   */
  countersEndWithWindow: boolean;
  /** STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT. */
  stopCacheKeyIncrementWhenOverLimit: boolean;
  /** STORE_FAILURE_MODE: the answer for a descriptor whose counter failed. `error` fails the request. */
  storeFailureMode: StoreFailureAnswer;
}

/** The events that the service reports in addition to the statistics of rules. */
export interface ServiceEvents {
  /** A request was invalid: call.should_rate_limit.service_error. */
  onServiceError(): void;
  /** A request failed because of the store: call.should_rate_limit.redis_error. Called once per request. */
  onStoreError(error: StoreError): void;
  /** STORE_FAILURE_MODE answered a request whose counter failed. Called once per request, with the first error. */
  onUncounted(error: StoreError): void;
  /** A caller gave up before its request was sent to the store, so nothing was counted. Called once per request. */
  onAbandoned(): void;
  /** Hits of one descriptor exceeded its limit, whether or not they passed. */
  onOverLimit?: ((domain: string, hit: CountedHit, overLimit: number) => void) | undefined;
  /** An override decided these hits. */
  onOverridden?: ((effect: OverrideEffect['kind'], hits: number) => void) | undefined;
  /** The outcome of a call that reserves, commits or releases. */
  onBudgetCall?: ((call: 'reserve' | 'settle', outcome: BudgetOutcome) => void) | undefined;
  /** This amount of expired reservations was returned to the counters. */
  onReservationsExpired?: ((hits: number) => void) | undefined;
  /** Limits may have changed: new rules or overrides, or an override ended. */
  onPlansEnded?: (() => void) | undefined;
  /** Hits of a descriptor with these entries were over a limit. Of several limits, the event reports the one that stays over longest. */
  onRequestOverLimit?:
    | ((hit: CountedHit, entries: readonly Entry[], used: number, asker: Caller) => void)
    | undefined;
  /** SHADOW_MODE turned OVER_LIMIT into OK: global_shadow_mode. */
  onGlobalShadow(): void;
}

/** Outcomes of calls about reservations, for statistics. `full`: a counter has no room. `failed`: the store could not be asked. */
export type BudgetOutcome =
  | Exclude<Reservation['outcome' | 'commitOutcome'], 'partial'>
  | 'full_domain'
  | 'full_caller'
  | 'full_memory'
  | 'failed';
export const budgetOutcomes: Readonly<Record<'reserve' | 'settle', readonly BudgetOutcome[]>> = {
  reserve: [
    ...(['reserved', 'repeated', 'refused', 'conflict', 'failed'] as const),
    ...(['full', 'full_domain', 'full_caller', 'full_memory'] as const),
  ],
  settle: ['settled', 'late', 'repeated', 'unknown', 'conflict', 'failed'],
};
