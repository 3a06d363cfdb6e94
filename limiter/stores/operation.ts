/**
 * What is asked of a store: operations on counters, written by the caller and answered in place by the store. `newOperation`
 * makes every one of them, so that they all have one shape; what does not apply is undefined.
 */
import type { CallSpan } from '../../process/grpc/handlers.ts';
import type { Bound, CounterState } from '../algorithms/bound.ts';
import { StoreError } from './store-error.ts';

/**
 * `add`: counts hits, 0 of them looks; of a counter with a bound only if all counters of the group let them pass.
 * `peek`: the same of hits that another counter refuses, of which nothing is counted.
 * `refund`: takes hits back, never below zero, and a missing key stays missing.
 * `reserve`: holds an amount before it is known what a request costs; all operations of the call or none.
 * `commit`: settles that after; 0 releases it.
 * `look`: gives back what has expired, and says what is reserved.
 * The last three have a `hold`. What is reserved is charged at once, so that who only counts hits sees it.
 */
export type Verb = 'add' | 'peek' | 'refund' | 'reserve' | 'commit' | 'look';

/** Who asked. */
export interface Caller {
  /** True from the moment on when it gave up; stays false for a caller that was answered, with or without the store. */
  readonly abandoned: boolean;
  /** Of a call that is traced: what the store does for it belongs to its trace. */
  readonly span?: CallSpan | undefined;
  /** The header section of its call, name, value, name, value, names in lower case: for what is rare. */
  readonly fields?: readonly string[] | undefined;
  /** Undefined where callers have no names. */
  readonly caller?: { readonly name: string } | undefined;
}

/**
 * Whether an operation that is over holds the others of its request back: by itself, when all that do so `together` are over,
 * or never.
 */
export type HoldsBack = 'alone' | 'together' | 'never';

/** What a counter has in all of its windows: one object for many operations. */
export interface Counter {
  /** Its key without the window. */
  readonly counterStem: string;
  /** The most that fits in: over when the total exceeds it. */
  readonly capacity: number;
  /**
   * Undefined: a fixed window alone, which counts all hits, those that are over too. Else the hits are counted only if this
   * lets them pass.
   */
  readonly bound: Bound | undefined;
  /** What reservations are charged by: the same, or of a fixed window alone one as well. Undefined: nobody reserves on it. */
  readonly charging: Bound | undefined;
  /** The limit's unit is the second: such counters may have a store of their own (REDIS_PERSECOND). */
  readonly perSecond: boolean;
  /** Hits that a limiter may take ahead at a time; 0: none, as with a bound. */
  readonly leaseMost: number;
  /** What a store found for the last key, of no meaning to others: it need not look the key up again. */
  place: unknown;
}

/**
 * What a limiter shows the ledger of a counter in the call that counts, and what it is granted: leases (leases/lease-book.ts), or
 * shares for its clients (allocate/account.ts). With each message it gives back what it neither spent nor keeps.
 */
