/**
 * The reservations on the counters of one stem, which are the limits of one rule in all their windows: what each took, what
 * becomes of it after its TTL, and what was settled before. Each stem decides for itself; `MemoryReservations` joins those
 * of a call.
 */

import {
  type Bound,
  type Charge,
  type CounterState,
  nothingReturned,
  type Returned,
} from '../../algorithms/bound.ts';
import { chargeAnyway, used, waitMicros } from '../admission.ts';
import { keyBytes } from '../folded-run.ts';
import type { Operation, ReservationOwner } from '../operation.ts';
import { type CounterTable, type KeptCounter, stateOf } from './counter-table.ts';
import { type Expiring, ExpiryQueue } from './expiry-queue.ts';

/** What of one counter is reserved. */
export interface Tally {
  readonly key: string;
  /** The last that was charged; undefined as long as nothing was taken. */
  counter: KeptCounter | undefined;
  /** Reservations that are open, in the order in which they were made. */
  readonly open: Set<KeptReservation>;
  /** What they took of the counter. */
  reserved: number;
  returned: Returned;
  /** Hits that may still be given back, of reservations that are open or expired charged. */
  returnable: number;
  /** What expired gave back to the counter so far. */
  expired: number;
  /** Charges that may still be given back. */
  charges: number;
}

interface Charged {
  /** Undefined: there is none, as nothing was taken. */
  readonly counter: KeptCounter | undefined;
  readonly held: CounterState;
  readonly taken: number;
}

interface CounterCharge extends Charge {
  readonly counter: KeptCounter | undefined;
  readonly tally: Tally;
  readonly bound: Bound;
}

/** One reservation on the counters of the stem. */
export interface KeptReservation extends Expiring {
  readonly id: string;
  readonly owner: ReservationOwner | undefined;
  readonly isMarker: boolean;
  readonly amount: number;
  readonly ttlMs: number;
  readonly onExpiry: 'release' | 'charge';
  /** Counters of the whole call; 0: it was never reserved, only settled. */
  readonly width: number;
  /** As of a `Reservation`. */
  readonly descriptors: number;
  readonly note: string | undefined;
  readonly madeMs: number;
  readonly dueMs: number;
  readonly bytes: number;
  /** It was left out, or refused: it holds nothing, and its settling charges nothing. */
  readonly isEmpty: boolean;
  /** `open` until it is `settled` or its TTL ends: it is then `released`, or `kept` with its charges. */
  state: 'open' | 'released' | 'kept' | 'settled' | 'forgotten';
  /** What was charged for it in the end. */
  charged: number;
  /** One for each counter, in their order, as long as it may be given back. */
  charges: readonly CounterCharge[];
  forgetMs: number;
  /** When something is next to be done about it. */
  expiresAtMs: number;
}

/** What a reservation is made with; equal for the same one that comes again. */
export type ReservationTerms = Pick<
  KeptReservation,
  'id' | 'owner' | 'isMarker' | 'amount' | 'ttlMs' | 'onExpiry' | 'width' | 'descriptors' | 'note'
>;

interface BookOptions {
  /** Whose call made the book. */
  readonly owner: ReservationOwner | undefined;
  readonly table: CounterTable;
  readonly maxReservations: number;
  readonly recordMs: number;
  /** Its bytes are free, and its note is void. */
  readonly onForgotten: (reservation: KeptReservation) => void;
}

/** What one occupies besides its id, with one counter, and each further counter: measured on Node 26, rounded up. */
const reservationOverheadBytes = 460;
const chargeBytes = 180;
/** Chosen: what is no longer there is taken out of the queue when it is more than what is, and so many. */
const leastCompacted = 64;

export function reservationBytes(id: string, counters: number): number {
  return keyBytes(id) + reservationOverheadBytes + counters * chargeBytes;
}

export class ReservationBook implements Expiring {
  readonly stem: string;
  readonly #options: BookOptions;
  /** Those that are the same when they come again, by their id. */
  readonly #records = new Map<string, KeptReservation>();
  readonly #markers = new Map<string, KeptReservation[]>();
  #markerCount = 0;
  /** Of the markers, those that charged nothing. */
  #emptyMarkers = 0;
  readonly #tallies = new Map<string, Tally>();
  /** Until their TTL, whatever becomes of them; then until they are forgotten. */
  #due = new ExpiryQueue<KeptReservation>(1);
  readonly #ends = new ExpiryQueue<KeptReservation>(1);
  /** How many wait for their TTL. */
  #queued = 0;
  /** When the last one is forgotten. */
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

