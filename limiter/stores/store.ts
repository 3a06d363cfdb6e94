/** The interface of all stores of counters. A store knows keys and numbers, but neither rules nor requests. */
import type { CounterState } from '../algorithms/algorithm-bound.ts';
import type { Operation, ReachedReservationBound, ReservationOwner } from './operation.ts';

export interface SubmitOptions {
  /** If operations that would exceed their limits hold back others, the others are not counted. */
  stopWhenOver: boolean;
}

export const countAll: SubmitOptions = { stopWhenOver: false };

/** Memory, Redis, memcached, and their decorators, which `assembly/store.ts` lists in order. */
export interface Store {
  /** Whether the store can reach a server. While it cannot, every operation fails. Absent if it always can or if this is unknown. */
  readonly connected?: boolean;
  /**
   * Executes all operations of one request, or of one call about a reservation, and answers in place. Calls `done` exactly once,
   * possibly before it returns.
   */
  submit(operations: Operation[], options: SubmitOptions, done: () => void): void;
  /** The notes of reservations. Undefined if the store does not support reservations. */
  readonly notes?: Notes | undefined;
  /** The claims. Undefined if the store cannot determine which limiter is first. */
  readonly claims?: OnceClaims | undefined;
  /**
   * Resolves when the store has answered; rejects with a StoreError. A connection without an answer after `patienceMs` is replaced by
   * a new one, because a network may lose connections silently. Defaults to the timeout of the store.
   */
  ping(patienceMs?: number): Promise<void>;
  /** Closes connections and timers. Operations in progress are answered with an error. */
  close(): Promise<void>;
}

/** Base of decorators: passes all calls that a decorator does not change to the store that it decorates. */
export abstract class StoreDecorator implements Store {
  protected readonly store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  get connected(): boolean {
    return this.store.connected ?? true;
  }

  get notes(): Notes | undefined {
    return this.store.notes;
  }

  get claims(): OnceClaims | undefined {
    return this.store.claims;
  }

  abstract submit(operations: Operation[], options: SubmitOptions, done: () => void): void;

  ping(patienceMs?: number): Promise<void> {
    return this.store.ping(patienceMs);
  }

  close(): Promise<void> {
    return this.store.close();
  }
}

/** A store with reservations. Calls about reservations go through it; hits go to the store that it decorates. */
export interface ReservationStore extends Store {
  /**
   * For answered operations of one request of which some are over limit because of reservations that have expired (`hasExpired`):
   * returns what those held, and answers again. Calls `done` exactly once, possibly before it returns.
   */
  giveBack(operations: Operation[], options: SubmitOptions, done: () => void): void;
}

/** The reasons why a store with its settings can never support a capability. Undefined: it supports the capability. */
export interface UnsupportedReasons {
  /** Algorithms other than the fixed window. */
  readonly algorithms: string | undefined;
  /** Several limits of one rule, which count hits only together. */
  readonly groups: string | undefined;
  /** Reserve and commit. */
  readonly reservations: string | undefined;
  /** Shares of a counter for quota clients. */
  readonly shares: string | undefined;
}

/** A counter, as operators see it. */
export interface StoredCounter {
  /** The stored numbers. For a fixed window, they are the total and two zeros. */
  readonly held: CounterState;
  /** The hits of the total that limiters have leased and not yet reported. */
  readonly leased: number;
}

/** Claims ensure that something happens only once in a fleet, no matter which limiter notices it first. */
export interface OnceClaims {
  /** Whether the name was unclaimed during the last `seconds`: true for one caller only. Rejects with a StoreError. */
  claim(name: string, seconds: number): Promise<boolean>;
}

/** A note about a reservation that holds nothing. */
export interface Note {
  readonly id: string;
  readonly text: string;
  readonly ttlMs: number;
  readonly owner: ReservationOwner | undefined;
}

/** Changes of a tally of reservations: a number for each end time, in seconds since the epoch. */
export type TallyChanges = ReadonlyMap<number, number>;

/** The records of reservations that a store has in addition to their counters. */
export interface Notes {
  /** Reads the note of a reservation that is open or still remembered. Rejects with a StoreError. */
  recall(id: string): Promise<string | undefined>;
  /**
   * Stores a note for as long as a reservation with this TTL is remembered. If the id already has a note, resolves to its text and
   * changes nothing. If there is no room, resolves to the reason. Rejects with a StoreError.
   */
  note(note: Note): Promise<string | ReachedReservationBound | undefined>;
  /**
   * Adds to a tally that all limiters of the store share, and resolves to the whole tally. Undefined if only one limiter uses the store.
   * Rejects with a StoreError.
   */
  readonly share?:
    | ((name: string, changes: TallyChanges, nowMs: number) => Promise<TallyChanges>)
    | undefined;
}

export interface ReservationBounds {
  /** BUDGET_MAX_RESERVATIONS: the maximum number of open reservations of one counter. */
  readonly maxReservations: number;
  /** How long the store remembers a reservation after its TTL, or after a later commit or release. */
  readonly recordMs: number;
}

/**
 * The part of a key that determines its slot in a Redis Cluster: the whole key, or the text between its first `{` and the next `}`.
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
 */
export function hashTagOf(key: string): string {
  const open = key.indexOf('{');
  const close = open === -1 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}

/** Returns the name of the lease ledger of `key`; undefined if no such name has the key's slot in a Redis Cluster. */
export function ledgerKeyOf(key: string): string | undefined {
  if (hashTagOf(key) !== key) return `weir:lease:${key}`;
  return key.includes('}') ? undefined : `weir:lease:{${key}}`;
}