export interface LeaseTerms {
  /** Beside the counter, in its slot. */
  readonly ledgerKey: string;
  /** Who reports. */
  readonly limiter: string;
  /** Grows with each message of a limiter. 0: nothing is reported; hits that are taken back only stop at what is leased. */
  readonly sequence: number;
  /** Hits that this limiter spent of all that it was ever granted: a message or a reply that is lost leaves nothing to guess. */
  readonly spent: number;
  /** Hits that its clients may still use, and which stay granted. A lease keeps none. */
  readonly keeps: number;
  /** Hits to be granted beside these, and the most that any limiter leases of this counter. 0 wants none. */
  readonly want: number;
  readonly most: number;
  readonly limit: number;
  /** The ledger may forget this limiter where it grants nothing: no message of before can arrive later. */
  readonly forgets: boolean;
  /**
   * Of shares: what others need to know to find the fair level (allocate/fair-level.ts), and for how long it holds where this
   * limiter is not heard of. 0, 0 and 0: a lease.
   */
  readonly charged: number;
  readonly hungry: number;
  readonly livesMs: number;
  /** Answer: hits granted, with what it keeps; -1 as long as there is none. */
  granted: number;
  /** Answer: the sums of what others said of their shares. */
  othersCharged: number;
  othersHungry: number;
  /** Answer: the counter after everything, what was granted included. */
  top: number;
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

/** One call about a reservation: what its operations share, and what became of the whole. */
export interface Reservation {
  /** Distinct for each reservation of the store, whatever its domain; at most 277 bytes. Empty for a look. */
  readonly id: string;
  /** Undefined: no bound on owners applies. */
  readonly owner: ReservationOwner | undefined;
  /**
   * Markers: another one of the same id adds a reservation, and nothing is remembered of it once it is settled. What was
   * refused, as full too, is remembered until its TTL, so that its settling charges nothing. Else the same again changes nothing.
   */
  readonly isMarker: boolean;
  /** Reserve: what the caller wants to know of the id later, `recall` gives it; undefined: nothing. */
  note: string | undefined;
  /** Reserve: a quota beside these lets the request pass: those of this call never refuse, and are only left out. */
  otherQuotaPasses: boolean;
  /** Reserve: counters of the whole call, of which these may be a part. */
  width: number;
  /**
   * Descriptors of the whole call, as its caller names them. A commit that names another number of them than the reserve did
   * changes nothing. 0: any number, as for markers, which an Envoy may settle one by one.
   */
  readonly descriptors: number;
  /** Reserve: another place refused the call: it only says how the counters stand, and of a marker that nothing is held. */
  refusedElsewhere: boolean;
  /** Commit: what to do with amounts of an unknown id: charge them once, or only report. */
  readonly unknown: 'charge' | 'report';
  /** Commit: the reservation was made for a call that another place refused: it goes without a trace, of a marker's the youngest. */
  readonly undoes: boolean;
  /**
   * Answer to reserve. `repeated`: it was made before, with the same amounts, TTLs and counters, with the same end; the counters
   * say how they stand now. `conflict`: the id stands for another one. `full`: a bound on their number is reached.
   */
  outcome: 'reserved' | 'repeated' | 'refused' | 'conflict' | 'full';
  /**
   * Answer to commit. `late`: after its TTL. `repeated`: it was settled before, and nothing was done now; `charged` is what it was
   * then. `unknown`: no counter knows the id; charged if so asked. `partial`: it has another number of descriptors, and nothing
   * was done.
   */
  settled: 'settled' | 'late' | 'repeated' | 'unknown' | 'partial';
  /** Answer to commit, with `partial`: the descriptors of the reservation. */
  reservedDescriptors: number;
  /** Answer to reserve, with `full`. */
  full: Fullness | undefined;
  /** Answer to reserve: of the first counter, in milliseconds since the epoch. */
  expiresAtMs: number;
  /** Answer to commit, of the first counter that knows the id: what was charged for it in the end, and what had been reserved. */
  charged: number;
  amount: number;
  /** Of the store alone: some of what expired was given back, and it has to be asked again before it decides. */
  hasMore: boolean;
}

/** What an operation of a reservation's call holds of its counter. No key is twice in a call. */
export interface Hold {
  /** Of the whole call; where a call is spread over places, of the part in one of them meanwhile. */
  reservation: Reservation;
  /** Charged whatever is left of it: it never refuses. */
  readonly isShadow: boolean;
  /** Refuses only when all other groups of this kind do; its group is else left out, and the others are charged. */
  readonly isQuota: boolean;
  /** Counters of one group, the limits of one rule, pass together. They stand side by side. */
  readonly group: number;
  /**
   * 0 to 2^53 - 1. Reserve: what is held. Commit: what it was in the end, where 0 gives all back; undefined: what was
   * reserved, and nothing of an unknown id. Look: undefined.
   */
  readonly amount: number | undefined;
  /** Reserve: for how long, and what becomes of what nobody settles. */
  readonly ttlMs: number;
  readonly onExpiry: 'release' | 'charge';

