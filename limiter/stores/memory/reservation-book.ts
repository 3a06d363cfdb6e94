/**
 * The reservations on the counters of one stem (the limits of one rule in all their windows): the charges of each reservation, what
 * happens after its TTL, and what was settled before. Each stem decides on its own; `MemoryReservations` joins the stems of a call.
 */

import {
  type AlgorithmBound,
  type Charge,
  type CounterState,
  nothingReturned,
  type ReturnedTotal,
} from '../../algorithms/algorithm-bound.ts';
import { chargeAnyway, used, waitMicros } from '../admission.ts';
import { keyBytes } from '../folded-run.ts';
import type { Operation, ReservationOwner } from '../operation.ts';
import { type CounterTable, type MemoryCounter, stateOf } from './counter-table.ts';
import { type Expiring, ExpiryQueue } from './expiry-queue.ts';

/** The reservations on one counter. */
export interface CounterReservations {
  readonly key: string;
  /** The counter that was charged last, or undefined if nothing was charged. */
  counter: MemoryCounter | undefined;
  /** Open reservations, in the order in which they were made. */
  readonly open: Set<MemoryReservation>;
  /** The amount that open reservations charged to the counter. */
  reserved: number;
  returned: ReturnedTotal;
  /** Hits that reservations may still return: those of open reservations, and of expired ones that stay charged. */
  returnable: number;
  /** The total amount that expired reservations have returned to the counter. */
  expired: number;
  /** The number of charges that may still be returned. */
  charges: number;
}

interface Charged {
  /** Undefined if there is no counter, because nothing was charged. */
  readonly counter: MemoryCounter | undefined;
  readonly held: CounterState;
  readonly taken: number;
}

interface CounterCharge extends Charge {
  readonly counter: MemoryCounter | undefined;
  readonly tally: CounterReservations;
  readonly bound: AlgorithmBound;
}

/** One reservation on the counters of the stem. */
export interface MemoryReservation extends Expiring {
  readonly id: string;
  readonly owner: ReservationOwner | undefined;
  readonly isMarker: boolean;
  readonly amount: number;
  readonly ttlMs: number;
  readonly onExpiry: 'release' | 'charge';
  /** The number of counters of the whole call; 0: the reservation was never made, only settled. */
  readonly width: number;
  /** The same as in `Reservation`. */
  readonly descriptors: number;
  readonly note: string | undefined;
  readonly madeMs: number;
  readonly dueMs: number;
  readonly bytes: number;
  /** Whether it was left out or rejected. It then holds nothing, and settling it charges nothing. */
  readonly isEmpty: boolean;
  /** `open` until it is `settled` or its TTL ends. After the TTL, it is `released`, or `kept` with its charges. */
  state: 'open' | 'released' | 'kept' | 'settled' | 'forgotten';
  /** The amount that was charged in the end. */
  charged: number;
  /** The charges, one for each counter, in their order, as long as they may be returned. */
  charges: readonly CounterCharge[];
  forgetMs: number;
  /** The time of its next step. */
  expiresAtMs: number;
}

/** The terms of a reservation. They are equal if the same reservation is made again. */
export type ReservationTerms = Pick<
  MemoryReservation,
  'id' | 'owner' | 'isMarker' | 'amount' | 'ttlMs' | 'onExpiry' | 'width' | 'descriptors' | 'note'
>;

interface BookOptions {
  /** The owner of the call that created the book. */
  readonly owner: ReservationOwner | undefined;
  readonly table: CounterTable;
  readonly maxReservations: number;
  readonly recordMs: number;
  /** Called when a reservation is forgotten, so that its bytes are free and its note is invalid. */
  readonly onForgotten: (reservation: MemoryReservation) => void;
}

/** The memory of a reservation in addition to its id, with one counter, and of each further counter: measured on Node 26, rounded up. */
const reservationOverheadBytes = 460;
const chargeBytes = 180;
/** Chosen: the queue is compacted if the forgotten entries outnumber the others and this number. */
const minCompacted = 64;

export function reservationBytes(id: string, counters: number): number {
  return keyBytes(id) + reservationOverheadBytes + counters * chargeBytes;
}

export class ReservationBook implements Expiring {
  readonly stem: string;
  readonly #options: BookOptions;
  /** Reservations that can be repeated, by id. */
  readonly #records = new Map<string, MemoryReservation>();
  readonly #markers = new Map<string, MemoryReservation[]>();
  #markerCount = 0;
  /** The number of markers that charged nothing. */
  #emptyMarkers = 0;
  readonly #tallies = new Map<string, CounterReservations>();
  /** Reservations that wait for their TTL, regardless of their state; `#ends` has those that wait to be forgotten. */
  #due = new ExpiryQueue<MemoryReservation>(1);
  readonly #ends = new ExpiryQueue<MemoryReservation>(1);
  /** The number of reservations that wait for the TTL. */
  #queued = 0;
  /** The time at which the last reservation is forgotten. */
  expiresAtMs = 0;
  queuedTick = 0;
  nextInTick: Expiring | undefined = undefined;

