/** What every store of counters can do. Knows keys and numbers, neither rules nor requests. */
import type { CounterState } from '../algorithms/bound.ts';
import type { Fullness, Operation, ReservationOwner } from './operation.ts';

export interface SubmitOptions {
  /** When operations that would exceed their limits hold the others back, those others are not counted. */
  stopWhenOver: boolean;
}

export const countAll: SubmitOptions = { stopWhenOver: false };

/** Memory, Redis, memcached, and decorators of them: `assembly/store.ts` lists these in their order. */
export interface Store {
  /** False while it can reach no server at all, so that every operation fails. Absent where that is never so, or not known. */
  readonly connected?: boolean;
  /**
   * Hands over all operations of one request, or of one call about a reservation, and answers in place. `done` is called exactly
   * once, possibly before `submit` returns.
   */
  submit(operations: Operation[], options: SubmitOptions, done: () => void): void;
  /** Undefined: it keeps no reservations. */
  readonly notes?: Notes | undefined;
  /** Undefined where the store cannot say who is first. */
  readonly claims?: Claims | undefined;
  /**
   * Settles when the store answered once; rejects with a StoreError. A connection that has not answered after
   * `patienceMs` is given up for a new one: a network may have lost it without a word. Defaults to the store's timeout.
   */
  ping(patienceMs?: number): Promise<void>;
  /** Ends connections and timers; operations under way are answered with an error. */
  close(): Promise<void>;
}

/** Passes to the store behind it what it does not change. */
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

  get claims(): Claims | undefined {
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

/** What a store can never do as it is set, each with the reason; undefined: it can. */
export interface StoreLimits {
  /** Algorithms other than the fixed window. */
  readonly algorithms: string | undefined;
  /** Several limits of one rule, which pass together. */
  readonly groups: string | undefined;
  /** Reserve and commit. */
  readonly reservations: string | undefined;
  /** Shares of a counter for quota clients. */
  readonly shares: string | undefined;
}

/** A counter as operators read it. */
export interface HeldCounter {
  /** Of a fixed window the total and two zeros. */
  readonly held: CounterState;
  /** Hits of the total that limiters have leased and not reported. */
  readonly leased: number;
}

/** Who is first in a whole fleet: what is to happen once, whichever limiter sees the occasion. */
export interface Claims {
  /** Whether nobody has claimed the name before, in the last so many seconds: true for one caller alone. Rejects with a StoreError. */
  claim(name: string, seconds: number): Promise<boolean>;
}

/** A note of a reservation that holds nothing. */
export interface Note {
  readonly id: string;
  readonly text: string;
  readonly ttlMs: number;
  readonly owner: ReservationOwner | undefined;
}

/** Changes of a tally of reservations: a number for each end, in seconds since the epoch. */
export type TallyChanges = ReadonlyMap<number, number>;

/** What a store keeps of reservations beside their counters. */
export interface Notes {
  /** The note of a reservation that is open or still remembered. Rejects with a StoreError. */
  recall(id: string): Promise<string | undefined>;
  /**
   * Keeps a note as long as that of a reservation with its TTL. Where the id has one already, gives its text and changes
   * nothing; where there is no room, gives why. Rejects with a StoreError.
   */
  note(note: Note): Promise<string | Fullness | undefined>;
  /**
   * Adds to a tally that all limiters of the store share, and gives the whole of it. Undefined where a store has but one
   * limiter. Rejects with a StoreError.
   */
  readonly share?:
    | ((name: string, changes: TallyChanges, nowMs: number) => Promise<TallyChanges>)
    | undefined;
}

export interface ReservationBounds {
  /** BUDGET_MAX_RESERVATIONS: open ones of one counter. */
  readonly maxReservations: number;
  /** How long the store remembers what was settled or has expired, after its TTL or a later settling. */
  readonly recordMs: number;
}

/**
 * What of a key says where a Redis Cluster keeps it: all of it, unless there is text between its first `{` and the next `}`.
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
 */
export function hashTagOf(key: string): string {
  const open = key.indexOf('{');
  const close = open === -1 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}