  /** Answer: what became of it. `left-out`: a quota that refused. `untouched`: another one refused. */
  outcome: 'charged' | 'refused' | 'left-out' | 'untouched';
  /** Answer: held by reservations that are open, as a part of `after`, and how many these are. */
  reserved: number;
  open: number;
  /** Answer to `look`: when the oldest open one was made, in milliseconds since the epoch; 0: there is none. */
  oldestMs: number;
  /** Answer to reserve and commit: what this call charged on it, less than 0 for what it gave back; without what expired. */
  changed: number;
  /** Answer: what expired reservations gave back in this call. */
  givenBack: number;
  /** Answer to commit: what the counter no longer held of the reservation, as it was evicted or reset. */
  lost: number;
}

/**
 * One counter's part in one request. The total is as if every caller had come alone, in the order of `submit`.
 * It is made for one `submit` and its answer is read when `done` is called, not later: a store that was given up on may
 * still write to it.
 */
export interface Operation<C extends Counter = Counter> {
  verb: Verb;
  readonly counter: C;
  /** The whole counter key, window included. */
  readonly key: string;
  /** 0 .. 2^53 - 1. */
  hits: number;
  /** Life of the key in seconds, jitter included: from its first hit, of one with a sliding window or a bucket from its last. At least 1. */
  readonly ttlSeconds: number;
  /**
   * How many neighbours of the request, this one among them, pass only together: those of all limits of one rule.
   * They have bounds, the same hits, and keys of one hash tag, each its own. 1 for one alone.
   */
  groupSize: number;
  /** On the first of several limits of a rule: all of them. */
  group: readonly Operation<C>[] | undefined;
  /** Used by `SubmitOptions.stopWhenOver` only: what it does to the others when it is over. */
  holdsBack: HoldsBack;
  /**
   * Whose it is: one that was abandoned before its batch is sent is left out and answered with `callAbandoned`.
   * Undefined where nobody can give up. A store that counts within `submit` need not look.
   */
  caller: Caller | undefined;
  /** What is reported to the ledger along with the hits: written by the store of leases for the store that it asks. */
  lease: LeaseTerms | undefined;
  hold: Hold | undefined;
  /** Where the window ends; 0 where there is no end. Small numbers cost no allocation: infinity would. */
  windowEndSeconds: number;
  /** Of a fixed window; of any other what to say where its store says nothing. */
  secondsToReset: number;
  /** The local cache knows the counter to be full, or an override blocks it. */
  full: boolean;
  /** So of this counter or another one of its group: the store is not asked. */
  remembered: boolean;

