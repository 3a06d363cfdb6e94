/** Budgets as callers of an API know them: reserve, commit, release, and how they stand. */
import type { Limit } from '../../rules/model.ts';
import type { Plan } from '../decide/limit-plan.ts';
import type { Descriptor, Header, LeftOut } from '../decide/messages.ts';
import type { RequestTooLarge } from '../decide/request-bounds.ts';
import type { Caller } from '../stores/operation.ts';

/** Of a reservation's TTL; BUDGET_MAX_TTL is the most. */
export const leastTtlMs = 1_000;

/** Chosen: where a reservation does not say. */
export const defaultTtlMs = 60_000;

export interface BudgetQuestion {
  readonly domain: string;
  readonly descriptors: readonly Descriptor[];
  /** Amounts of single descriptors, by their index, where they differ from the amount of the question. */
  readonly amounts?: readonly (number | undefined)[] | undefined;
  /** As of a `RateLimitRequest`. */
  readonly leftOut?: LeftOut | undefined;
}

export interface ReserveQuestion extends BudgetQuestion {
  /** 0 to 2^53 - 1. Undefined: each descriptor has its own. */
  readonly amount: number | undefined;
  /** Undefined: `defaultTtlMs`, or BUDGET_MAX_TTL where that is less. */
  readonly ttlMs: number | undefined;
  /** The caller's own, which makes it repeatable in its domain; undefined: Weir makes one. */
  readonly id: string | undefined;
  /** Whether commit and release may come without descriptors. */
  readonly recalled: boolean;
}

/** What `recall` knows of a reservation. */
export interface RecalledReservation extends BudgetQuestion {
  /** No limit held it when it was made: it has nothing to settle, whatever limits it now, and no descriptors. */
  readonly isUnlimited: boolean;
}

export interface SettleQuestion extends BudgetQuestion {
  /** As `recall` says; undefined: it was not asked. */
  readonly isUnlimited?: boolean;
  /** Empty: nothing was reserved. Then `actual` is charged, whatever is left, and nothing is remembered of it. */
  readonly id: string;
  /** Undefined: the amount reserved. 0 for a release. */
  readonly actual: number | undefined;
  /** Of an unknown id: charge `actual` once, or only report. */
  readonly unknown: 'charge' | 'report';
  /** Those of the reserve, for a caller that has kept them: rules may have changed since. Undefined: by the rules in force. */
  readonly plans?: readonly Plan[];
}

/** How one counter of a budget stands. */
export interface BudgetScope {
  /** Index of the descriptor. */
  readonly descriptor: number;
  /** Where the rule stands, as elsewhere in /v1; undefined where it hides itself. */
  readonly rule: string | undefined;
  readonly limit: Limit;
  /** Of shadow mode, quota mode. */
  readonly isShadow: boolean;
  readonly isQuota: boolean;
  /** It refused the amount. */
  readonly refused: boolean;
  /** More is used than the limit allows. */
  readonly isExceeded: boolean;
  /** `reserved` is part of it. */
  readonly used: number;
  readonly reserved: number;
  /** Reservations that are open, and how long the oldest has been; undefined where there is none, or that was not asked. */
  readonly open: number;
  readonly oldestSeconds: number | undefined;
  readonly left: number;
  readonly resetSeconds: number;
  /** The highest of `warnAt` that is reached; undefined: none. */
  readonly mark: number | undefined;
}

/** A descriptor that no limit holds, so that nothing is reserved for it. */
export interface UnlimitedDescriptor {
  /** Its index. */
  readonly descriptor: number;
  /** As of a `BudgetScope`, of a rule that is unlimited; undefined as well where no rule matches, or another one replaces it. */
  readonly rule: string | undefined;
}

/** Why there is no answer; the message is for the caller, without secrets. */
export interface BudgetFailure {
  readonly failure: /** The question itself. */
    | 'invalid'
    /** The domain has no rules. */
    | 'no-domain'
    /** The id stands for another reservation. */
    | 'conflict'
    /** A bound on the number of reservations. */
    | 'full'
    /** This store can never do it. */
    | 'unsupported'
    /** The store is away, or there are no rules yet. */
    | 'unavailable';
  readonly message: string;
  /** Of an invalid question: a rule may be for what was left out of it. */
  readonly tooLarge?: RequestTooLarge;
  /** Of `full`: when there is room again at the latest. */
  readonly retryAfterSeconds?: number;
}

export interface ReserveAnswer {
  readonly allowed: boolean;
  readonly id: string;
  /** That of the question. */
  readonly amount: number | undefined;
  /** 0 where it was refused. */
  readonly expiresAtMs: number;
  readonly isRepeated: boolean;
  /** One a descriptor. */
  readonly plans: readonly Plan[];
  readonly scopes: readonly BudgetScope[];
  readonly unlimited: readonly UnlimitedDescriptor[];
  /** As of a hit that `/v1/check` answers: limit headers of the tightest, on a refusal Retry-After as well. */
  readonly headers: readonly Header[];
}

export interface SettleAnswer {
  readonly outcome: 'settled' | 'late' | 'repeated' | 'unknown';
  /** Of the first budget, where descriptors have amounts of their own; as `amount`, what had been reserved. */
  readonly charged: number;
  readonly amount: number;
  /** What a counter no longer held of the reservation, the most of any; undefined: nothing was lost. */
  readonly lost?: number | undefined;
  readonly scopes: readonly BudgetScope[];
}

/** `done` is called exactly once, possibly before they return. Rights are checked before. */
export interface Budgets {
  reserve(
    question: ReserveQuestion,
    asker: Caller,
    done: (answer: ReserveAnswer | BudgetFailure) => void,
  ): void;
  settle(question: SettleQuestion, asker: Caller, done: (answer: SettleAnswer | BudgetFailure) => void): void;
  status(
    question: BudgetQuestion,
    asker: Caller,
    done: (answer: readonly BudgetScope[] | BudgetFailure) => void,
  ): void;
  /**
   * Gives domain and descriptors of a reservation that was made with `recalled`, for a caller that settles it without
   * them; the caller's rights on that domain are to be checked then. `domain` may be undefined for an id that Weir made.
   * Undefined: there is no such reservation in the domain, or no longer.
   */
  recall(id: string, domain: string | undefined): Promise<RecalledReservation | undefined | BudgetFailure>;
}
