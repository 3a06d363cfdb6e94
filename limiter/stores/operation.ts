/**
 * Operations on counters: the caller fills them in, and the store answers in place. `newOperation` creates all of them, so that they
 * have one shape. Properties that do not apply are undefined.
 */
import type { CallSpan } from '../../process/grpc/handlers.ts';
import type { AlgorithmBound, CounterState } from '../algorithms/algorithm-bound.ts';
import { StoreError } from './store-error.ts';

/**
 * `add`: counts hits; 0 hits only read. A counter with a bound counts only if all counters of the group let the hits pass.
 * `peek`: the same for hits that another counter rejects, so that nothing is counted.
 * `refund`: takes hits back, never below zero. A missing key stays missing.
 * `reserve`: holds an amount before the cost of a request is known, for all operations of the call or none.
 * `commit`: charges the actual amount; 0 releases the reservation.
 * `look`: returns expired amounts, and reads how much is reserved.
 * The last three have a `hold`. A reserved amount is charged at once, so that operations that only count hits see it.
 */
export type Verb = 'add' | 'peek' | 'refund' | 'reserve' | 'commit' | 'look';

/** The caller of an operation. */
export interface Caller {
  /** True once the caller gave up. Remains false for a caller that was answered, with or without the store. */
  readonly abandoned: boolean;
  /** The span of a traced call. The work of the store is a part of its trace. */
  readonly span?: CallSpan | undefined;
  /** The headers of the call: name, value, name, value, with names in lower case. They are rarely needed. */
  readonly fields?: readonly string[] | undefined;
  /** The caller's name. Undefined if callers have no names. */
  readonly caller?: { readonly name: string } | undefined;
}

/**
 * How an operation that is over its limit holds back the others of its request: alone, together with all operations that have `together`,
 * or never.
 */
export type HoldsBack = 'alone' | 'together' | 'never';

/** The properties of a counter in all of its windows. Many operations share one object. */
export interface Counter {
  /** The counter key without the window. */
  readonly counterStem: string;
  /** The limit. The counter is over limit if its total exceeds it. */
  readonly capacity: number;
  /**
   * The bound of the counter: hits are counted only if the bound lets them pass. Undefined: a single fixed window, which counts all hits,
   * including those over limit.
   */
  readonly bound: AlgorithmBound | undefined;
  /**
   * The bound for reservations. It is the same bound, except that a single fixed window has one, too. Undefined: reservations are not
   * possible on the counter.
   */
  readonly charging: AlgorithmBound | undefined;
  /** Whether the unit of the limit is the second. Such counters may have a store of their own (REDIS_PERSECOND). */
  readonly perSecond: boolean;
  /** The maximum number of hits that a limiter may lease at a time. 0: none, as for counters with a bound. */
  readonly maxLease: number;
  /** For the store alone: what it found for the last key, so that it need not look up the key again. */
  place: unknown;
}

/**
 * A limiter's report to the ledger of a counter, sent with the call that counts, and the ledger's grant: leases
 * (leases/lease-book.ts), or shares for its clients (allocate/account.ts). Each message returns hits that are neither spent nor kept.
 */
export interface LeaseTerms {
  /** The key of the ledger, in the slot of the counter. */
  readonly ledgerKey: string;
  /** The limiter that reports. */
  readonly limiter: string;
  /** Increases with each message of a limiter. 0: nothing is reported, and refunds do not go below the leased hits. */
  sequence: number;
  /** All hits that this limiter has ever spent of its grants, so that a lost message or reply causes no uncertainty. */
  readonly spent: number;
  /** Hits that its clients may still use and that stay granted. A lease keeps none. */
  readonly keeps: number;
  /** Hits to grant in addition, and the maximum that any limiter leases of this counter. 0: none. */
  readonly want: number;
  readonly max: number;
  readonly limit: number;
  /** The ledger may forget this limiter if it grants nothing, because no earlier message can arrive later. */
  readonly forgets: boolean;
  /**
   * For shares: the values that other limiters need to find the fair level (allocate/fair-level.ts), and how long they are valid if this
   * limiter sends nothing. 0, 0 and 0: a lease.
   */
  readonly charged: number;
  readonly hungry: number;
  readonly livesMs: number;
  /** Answer: the granted hits, including hits that the limiter retains. -1: no answer yet. */
  granted: number;
  /** Answer: the sums of the shares of other limiters. */
  othersCharged: number;
  othersHungry: number;
  /** Answer: the state of the counter after the call, including the granted hits. */
  top: number;
}

