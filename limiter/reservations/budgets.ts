/** Budgets as callers of an API see them: reserve, commit, release, and status. */
import type { Limit } from '../../rules/model.ts';
import type { Plan } from '../decide/limit-plan.ts';
import type { Descriptor, Header, OmittedParts } from '../decide/messages.ts';
import type { RequestTooLarge } from '../decide/request-bounds.ts';
import type { Caller } from '../stores/operation.ts';

/** The minimum TTL of a reservation. BUDGET_MAX_TTL is the maximum. */
export const minTtlMs = 1_000;

/** Chosen: the TTL of a reservation that does not specify one. */
export const defaultTtlMs = 60_000;

export interface BudgetRequest {
  readonly domain: string;
  readonly descriptors: readonly Descriptor[];
  /** Amounts of single descriptors, by index, if they differ from the amount of the question. */
  readonly amounts?: readonly (number | undefined)[] | undefined;
  /** The same as in `RateLimitRequest`. */
  readonly leftOut?: OmittedParts | undefined;
}

export interface ReserveRequest extends BudgetRequest {
  /** A number from 0 to 2^53 - 1. Undefined: each descriptor has its own. */
  readonly amount: number | undefined;
  /** Undefined: `defaultTtlMs`, or BUDGET_MAX_TTL if that is less. */
  readonly ttlMs: number | undefined;
  /** The caller's id, which makes the call repeatable in its domain; undefined: Weir makes one. */
  readonly id: string | undefined;
  /** Whether commit and release may omit the descriptors. */
  readonly recalled: boolean;
}

/** The contents of a reservation that `recall` finds. */
export interface RecalledReservation extends BudgetRequest {
  /** Whether no limit applied when it was made. Then it has nothing to commit, whatever limits apply now, and no descriptors. */
  readonly isUnlimited: boolean;
}

export interface EndReservationRequest extends BudgetRequest {
  /** The value from `recall`. Undefined: `recall` was not called. */
  readonly isUnlimited?: boolean;
  /**
   * Empty: nothing was reserved. In this case, `actual` is charged regardless of the remaining hits, and the store has no record of the
   * call.
   */
  readonly id: string;
  /** Undefined: the reserved amount. 0 for a release. */
  readonly actual: number | undefined;
  /** What to do if the id is unknown: charge `actual` once, or only report. */
  readonly unknown: 'charge' | 'report';
  /**
   * The plans of the reserve, if the caller has stored them, because rules may have changed since. Undefined: the plans of the rules in
   * force.
   */
  readonly plans?: readonly Plan[];
}

/** The state of one counter of a budget. */
export interface BudgetScope {
  /** The index of the descriptor. */
  readonly descriptor: number;
  /** The path of the rule, as elsewhere in /v1. Undefined if the rule hides its identity. */
  readonly rule: string | undefined;
  readonly limit: Limit;
  /** Whether the rule is in shadow mode; `isQuota`: in quota mode. */
  readonly isShadow: boolean;
  readonly isQuota: boolean;
  /** Whether the amount did not fit into the counter. */
  readonly rejected: boolean;
  /** Whether more is used than the limit allows. */
  readonly isExceeded: boolean;
  /** The used amount, including `reserved`. */
  readonly used: number;
  readonly reserved: number;
  /** The number of open reservations, and the age of the oldest; undefined if there is none, or if it was not asked. */
  readonly open: number;
  readonly oldestSeconds: number | undefined;
  readonly left: number;
  readonly resetSeconds: number;
  /** The highest mark of `warnAt` that is reached; undefined: none. */
  readonly mark: number | undefined;
}

/** The state of the counters of a request. */
export interface BudgetStatus {
  readonly scopes: readonly BudgetScope[];
  /** Whether a descriptor without a limit counts as a quota that passes (QUOTA_MODE). */
  readonly otherQuotaPasses: boolean;
}

/** A descriptor to which no limit applies, so that nothing is reserved for it. */
export interface UnlimitedDescriptor {
  /** The index of the descriptor. */
  readonly descriptor: number;
  /** As in `BudgetScope`, for an unlimited rule; also undefined if no rule matches, or if another one replaces it. */
  readonly rule: string | undefined;
}

/** The reason why there is no answer. The message is for the caller and contains no secrets. */
export interface BudgetFailure {
  readonly failure: /** The question is invalid. */
    | 'invalid'
    /** The domain has no rules. */
    | 'no-domain'
    /** The id belongs to another reservation. */
    | 'conflict'
    /** A bound on the number of reservations is reached. */
    | 'full'
    /** This store never supports it. */
    | 'unsupported'
    /** The store is unavailable, or no rules are loaded yet. */
    | 'unavailable';
  readonly message: string;
  /** Set for an invalid question if entries were left out for which there may be a rule. */
  readonly tooLarge?: RequestTooLarge;
  /** For `full`: the latest time at which there is room again. */
  readonly retryAfterSeconds?: number;
}

export interface ReserveAnswer {
  readonly allowed: boolean;
  readonly id: string;
  /** The amount of the question. */
  readonly amount: number | undefined;
  /** 0 if the amount was rejected. */
  readonly expiresAtMs: number;
  readonly isRepeated: boolean;
  /** One plan for each descriptor. */
  readonly plans: readonly Plan[];
  readonly scopes: readonly BudgetScope[];
  readonly unlimited: readonly UnlimitedDescriptor[];
  /** The headers that `/v1/check` would add for a hit: limit headers of the tightest limit, and Retry-After if it was rejected. */
  readonly headers: readonly Header[];
}

export interface EndReservationAnswer {
  readonly outcome: 'settled' | 'late' | 'repeated' | 'unknown';
  /** The amount of the first budget, if descriptors have their own amounts. This also applies to the reserved `amount`. */
  readonly charged: number;
  readonly amount: number;
  /** The part of the reservation that a counter no longer held, the largest of all counters. Undefined: nothing was lost. */
  readonly lost?: number | undefined;
  readonly scopes: readonly BudgetScope[];
}

/** `done` is called exactly once, possibly before the method returns. Callers check rights before. */
export interface Budgets {
  reserve(
    question: ReserveRequest,
    asker: Caller,
    done: (answer: ReserveAnswer | BudgetFailure) => void,
  ): void;
  commit(
    question: EndReservationRequest,
    asker: Caller,
    done: (answer: EndReservationAnswer | BudgetFailure) => void,
  ): void;
  status(question: BudgetRequest, asker: Caller, done: (answer: BudgetStatus | BudgetFailure) => void): void;
  /**
   * Returns domain and descriptors of a reservation that was made with `recalled`, for a caller that settles it without them. The
   * caller's rights on that domain must be checked afterward. `domain` may be undefined for an id that Weir made. Returns undefined if
   * the domain has no such reservation, or no longer.
   */
  recall(id: string, domain: string | undefined): Promise<RecalledReservation | undefined | BudgetFailure>;
}