  constructor(stem: string, options: BookOptions) {
    this.stem = stem;
    this.#options = options;
  }

  get owner(): ReservationOwner | undefined {
    return this.#options.owner;
  }

  get isEmpty(): boolean {
    return this.#records.size === 0 && this.#markerCount === 0;
  }

  tally(key: string): CounterReservations | undefined {
    return this.#tallies.get(key);
  }

  record(id: string, nowMs: number): MemoryReservation | undefined {
    const known = this.#records.get(id);
    if (known === undefined || known.forgetMs > nowMs) return known;
    this.#forget(known);
    return undefined;
  }

  /**
   * Returns the marker that a settle closes: the oldest open one. Without one, returns a marker that expired with its charge kept, or
   * else a marker that charged nothing.
   */
  marker(id: string, nowMs: number): MemoryReservation | undefined {
    let kept: MemoryReservation | undefined;
    let first: MemoryReservation | undefined;
    for (const one of this.#markers.get(id) ?? []) {
      const { state, isEmpty, forgetMs } = one;
      if (forgetMs <= nowMs) continue;
      if (state === 'open' && !isEmpty) return one;
      if (state === 'kept') kept ??= one;
      first ??= one;
    }
    return kept ?? first;
  }

  /** Counts no reservation on these counters as open. A commit still finds it, and charges the counter that exists by then. */
  closeAll(keys: ReadonlySet<string>): void {
    for (const { key, open } of this.#tallies.values()) if (keys.has(key)) open.clear();
  }

  /** The latest time at which full counters have fewer open reservations; 0: no counter is full. */
  fullUntilMs(counters: readonly Operation[]): number {
    const { maxReservations } = this.#options;
    let untilMs = 0;
    for (const { key } of counters) {
      const open = this.#tallies.get(key)?.open;
      if (open !== undefined && open.size >= maxReservations) untilMs = Math.max(untilMs, firstDueMs(open));
    }
    return untilMs;
  }

  /**
   * Returns expired amounts, and forgets at most `maxForgotten` reservations whose time is over. Returns the number of forgotten
   * reservations.
   */
  sweep(nowMs: number, maxForgotten: number): number {
    for (let due = this.#due.takeEndedBy(nowMs); due !== undefined; due = this.#due.takeEndedBy(nowMs)) {
      this.#queued -= 1;
      if (due.state === 'open') this.#expire(due, nowMs);
      if (due.state === 'forgotten') continue;
      if (due.forgetMs > due.dueMs) this.#queueEnd(due);
      else this.#forget(due);
    }
    let forgotten = 0;
    while (forgotten < maxForgotten) {
      const ended = this.#ends.takeEndedBy(nowMs);
      if (ended === undefined) break;
      if (ended.state === 'forgotten') continue;
      if (ended.forgetMs > nowMs) {
        this.#queueEnd(ended);
        continue;
      }
      this.#forget(ended);
      forgotten += 1;
    }
    return forgotten;
  }

  /** Charges each of the counters. The caller has checked that they let the amount pass or cannot reject it. */
  reserve(terms: ReservationTerms, counters: readonly Operation[], nowMs: number): MemoryReservation {
    const made = this.#remember(terms, { counters: counters.length, nowMs });
    made.charges = counters.map((counter) => this.#hold(made, counter, nowMs));
    return made;
  }

  /** Records that settling it must charge nothing. The number of such markers has the same kind of bound as the number of open ones. */
  reserveNothing(terms: ReservationTerms, nowMs: number): MemoryReservation | undefined {
    if (terms.isMarker) {
      if (this.#emptyMarkers >= this.#options.maxReservations) return undefined;
      this.#emptyMarkers += 1;
    }
    return this.#remember(terms, { counters: 0, nowMs, isEmpty: true });
  }

  /** Charges an amount without a reservation. With an `id`, the charge is remembered, so that it is not repeated. */
  chargeUnreserved(
    counters: readonly Operation[],
    { actual, id, owner }: { actual: number; id: string | undefined; owner: ReservationOwner | undefined },
    nowMs: number,
  ): MemoryReservation | undefined {
    for (const counter of counters) this.#charge(counter, actual, nowMs);
    if (id === undefined) return undefined;
    const nothing = { amount: 0, ttlMs: 0, onExpiry: 'release', width: 0, descriptors: 0 } as const;
    const terms = { id, owner, isMarker: false, note: undefined, ...nothing };
    const committed = this.#remember(terms, { counters: 0, nowMs });
    committed.state = 'settled';
    committed.charged = actual;
    return committed;
  }

  /**
   * Settles a reservation that is not settled yet. An amount charged in a window that has ended stays charged, and an amount beyond the
   * reservation counts in the current window. `counters` are the current counters, in the order of the charged ones.
   */
  commit(
    reservation: MemoryReservation,
    counters: readonly Operation[],
    actual: number,
    nowMs: number,
  ): void {
    const { state, charges, amount, isEmpty } = reservation;
    const lost = charges.map((charge) => lostOf(charge, state, nowMs));
    if (state === 'open') closeTallies(reservation);
    if (state === 'released' && !isEmpty) {
      for (const counter of counters) this.#charge(counter, actual, nowMs);
    } else {
      for (const [i, charge] of charges.entries()) {
        const counter = counters[i];
        const isOfNow = counter === undefined || counter.key === charge.tally.key;
        const lostOfIt = isOfNow ? (lost[i] ?? 0) : 0;
        if (counter !== undefined) counter.hold!.lost = lostOfIt;
        // The lost part of the charge is charged again, to the extent that it was used.
        const more = (actual > amount ? actual - amount : Math.min(0, actual - charge.taken)) + lostOfIt;
        if (more > 0 && counter !== undefined) this.#charge(counter, more, nowMs);
        else if (more < 0 && isOfNow) {
          const given = giveBack(charge, -more, nowMs);
          if (counter !== undefined) counter.hold!.changed -= given;
        }
      }
    }
    this.#dropCharges(reservation);
    if (reservation.isMarker) {
      this.#forget(reservation);
      return;
    }
    reservation.state = 'settled';
    reservation.charged = actual;
    // The time is the same as after a TTL, because a late settle may be repeated, too.
    reservation.forgetMs = Math.max(reservation.dueMs, nowMs) + this.#options.recordMs;
    this.expiresAtMs = Math.max(this.expiresAtMs, reservation.forgetMs);
  }

  #remember(
    terms: ReservationTerms,
    { counters, nowMs, isEmpty = false }: { counters: number; nowMs: number; isEmpty?: boolean },
  ): MemoryReservation {
    const { id, owner, isMarker, amount, ttlMs, onExpiry, width, descriptors, note } = terms;
    const dueMs = nowMs + ttlMs;
    // A marker that expired is only useful for its charge.
    const isRemembered = !isMarker || (!isEmpty && onExpiry === 'charge');
    const made: MemoryReservation = {
      id,
      owner,
      isMarker,
      amount,
      ttlMs,
      onExpiry,
      width,
      descriptors,
      note,
      madeMs: nowMs,
      dueMs,
      bytes: reservationBytes(id, counters) + keyBytes(note ?? ''),
      isEmpty,
      state: 'open',
      charged: 0,
      charges: [],
      forgetMs: isRemembered ? dueMs + this.#options.recordMs : dueMs,
      expiresAtMs: dueMs,
      queuedTick: 0,
      nextInTick: undefined,
    };
    if (isMarker) {
      const others = this.#markers.get(id);
      if (others === undefined) this.#markers.set(id, [made]);
      else others.push(made);
      this.#markerCount += 1;
    } else {
      this.#records.set(id, made);
    }
    this.expiresAtMs = Math.max(this.expiresAtMs, made.forgetMs);
    this.#queueDue(made);
    return made;
  }

  /** Charges hits, regardless of the remaining hits. Returns the counter, if there is one, and its new state. */
  #charge(op: Operation, hits: number, nowMs: number): Charged {
    const { table } = this.#options;
    const bound = op.counter.charging!;
    const nowMicros = nowMs * 1000;
    const found = table.find(op, nowMs);
    const before = bound.stateAt(stateOf(found, bound), nowMicros);
    const { held, taken } = chargeAnyway(bound, before, hits, nowMicros);
    if (taken === 0) return { counter: found, held, taken };
    op.waitMicros = waitMicros(bound, held, bound.room(held, nowMicros), nowMicros);
    table.keep(op, bound, held, found, nowMs);
    op.hold!.changed += taken;
    return { counter: found ?? table.find(op, nowMs), held, taken };
  }

  #hold(made: MemoryReservation, op: Operation, nowMs: number): CounterCharge {
    const { key } = op;
    let tally = this.#tallies.get(key);
    if (tally === undefined) {
      const counted = { reserved: 0, returned: nothingReturned, returnable: 0, expired: 0, charges: 0 };
      tally = { key, counter: undefined, open: new Set(), ...counted };
      this.#tallies.set(key, tally);
    }
    const charged = this.#charge(op, made.amount, nowMs);
    // Charges to the previous counter no longer count.
    if (tally.counter !== charged.counter) {
      tally.reserved = 0;
      tally.returnable = 0;
      tally.returned = nothingReturned;
    }
    tally.counter = charged.counter;
    tally.open.add(made);
    tally.charges += 1;
    tally.reserved += charged.taken;
    const { returnable: others, returned } = tally;
    tally.returnable += charged.taken;
    return { ...charged, others, returned, tally, bound: op.counter.charging! };
  }