/** The owner of a reservation. Each domain and each caller has its own bound. */
export interface ReservationOwner {
  readonly domain: string;
  /** The name of the caller. Undefined if callers have no names. */
  readonly caller: string | undefined;
}

/** The reason why there is no room for a reservation. */
export interface ReachedReservationBound {
  /** The owner whose bound is reached. */
  readonly of: 'counter' | 'domain' | 'caller' | 'memory';
  /** The latest time at which there is room again, in milliseconds since the epoch. */
  readonly roomAtMs: number;
}

/** A call about a reservation: what its operations share, and the outcome of the whole call. */
export interface Reservation {
  /** The id, unique among all reservations of the store, across all domains. At most 277 bytes. Empty for `look`. */
  readonly id: string;
  /** The owner, whose bounds apply. Undefined: no bound on owners applies. */
  readonly owner: ReservationOwner | undefined;
  /**
   * For markers: another marker of the same id adds a reservation, and nothing is remembered after its commit or release. A rejection,
   * also because of `full`, is remembered until its TTL, so that its commit charges nothing. Otherwise, repeating a call changes nothing.
   */
  readonly isMarker: boolean;
  /** Reserve: a text that the caller wants back for the id later, through `recall`. Undefined: none. */
  note: string | undefined;
  /** Reserve: another quota lets the request pass, so the quotas of this call never reject it. They are only left out. */
  otherQuotaPasses: boolean;
  /** Reserve: the number of counters of the whole call. These counters may be a part of them. */
  width: number;
  /**
   * The number of descriptors that the caller names in the whole call. A commit with another number than the reserve changes nothing.
   * 0: any number, as for markers, which an Envoy may commit one by one.
   */
  readonly descriptors: number;
  /** Reserve: another place rejected the call. This one only reads the counters, and records for a marker that nothing is held. */
  isOverLimitElsewhere: boolean;
  /** Commit: whether to charge the amounts of an unknown id once, or only to report it. */
  readonly unknown: 'charge' | 'report';
  /** Commit: another place rejected the call of this reservation, so it is removed without a trace. Of several for a marker, the youngest. */
  readonly undoes: boolean;
  /**
   * Answer to reserve. `repeated`: it was made before with the same amounts, TTLs and counters, and has the same end; the counters
   * have their current state. `conflict`: the id belongs to another reservation. `full`: a bound on their number is reached.
   */
  outcome: 'reserved' | 'repeated' | 'refused' | 'conflict' | 'full';
  /**
   * Answer to commit. `late`: after its TTL. `repeated`: it was committed or released before, and nothing changed; `charged` is the
   * amount of that time. `unknown`: no counter knows the id; the amount is charged if requested. `partial`: the reservation has
   * another number of descriptors, and nothing changed.
   */
  commitOutcome: 'settled' | 'late' | 'repeated' | 'unknown' | 'partial';
  /** Answer to commit, with `partial`: the descriptors of the reservation. */
  reservedDescriptors: number;
  /** Answer to reserve, with `full`. */
  full: ReachedReservationBound | undefined;
  /** Answer to reserve: the end of the first counter's hold, in milliseconds since the epoch. */
  expiresAtMs: number;
  /** Answer to commit, for the first counter that knows the id: the amount charged in the end, and the reserved amount. */
  charged: number;
  amount: number;
  /** Private to the store: some expired amounts were returned, and the call has to be repeated before it decides. */
  hasMore: boolean;
}

/** An operation's part of a reservation's call: what it holds of its counter. No key occurs twice in a call. */
export interface ReservationHold {
  /** The whole call. If a call is spread over several places, this is temporarily the part in one of them. */
  reservation: Reservation;
  /** Whether it charges regardless of the remaining hits. Such an operation never rejects. */
  readonly isShadow: boolean;
  /** Whether it rejects only if all other groups of this kind do. Otherwise, its group is left out, and the others are charged. */
  readonly isQuota: boolean;
  /** The number of the group. Counters of one group, the limits of one rule, pass together. They are adjacent. */
  readonly group: number;
  /**
   * 0 to 2^53 - 1. Reserve: the amount to hold. Commit: the actual amount, where 0 returns everything; undefined: the reserved
   * amount, and nothing for an unknown id. Look: undefined.
   */
  readonly amount: number | undefined;
  /** Reserve: how long the amount is held, and what happens when it expires. */
  readonly ttlMs: number;
  readonly onExpiry: 'release' | 'charge';