  /** Answer: hits that the store really applied: `hits`, or 0 where they did not pass or stop-when-over held them back. */
  applied: number;
  /**
   * Answer: the total after this operation, which saturates at 2^53 - 1; 2^53 where that left hits out: over any limit. With a bound
   * what is used of the limit.
   */
  after: number;
  /** Answer with a bound: this one did not let the hits pass. */
  over: boolean;
  /**
   * Answer with a bound other than a fixed window: when over or with nothing left, how long until a single hit passes, else until
   * nothing is used any more. With a hold until its amount fits, where it was refused; so long at most, as what is open may return.
   */
  waitMicros: number;
  /** Answer with a bound: what the counter holds after this operation, undefined for one that is not there. */
  held: CounterState | undefined;
  /** Answer: hits beyond `after` that are charged as well, as leased: as little is left. */
  leased: number;
  /** Answer: leases or reservations may give back some of the total, so that one that is over need not stay so. */
  mayReturn: boolean;
  /** Answer: over, and reservations on its counter have expired, or may have: to look at it gives back what they held. */
  hasExpired: boolean;
  /** Answer: a lease covers the hits, and the store was not asked. */
  fromLease: boolean;
  /** Answer: set when this key failed; `after` then means nothing. */
  error: StoreError | undefined;
}

/** Makes one that stands alone and has no answer yet. Positional, as it is made for each hit. */
export function newOperation<C extends Counter>(
  counter: C,
  key: string,
  verb: Verb,
  hits: number,
  ttlSeconds: number,
): Operation<C> {
  return {
    verb,
    counter,
    key,
    hits,
    ttlSeconds,
    groupSize: 1,
    group: undefined,
    holdsBack: 'alone',
    caller: undefined,
    lease: undefined,
    hold: undefined,
    windowEndSeconds: 0,
    secondsToReset: 0,
    full: false,
    remembered: false,
    applied: 0,
    after: 0,
    over: false,
    waitMicros: 0,
    held: undefined,
    leased: 0,
    mayReturn: false,
    hasExpired: false,
    fromLease: false,
    error: undefined,
  };
}

/** The same with another verb and other hits, alone and of no lease. */
export function copyOperation<C extends Counter>(of: Operation<C>, verb: Verb, hits: number): Operation<C> {
  const copy = newOperation(of.counter, of.key, verb, hits, of.ttlSeconds);
  copy.groupSize = of.groupSize;
  copy.holdsBack = of.holdsBack;
  copy.caller = of.caller;
  copy.hold = of.hold;
  copy.windowEndSeconds = of.windowEndSeconds;
  copy.secondsToReset = of.secondsToReset;
  copy.full = of.full;
  copy.remembered = of.remembered;
  copy.applied = of.applied;
  copy.after = of.after;
  copy.over = of.over;
  copy.waitMicros = of.waitMicros;
  copy.held = of.held;
  copy.leased = of.leased;
  copy.mayReturn = of.mayReturn;
  copy.error = of.error;
  return copy;
}

/** A message without an answer; one of which only this is given says nothing. */
export function newLeaseTerms(
  given: Pick<LeaseTerms, 'ledgerKey' | 'limiter'> & Partial<LeaseTerms>,
): LeaseTerms {
  return {
    ...{ sequence: 0, spent: 0, keeps: 0, want: 0, most: 0, limit: 0, forgets: false },
    ...{ charged: 0, hungry: 0, livesMs: 0, granted: -1, top: 0, othersCharged: 0, othersHungry: 0 },
    ...given,
  };
}

/** Terms of a call without answers; what is not given does not apply. */
export function newReservation(given: Pick<Reservation, 'id' | 'width'> & Partial<Reservation>): Reservation {
  return {
    id: given.id,
    owner: given.owner,
    isMarker: given.isMarker ?? false,
    note: given.note,
    otherQuotaPasses: given.otherQuotaPasses ?? false,
    width: given.width,
    descriptors: given.descriptors ?? 0,
    refusedElsewhere: given.refusedElsewhere ?? false,
    unknown: given.unknown ?? 'report',
    undoes: given.undoes ?? false,
    outcome: given.outcome ?? 'reserved',
    settled: 'unknown',
    reservedDescriptors: 0,
    full: given.full,
    expiresAtMs: given.expiresAtMs ?? 0,
    charged: 0,
    amount: 0,
    hasMore: false,
  };
}

/** What is asked of one counter of a call. */
export type HoldTerms = Pick<
  Hold,
  'reservation' | 'isShadow' | 'isQuota' | 'group' | 'amount' | 'ttlMs' | 'onExpiry'
>;

export function newHold(terms: HoldTerms): Hold {
  const { reservation, isShadow, isQuota, group, amount, ttlMs, onExpiry } = terms;
  return {
    reservation,
    isShadow,
    isQuota,
    group,
    amount,
    ttlMs,
    onExpiry,
    outcome: 'untouched',
    reserved: 0,
    open: 0,
    oldestMs: 0,
    changed: 0,
    givenBack: 0,
    lost: 0,
  };
}

/** The counter of an operation that no plan made: of hits in one fixed window. */
export function plainCounter(
  key: string,
  { perSecond, capacity = Number.MAX_SAFE_INTEGER }: { perSecond: boolean; capacity?: number },
): Counter {
  return {
    counterStem: key,
    capacity,
    bound: undefined,
    charging: undefined,
    perSecond,
    leaseMost: 0,
    place: undefined,
  };
}

/** Whether hits are asked for, which a limit may refuse; others take back or only report. */
export function asksForHits(verb: Verb): boolean {
  return verb === 'add' || verb === 'peek' || verb === 'reserve';
}

/** The answer to an operation that was left out because its caller had gone: not counted, and no failure of the store. */
export const callAbandoned = new StoreError('the caller gave up before its hits were sent to the store', {
  transient: true,
  notCounted: true,
});

/** Whether any of a request's operations was left out: then the request counts as one that was never made. */
export function wasLeftOut(operations: readonly Pick<Operation, 'error'>[]): boolean {
  for (const { error } of operations) if (error === callAbandoned) return true;
  return false;
}

/** Says what went wrong with one, as the answer to it. */
export function failOp(operation: Operation, error: StoreError): void {
  operation.applied = 0;
  operation.after = 0;
  operation.error = error;
}

export function failAll(operations: readonly Operation[], error: StoreError): void {
  for (const operation of operations) failOp(operation, error);
}