  #expire(reservation: MemoryReservation, nowMs: number): void {
    const lost = reservation.charges.map((charge) => lostOf(charge, 'open', nowMs));
    closeTallies(reservation);
    if (reservation.onExpiry === 'charge') {
      reservation.state = 'kept';
      reservation.charged = reservation.amount;
      return;
    }
    for (const [i, charge] of reservation.charges.entries()) {
      charge.tally.expired += giveBack(charge, charge.taken - lost[i]!, nowMs);
    }
    this.#dropCharges(reservation);
    reservation.state = 'released';
  }

  #dropCharges(reservation: MemoryReservation): void {
    for (const { tally, counter, taken } of reservation.charges) {
      tally.charges -= 1;
      if (tally.counter === counter) tally.returnable -= taken;
      if (tally.charges === 0) this.#tallies.delete(tally.key);
    }
    reservation.charges = [];
  }

  #forget(reservation: MemoryReservation): void {
    const { id, isMarker } = reservation;
    this.#dropCharges(reservation);
    if (isMarker) {
      if (reservation.isEmpty) this.#emptyMarkers -= 1;
      const all = this.#markers.get(id)!;
      all.splice(all.indexOf(reservation), 1);
      if (all.length === 0) this.#markers.delete(id);
      this.#markerCount -= 1;
    } else {
      this.#records.delete(id);
    }
    reservation.state = 'forgotten';
    this.#options.onForgotten(reservation);
    const live = this.#records.size + this.#markerCount;
    if (this.#queued > 2 * live + minCompacted) this.#compact();
  }

  #queueDue(reservation: MemoryReservation): void {
    reservation.expiresAtMs = reservation.dueMs;
    this.#due.add(reservation);
    this.#queued += 1;
  }

  #queueEnd(reservation: MemoryReservation): void {
    reservation.expiresAtMs = reservation.forgetMs;
    this.#ends.add(reservation);
  }

  #compact(): void {
    const former = this.#due;
    this.#due = new ExpiryQueue<MemoryReservation>(1);
    this.#queued = 0;
    for (let one = former.take(); one !== undefined; one = former.take()) {
      if (one.state !== 'forgotten') this.#queueDue(one);
    }
  }
}