  /** Answer: the outcome. `left-out`: a quota that rejected the amount. `untouched`: another operation rejected it. */
  outcome: 'charged' | 'refused' | 'left-out' | 'untouched';
  /** Answer: the amount held by open reservations, as a part of `after`, and their number. */
  reserved: number;
  open: number;
  /** Answer to `look`: when the oldest open reservation was made, in milliseconds since the epoch. 0: there is none. */
  oldestMs: number;
  /** Answer to reserve and commit: the amount that this call charged, or a negative amount that it returned, without expired ones. */
  changed: number;
  /** Answer: the amount that expired reservations returned in this call. */
  givenBack: number;
  /** Answer to commit: the part of the reserved amount that the counter no longer held, because it was evicted or reset. */
  lost: number;
}

/**
 * The part of one counter in one request. Totals are as if all callers asked one after another, in the order of `submit`.
 * An operation is made for one `submit`. Read its answer when `done` is called, not later: a store that is too late may still
 * write to it.
 */
export interface Operation<C extends Counter = Counter> {
  verb: Verb;
  readonly counter: C;
  /** The whole counter key, including the window. */
  readonly key: string;
  /** The number of hits, 0 to 2^53 - 1. */
  hits: number;
  /**
   * The lifetime of the key in seconds, including jitter. It starts at the first hit, or at the last hit for a sliding window or token
   * bucket. At least 1.
   */
  readonly ttlSeconds: number;
  /**
   * How many adjacent operations of the request, including this one, pass only together: those of all limits of one rule. They have
   * bounds, the same hits, and different keys with one hash tag. 1: this operation alone.
   */
  groupSize: number;
  /** The operations of all limits of a rule. Set on the first of several operations; undefined otherwise. */
  group: readonly Operation<C>[] | undefined;
  /** Used only by `SubmitOptions.stopWhenOver`: how the operation affects the others if it is over limit. */
  holdsBack: HoldsBack;
  /**
   * The caller. If it gives up before the batch is sent, the operation is left out and answered with `callAbandoned`. Undefined if the
   * caller cannot give up. A store that counts within `submit` need not check this.
   */
  caller: Caller | undefined;
  /** The message to the ledger that is sent with the hits. The store of leases writes it for the store that it asks. */
  lease: LeaseTerms | undefined;
  hold: ReservationHold | undefined;
  /** The end of the window, or 0 if it has none. Unlike infinity, small numbers need no allocation. */
  windowEndSeconds: number;
  /** The seconds until a fixed window or a block ends. For other algorithms, the value to use if the store returns none. */
  secondsToReset: number;
  /** Whether the local cache knows the counter to be full, or an override blocks it. */
  full: boolean;
  /** Whether this is true of the counter or of another counter of its group. The limiter then does not ask the store. */
  remembered: boolean;

  /** Answer: hits that the store applied: `hits`, or 0 if they did not pass or stop-when-over held them back. */
  applied: number;
  /**
   * Answer: the total after this operation, at most 2^53 - 1, or 2^53 if hits were left out because of that: over any limit. With a
   * bound, how much of the limit is used.
   */
  after: number;
  /** Answer with a bound: this counter did not let the hits pass. */
  over: boolean;
  /**
   * Answer with a bound other than a fixed window: if over limit or with nothing left, how long until a single hit passes; otherwise
   * until nothing is used. With a rejected hold, how long at most until its amount fits, because open reservations may return hits.
   */
  waitMicros: number;
  /** Answer with a bound: what the counter holds after this operation. Undefined: it does not exist. */
  held: CounterState | undefined;
  /** Answer: leased hits that are charged in addition to `after`, so that less is left. */
  leased: number;
  /** Answer: whether leases or reservations may return a part of the total, so that a counter that is over limit may have room later. */
  mayReturn: boolean;
  /** Answer: whether the counter is over limit and its reservations have expired or may have expired. `look` returns their amounts. */
  hasExpired: boolean;
  /** Answer: whether a lease covers the hits, so that the store was not asked. */
  fromLease: boolean;
  /** Answer: the error if this key failed; `after` is then meaningless. */
  error: StoreError | undefined;
}

