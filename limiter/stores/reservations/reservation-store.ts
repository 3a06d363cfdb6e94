/**
 * What a store does for budgets: holds an amount on counters before it is known what a request costs, and settles it after.
 * A reservation is charged on its counters at once, so that who only counts hits sees it.
 */
import type { Bound } from '../../algorithms/bound.ts';
import type { Caller, Claims, StoreError } from '../counter-store.ts';
import type { TallyChanges } from './kept-tally.ts';

/** One counter of a call: written by the caller, answered in place by the store. */
export interface ReservedCounter {
  /** The whole counter key of the present window. */
  readonly key: string;
  /** The key without its window. */
  readonly stem: string;
  /** As `CounterOp.ttlSeconds`. */
  readonly ttlSeconds: number;
  /** A fixed window has one here, too. */
  readonly bound: Bound;
  readonly perSecond: boolean;
  /** Charged whatever is left of it: it never refuses. */
  readonly isShadow: boolean;
  /** Refuses only when all other groups of this kind do; its group is else left out, and the others are charged. */
  readonly isQuota: boolean;
  /** Counters of one group, the limits of one rule, pass together. They stand side by side. No key is twice in a call. */
  readonly group: number;
  /**
   * 0 to 2^53 - 1. Reserve: what is held. Settle: what it was in the end, where 0 gives all back; undefined: what was
   * reserved, and nothing of an unknown id. Look: undefined.
   */
  readonly amount: number | undefined;
  /** Reserve: for how long, and what becomes of what nobody settles. */
  readonly ttlMs: number;
  readonly onExpiry: 'release' | 'charge';

  /** Answer: what became of it. `left-out`: a quota that refused. `untouched`: another one refused. */
  outcome: 'charged' | 'refused' | 'left-out' | 'untouched';
  /** Answer: what the counter holds after the call, of `bound.capacity` where it has not gone beyond; `reserved` is part of it. */
  used: number;
  /** Answer: held by reservations that are open, and how many these are. */
  reserved: number;
  open: number;
  /** Answer to `look`: when the oldest open one was made, in milliseconds since the epoch; 0: there is none. */
  oldestMs: number;
  /** Answer to reserve and settle: what this call charged on it, less than 0 for what it gave back; without what expired. */
  changed: number;
  /** Answer: what expired reservations gave back in this call. */
  givenBack: number;
  /** Answer to settle: what the counter no longer held of the reservation, as it was evicted or reset. */
  lost: number;
  /** Answer: as `CounterOp.waitMicros`, where it was refused until `amount` fits; so long at most, as what is open may return. */
  waitMicros: number;
}

/** For whom a reservation is kept. Each domain and each caller has a bound of its own. */
export interface ReservationOwner {
  readonly domain: string;
  /** Undefined where callers have no names. */
  readonly caller: string | undefined;
}

/** Why there is no room for a reservation. */
export interface Fullness {
  /** Whose bound is reached. */
  readonly of: 'counter' | 'domain' | 'caller' | 'memory';
  /** When there is room again at the latest, in milliseconds since the epoch. */
  readonly roomAtMs: number;
}

/** A note of a reservation that holds nothing. */
export interface Note {
  readonly id: string;
  readonly text: string;
  readonly ttlMs: number;
  readonly owner: ReservationOwner | undefined;
}

interface Call {
  /** In the order in which they are charged where they are not in one place. At least one. */
  readonly counters: ReservedCounter[];
  readonly caller?: Caller | undefined;
  /** Answer: set when the store could not be asked, or not in time; the others then mean nothing. */
  error: StoreError | undefined;
  /** Of the store alone: some of what expired was given back, and it has to be asked again before it decides. */
  hasMore?: boolean;
}

export interface ReserveCall extends Call {
  readonly kind: 'reserve';
  /** Distinct for each reservation of the store, whatever its domain; at most 277 bytes. */
  readonly id: string;
  /** Undefined: no bound on owners applies. */
  readonly owner?: ReservationOwner | undefined;
  /**
   * Markers: another one of the same id adds a reservation, and nothing is remembered of it once it is settled. What was
   * refused, as full too, is remembered until its TTL, so that its settling charges nothing. Else the same again changes nothing.
   */
  readonly isMarker: boolean;
  /** A quota beside these lets the request pass: those of this call never refuse, and are only left out. */
  readonly otherQuotaPasses: boolean;
  /** Counters of the whole call, of which these are a part. Undefined: these are all. */
  readonly width?: number;
  /** Another place refused the call: it only says how the counters stand, and of a marker that nothing is held. */
  readonly refusedElsewhere?: boolean;
  /** What the caller wants to know of the id later, `recall` gives it; undefined: nothing. */
  readonly note: string | undefined;
  /**
   * Answer. `repeated`: it was made before, with the same amounts, TTLs and counters, with the same end; the counters
   * tell how they stand now. `conflict`: the id stands for another one. `full`: a bound on their number is reached.
   */
  outcome: 'reserved' | 'repeated' | 'refused' | 'conflict' | 'full';
  /** Answer, with `full`. */
  full?: Fullness | undefined;
  /** Answer: of the first counter, in milliseconds since the epoch. */
  expiresAtMs: number;
}

export interface SettleCall extends Call {
  readonly kind: 'settle';
  readonly id: string;
  /** As of its `ReserveCall`. */
  readonly owner?: ReservationOwner | undefined;
  readonly isMarker: boolean;
  /** Of an unknown id: charge the amounts once, or only tell. */
  readonly unknown: 'charge' | 'tell';
  /** The reservation was made for a call that another place refused: it goes without a trace, of a marker's the youngest. */
  readonly undoes?: boolean;
  /**
   * Answer. `late`: after its TTL. `repeated`: it was settled before, and nothing was done now; `charged` is what it was
   * then. `unknown`: no counter knows the id; charged if so asked.
   */
  outcome: 'settled' | 'late' | 'repeated' | 'unknown';
  /** Answer, of the first counter that knows the id: what was charged for it in the end, and what had been reserved. */
  charged: number;
  amount: number;
}

/** Gives back what has expired, and tells how the counters stand. */
export interface LookCall extends Call {
  readonly kind: 'look';
}

export type ReservationCall = ReserveCall | SettleCall | LookCall;

export interface ReservationBounds {
  /** BUDGET_MAX_RESERVATIONS: open ones of one counter. */
  readonly maxReservations: number;
  /** How long the store remembers what was settled or has expired, after its TTL or a later settling. */
  readonly recordMs: number;
}

export interface ReservationStore extends Claims {
  /** `done` is called exactly once, possibly before `submit` returns. */
  submit(call: ReservationCall, done: () => void): void;
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