  tally(key: string): Tally | undefined {
    return this.#tallies.get(key);
  }

  record(id: string, nowMs: number): KeptReservation | undefined {
    const known = this.#records.get(id);
    if (known === undefined || known.forgetMs > nowMs) return known;
    this.#forget(known);
    return undefined;
  }

  /** That which a settle closes: the oldest that is open, else one that expired charged, else one that charged nothing. */
  marker(id: string, nowMs: number): KeptReservation | undefined {
    let kept: KeptReservation | undefined;
    let first: KeptReservation | undefined;
    for (const one of this.#markers.get(id) ?? []) {
      const { state, isEmpty, forgetMs } = one;
      if (forgetMs <= nowMs) continue;
      if (state === 'open' && !isEmpty) return one;
      if (state === 'kept') kept ??= one;
      first ??= one;
    }
    return kept ?? first;
  }

  /** When the counters that have as many open ones as they may have less of them at the latest; 0: none has so many. */
  fullUntilMs(counters: readonly Operation[]): number {
    const { maxReservations } = this.#options;
    let untilMs = 0;
    for (const { key } of counters) {
      const open = this.#tallies.get(key)?.open;
      if (open !== undefined && open.size >= maxReservations) untilMs = Math.max(untilMs, firstDueMs(open));
    }
    return untilMs;
  }