/** Creates a single operation without an answer. Its arguments are positional, because every hit needs an operation. */
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

/** Copies an operation as a single one without a lease, with another verb and other hits. */
export function copyOperation<C extends Counter>(of: Operation<C>, verb: Verb, hits: number): Operation<C> {
  // A spread would give it another shape.
  const copy = newOperation(of.counter, of.key, verb, hits, of.ttlSeconds);
  const single = { group: undefined, lease: undefined, hasExpired: false, fromLease: false };
  return Object.assign(copy, of, { verb, hits, ...single });
}

/** Creates a message without an answer. With these arguments alone, it reports nothing. */
export function newLeaseTerms(
  given: Pick<LeaseTerms, 'ledgerKey' | 'limiter'> & Partial<LeaseTerms>,
): LeaseTerms {
  return {
    ...{ sequence: 0, spent: 0, keeps: 0, want: 0, max: 0, limit: 0, forgets: false },
    ...{ charged: 0, hungry: 0, livesMs: 0, granted: -1, top: 0, othersCharged: 0, othersHungry: 0 },
    ...given,
  };
}

/** Creates the terms of a call without answers. Terms that are not given do not apply. */
export function newReservation(given: Pick<Reservation, 'id' | 'width'> & Partial<Reservation>): Reservation {
  return {
    id: given.id,
    owner: given.owner,
    isMarker: given.isMarker ?? false,
    note: given.note,
    otherQuotaPasses: given.otherQuotaPasses ?? false,
    width: given.width,
    descriptors: given.descriptors ?? 0,
    isOverLimitElsewhere: given.isOverLimitElsewhere ?? false,
    unknown: given.unknown ?? 'report',
    undoes: given.undoes ?? false,
    outcome: given.outcome ?? 'reserved',
    commitOutcome: 'unknown',
    reservedDescriptors: 0,
    full: given.full,
    expiresAtMs: given.expiresAtMs ?? 0,
    charged: 0,
    amount: 0,
    hasMore: false,
  };
}

/** Creates the request for one counter of a call. */
export type HoldTerms = Pick<
  ReservationHold,
  'reservation' | 'isShadow' | 'isQuota' | 'group' | 'amount' | 'ttlMs' | 'onExpiry'
>;

export function newHold(terms: HoldTerms): ReservationHold {
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

/** Creates the counter of an operation without a plan: hits in one fixed window. */
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
    maxLease: 0,
    place: undefined,
  };
}

/** Whether an operation requests hits that a limit may reject. Others return hits or only report. */
export function asksForHits(verb: Verb): boolean {
  return verb === 'add' || verb === 'peek' || verb === 'reserve';
}

/** Returns the hits that an operation counts if it passes. */
export function hitsToCount({ verb, hits }: Operation): number {
  return verb === 'peek' ? 0 : hits;
}

/** Whether the limit of a counter rejected the hits of an answered operation. */
export function isRejected({ verb, error, counter, after, over }: Operation): boolean {
  if (verb === 'refund' || error !== undefined) return false;
  return counter.bound === undefined ? after > counter.capacity : over;
}

/** The answer to an operation that was left out because its caller gave up. It was not counted, and the store did not fail. */
export const callAbandoned = new StoreError(
  'the caller canceled its request before its hits were sent to the store',
  {
    transient: true,
    notCounted: true,
  },
);

/** Whether any operation of a request was left out. The request then counts as if it had never been made. */
export function wasLeftOut(operations: readonly Pick<Operation, 'error'>[]): boolean {
  for (const { error } of operations) if (error === callAbandoned) return true;
  return false;
}

/** Answers an operation with an error. */
export function failOp(operation: Operation, error: StoreError): void {
  operation.applied = 0;
  operation.after = 0;
  operation.error = error;
}

export function failAll(operations: readonly Operation[], error: StoreError): void {
  for (const operation of operations) failOp(operation, error);
}

/** Calls `answer` for each item, even if a call throws. The first error is thrown at the end. */
export function answerAll<T>(items: readonly T[], answer: (item: T) => void): void {
  let thrown: { error: unknown } | undefined;
  for (const item of items) {
    try {
      answer(item);
    } catch (error) {
      thrown ??= { error };
    }
  }
  if (thrown !== undefined) throw thrown.error;
}