/** Chosen: the number of the oldest reservations that are examined. */
const maxLookedAt = 64;

/** The earliest TTL among the oldest open reservations. */
function firstDueMs(open: Iterable<MemoryReservation>): number {
  let first = Number.POSITIVE_INFINITY;
  let looked = 0;
  for (const { dueMs } of open) {
    first = Math.min(first, dueMs);
    looked += 1;
    if (looked === maxLookedAt) break;
  }
  return first;
}

/** Removes the reservation from the open reservations. */
function closeTallies(reservation: MemoryReservation): void {
  for (const { tally, counter, taken } of reservation.charges) {
    tally.open.delete(reservation);
    if (tally.counter === counter) tally.reserved -= taken;
  }
}

/**
 * The part of an open or kept charge that the counter no longer holds: all of it, if the counter was evicted or reset before its end. A
 * fixed window holds at least this charge and the open amounts, unless it was refunded meanwhile.
 */
function lostOf(
  { bound, counter, taken, tally }: CounterCharge,
  state: MemoryReservation['state'],
  nowMs: number,
): number {
  const isEnded = counter === undefined || counter.expiresAtMs <= nowMs;
  if (!isEnded && counter.table === undefined) return taken;
  if (!bound.holdsTotal) return 0;
  if (isEnded) return taken;
  const held = bound.stateAt(stateOf(counter, bound), nowMs * 1000);
  const own = state === 'open' ? 0 : taken;
  const missing = tally.counter === counter ? tally.reserved + own - used(bound, held, nowMs * 1000) : 0;
  return Math.min(taken, Math.max(0, missing));
}

/**
 * Returns hits to the counter of the charge. If this counter no longer exists, nothing is returned, because the counter with its key may
 * be a new one.
 */
function giveBack(charge: CounterCharge, hits: number, nowMs: number): number {
  const { tally, counter, bound } = charge;
  if (hits <= 0 || counter?.table === undefined || counter.expiresAtMs <= nowMs) return 0;
  const nowMicros = nowMs * 1000;
  const held = bound.stateAt(stateOf(counter, bound), nowMicros);
  const max = Math.min(hits, charge.taken);
  const after = bound.giveBackOf(charge, { held, hits: max, returned: tally.returned, nowMicros });
  counter.table.keep({ key: counter.key, ttlSeconds: 0 }, bound, after.held, counter, nowMs);
  tally.returned = after.returned;
  return after.given;
}