  /** Gives back all that has expired, and forgets what nobody can ask for any more: so many, and says how many those were. */
  sweep(nowMs: number, mostForgotten: number): number {
    for (let due = this.#due.takeEndedBy(nowMs); due !== undefined; due = this.#due.takeEndedBy(nowMs)) {
      this.#queued -= 1;
      if (due.state === 'open') this.#expire(due, nowMs);
      if (due.state === 'forgotten') continue;
      if (due.forgetMs > due.dueMs) this.#queueEnd(due);
      else this.#forget(due);
    }
    let forgotten = 0;
    while (forgotten < mostForgotten) {
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

  /** Charges each of the counters, which let it pass or do not refuse. */
  reserve(terms: ReservationTerms, counters: readonly Operation[], nowMs: number): KeptReservation {
    const made = this.#remember(terms, { counters: counters.length, nowMs });
    made.charges = counters.map((counter) => this.#hold(made, counter, nowMs));
    return made;
  }

  /** Its settling is to charge nothing. Of markers so many are remembered as may be open. */
  reserveNothing(terms: ReservationTerms, nowMs: number): KeptReservation | undefined {
    if (terms.isMarker) {
      if (this.#emptyMarkers >= this.#options.maxReservations) return undefined;
      this.#emptyMarkers += 1;
    }
    return this.#remember(terms, { counters: 0, nowMs, isEmpty: true });
  }

  /** Charges what nobody reserved. With `id` it is remembered, so that it is not charged again. */
  chargeUnreserved(
    counters: readonly Operation[],
    { actual, id, owner }: { actual: number; id: string | undefined; owner: ReservationOwner | undefined },
    nowMs: number,
  ): KeptReservation | undefined {
    for (const counter of counters) this.#charge(counter, actual, nowMs);
    if (id === undefined) return undefined;
    const nothing = { amount: 0, ttlMs: 0, onExpiry: 'release', width: 0, descriptors: 0 } as const;
    const terms = { id, owner, isMarker: false, note: undefined, ...nothing };
    const settled = this.#remember(terms, { counters: 0, nowMs });
    settled.state = 'settled';
    settled.charged = actual;
    return settled;
  }

  /**
   * Not of one that is settled. What was charged in a window that has ended stays so; what is more than was reserved counts
   * in the present one. `counters` are those of now, in the order of those that were charged.
   */
  settle(reservation: KeptReservation, counters: readonly Operation[], actual: number, nowMs: number): void {
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
        // What is lost of the charge is charged again, as far as it was used.
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
    // As long as after a TTL: who settles late may try again as well.
    reservation.forgetMs = Math.max(reservation.dueMs, nowMs) + this.#options.recordMs;
    this.expiresAtMs = Math.max(this.expiresAtMs, reservation.forgetMs);
  }

  #remember(
    terms: ReservationTerms,
    { counters, nowMs, isEmpty = false }: { counters: number; nowMs: number; isEmpty?: boolean },
  ): KeptReservation {
    const { id, owner, isMarker, amount, ttlMs, onExpiry, width, descriptors, note } = terms;
    const dueMs = nowMs + ttlMs;
    // Of a marker that expired only its charge is of any use.
    const isRemembered = !isMarker || (!isEmpty && onExpiry === 'charge');
    const made: KeptReservation = {
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

  /** Whatever is left. Gives the counter, if there is one, and what it then holds. */
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

  #hold(made: KeptReservation, op: Operation, nowMs: number): CounterCharge {
    const { key } = op;
    let tally = this.#tallies.get(key);
    if (tally === undefined) {
      const counted = { reserved: 0, returned: nothingReturned, returnable: 0, expired: 0, charges: 0 };
      tally = { key, counter: undefined, open: new Set(), ...counted };
      this.#tallies.set(key, tally);
    }
    const charged = this.#charge(op, made.amount, nowMs);
    // What was charged on the one before counts no longer.
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

  #expire(reservation: KeptReservation, nowMs: number): void {
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

  #dropCharges(reservation: KeptReservation): void {
    for (const { tally, counter, taken } of reservation.charges) {
      tally.charges -= 1;
      if (tally.counter === counter) tally.returnable -= taken;
      if (tally.charges === 0) this.#tallies.delete(tally.key);
    }
    reservation.charges = [];
  }

  #forget(reservation: KeptReservation): void {
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
    if (this.#queued > 2 * live + leastCompacted) this.#compact();
  }

  #queueDue(reservation: KeptReservation): void {
    reservation.expiresAtMs = reservation.dueMs;
    this.#due.add(reservation);
    this.#queued += 1;
  }

  #queueEnd(reservation: KeptReservation): void {
    reservation.expiresAtMs = reservation.forgetMs;
    this.#ends.add(reservation);
  }

  #compact(): void {
    const former = this.#due;
    this.#due = new ExpiryQueue<KeptReservation>(1);
    this.#queued = 0;
    for (let one = former.take(); one !== undefined; one = former.take()) {
      if (one.state !== 'forgotten') this.#queueDue(one);
    }
  }
}

/** Chosen: so many are looked at, the oldest first. */
const mostLookedAt = 64;

/** When the first of the oldest open ones is due. */
function firstDueMs(open: Iterable<KeptReservation>): number {
  let first = Number.POSITIVE_INFINITY;
  let looked = 0;
  for (const { dueMs } of open) {
    first = Math.min(first, dueMs);
    looked += 1;
    if (looked === mostLookedAt) break;
  }
  return first;
}

/** It is no longer open. */
function closeTallies(reservation: KeptReservation): void {
  for (const { tally, counter, taken } of reservation.charges) {
    tally.open.delete(reservation);
    if (tally.counter === counter) tally.reserved -= taken;
  }
}

/**
 * What the counter no longer holds of one that is open or expired charged: a fixed window has at least that and what is
 * open on it, unless it was evicted, reset or paid back meanwhile.
 */
function lostOf(
  { bound, counter, taken, tally }: CounterCharge,
  state: KeptReservation['state'],
  nowMs: number,
): number {
  if (!bound.holdsTotal) return 0;
  if (counter?.table === undefined || counter.expiresAtMs <= nowMs) return taken;
  const held = bound.stateAt(stateOf(counter, bound), nowMs * 1000);
  const own = state === 'open' ? 0 : taken;
  const missing = tally.counter === counter ? tally.reserved + own - used(bound, held, nowMs * 1000) : 0;
  return Math.min(taken, Math.max(0, missing));
}

/** Nothing to a counter that is gone: what stands there now may be another one. */
function giveBack(charge: CounterCharge, hits: number, nowMs: number): number {
  const { tally, counter, bound } = charge;
  if (hits <= 0 || counter?.table === undefined || counter.expiresAtMs <= nowMs) return 0;
  const nowMicros = nowMs * 1000;
  const held = bound.stateAt(stateOf(counter, bound), nowMicros);
  const most = Math.min(hits, charge.taken);
  const after = bound.giveBackOf(charge, { held, hits: most, returned: tally.returned, nowMicros });
  counter.table.keep({ key: counter.key, ttlSeconds: 0 }, bound, after.held, counter, nowMs);
  tally.returned = after.returned;
  return after.given;
}
