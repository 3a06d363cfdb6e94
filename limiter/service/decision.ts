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
  /** The epoch of the plans in force when the store was asked. */
  readonly epoch: number;
  readonly asker: Caller;
}

export interface Decision extends HitsAsked {
  readonly plans: readonly Plan[];
  /** One per descriptor, the first of its group; undefined if nothing is counted. */
  readonly hits: readonly (CountedHit | undefined)[];
  /** The hits that are sent to the store. */
  readonly ops: CountedHit[];
  /** Undefined: no descriptor has marker entries. */
  readonly marked: Marked | undefined;
}

/** Indexes of descriptors with marker entries. */
export interface Marked {
  readonly settling: number[];
  readonly reserving: number[];
}

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

/** What the service reports itself, besides the statistics of rules. */
export interface ServiceEvents {
  /** A request was refused for what it is: call.should_rate_limit.service_error. */
  onServiceError(): void;
  /** A request failed with its counter: call.should_rate_limit.redis_error. Once a request. */
  onStoreError(error: StoreError): void;
  /** A request with a counter that failed was answered nevertheless, by STORE_FAILURE_MODE. Once a request; the first error. */
  onUncounted(error: StoreError): void;
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

/** What becomes of calls about reservations, for statistics. `full` is of a counter. `failed`: the store could not be asked. */
export type BudgetOutcome =
  | Exclude<Reservation['outcome' | 'settled'], 'partial'>
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
