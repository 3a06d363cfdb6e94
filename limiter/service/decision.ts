/**
 * One decision is one value that phases pass on, a file each:
 *
 *     prepare ──► commit ──► count ──► reserve ──► respond
 *        │                    ▲  │                   ▲
 *        └── no markers ──────┘  └── no markers ─────┘
 *
 * `prepare` plans descriptors and makes their hits. `commit` settles reservations that the request names by marker entries. `count`
 * has the store count. `reserve` holds amounts of marked descriptors, if nothing else refuses the request. `respond` makes
 * statuses, statistics and the answer. `rate-limit-service.ts` calls them. Nothing is shared between two decisions but what the
 * store counts.
 */
import type { Entry } from '../../rules/model.ts';
import type { OverrideEffect } from '../../rules/override.ts';
import type { LimitPlan, Plan } from '../decide/limit-plan.ts';
import type { RateLimitRequest } from '../decide/messages.ts';
import type { PlanSettings } from '../decide/plan.ts';
import type { StoreFailureAnswer } from '../decide/response.ts';
import type { WindowOptions } from '../decide/windows.ts';
import type { Caller, Operation } from '../stores/operation.ts';
import type { StoreError } from '../stores/store-error.ts';
import type { BudgetOutcome } from './budgets.ts';

/** The hits of one limit of a descriptor, on their way to the store and back. One object a limit. */
export type CountedHit = Operation<LimitPlan>;

/** Whose hits they are. */
export interface HitsAsked {
  readonly request: RateLimitRequest;
  /** Of what may be remembered, when the store was asked. */
  readonly epoch: number;
  readonly asker: Caller;
}

export interface Decision extends HitsAsked {
  readonly plans: readonly Plan[];
  /** One a descriptor, the first of its group; undefined where nothing is counted. */
  readonly hits: readonly (CountedHit | undefined)[];
  /** Those of `hits` that the store is asked for. */
  readonly ops: CountedHit[];
  /** Undefined: no descriptor is reserved or settled. */
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

/** What the service tells of itself, besides the statistics of rules. */
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
