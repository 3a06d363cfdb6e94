import type { Clock } from '../../../process/time/clock.ts';
import { holdWaitMicros, used } from '../admission.ts';
import { keyBytes } from '../folded-run.ts';
import {
  failAll,
  type Operation,
  type ReachedReservationBound,
  type Reservation,
  type ReservationHold,
  type ReservationOwner,
} from '../operation.ts';
import type { Note, Notes, OnceClaims, ReservationBounds } from '../store.ts';
import { ByteShares } from './byte-shares.ts';
import { CounterTable, keyTooLong, stateOf } from './counter-table.ts';
import { type Expiring, ExpiryQueue } from './expiry-queue.ts';
import {
  type CounterReservations,
  type MemoryReservation,
  ReservationBook,
  type ReservationTerms,
  reservationBytes,
} from './reservation-book.ts';

export interface MemoryReservationsOptions extends ReservationBounds {
  readonly clock: Clock;
  readonly table: CounterTable;
}

/** Chosen: the share of the store's bytes for reservations. The rest is for counters. */
const maxOfBytes = 0.5;
/** Measured on Node 26, rounded up. */
const bookBytes = 1500;
const noteBytes = 250;
/** Chosen: the bounds of claimed names. Beyond them, the claim that ends soonest is dropped. */
const maxClaims = { maxCounters: 10_000, maxBytes: 4 * 1024 * 1024 };

/** Above one, so that ended reservations are removed faster than new ones can be added. */
const sweptPerCall = 4;

/** The counters of a call with one stem, in their order. */
interface Section {
  readonly book: ReservationBook;
  readonly counters: Operation[];
  isRejected: boolean;
}

/** A note of a reservation that holds nothing. */
interface StoredNote extends Expiring {
  readonly id: string;
  readonly text: string;
  readonly owner: ReservationOwner | undefined;
  readonly bytes: number;
}

/** Reservations of a store in this process. `done` is called before `submit` returns. */
export class MemoryReservations implements Notes, OnceClaims {
  readonly #options: MemoryReservationsOptions;
  readonly #books = new Map<string, ReservationBook>();
  readonly #ends = new ExpiryQueue<ReservationBook>();
  readonly #noted = new Map<string, MemoryReservation>();
  readonly #notes = new Map<string, StoredNote>();
  readonly #noteEnds = new ExpiryQueue<StoredNote>();
  readonly #claims = new CounterTable(maxClaims);
  readonly #shares: ByteShares;

  constructor(options: MemoryReservationsOptions) {
    this.#options = options;
    this.#shares = new ByteShares(maxOfBytes * options.table.maxBytes);
  }

  /** Answers the operations of one call. */
  submit(ops: readonly Operation[]): void {
    const { table, clock } = this.#options;
    const tooLong = ops.find(({ key }) => !table.fits(key));
    if (tooLong !== undefined) failAll(ops, keyTooLong(tooLong.key, table.maxBytes));
    else this.#answer(ops, clock.nowMs());
  }

  async recall(id: string): Promise<string | undefined> {
    return this.#noteAt(id, this.#options.clock.nowMs());
  }

  async note({ id, text, ttlMs, owner }: Note): Promise<string | ReachedReservationBound | undefined> {
    const nowMs = this.#options.clock.nowMs();
    this.sweep(nowMs, sweptPerCall);
    const known = this.#noteAt(id, nowMs);
    if (known !== undefined) return known;
    const bytes = keyBytes(id) + keyBytes(text) + noteBytes;
    if (!this.#shares.hasRoom(owner, bytes)) return { of: 'memory', roomAtMs: nowMs };
    const expiresAtMs = nowMs + ttlMs + this.#options.recordMs;
    const note: StoredNote = { id, text, owner, bytes, expiresAtMs, queuedTick: 0, nextInTick: undefined };
    this.#notes.set(id, note);
    this.#noteEnds.add(note);
    this.#occupy(owner, bytes);
    return undefined;
  }

  async claim(name: string, seconds: number): Promise<boolean> {
    const nowMs = this.#options.clock.nowMs();
    this.#claims.sweep(nowMs, 2);
    if (this.#claims.at(name, nowMs) !== undefined) return false;
    this.#claims.remove(name);
    this.#claims.create({ key: name, value: 1, expiresAtMs: nowMs + seconds * 1000 });
    return true;
  }

  /** Whether there is no reservation that is still remembered. */
  get isEmpty(): boolean {
    return this.#books.size === 0;
  }

  /** Whether a reservation on counters of this stem is still remembered. */
  knows(stem: string): boolean {
    return this.#books.has(stem);
  }

  /** Closes the reservations on counters that an operator removed: they hold nothing there, so they must not count as open. */
  closeAll(keys: ReadonlySet<string>): void {
    for (const book of this.#books.values()) book.closeAll(keys);
  }

  get bytes(): number {
    return this.#shares.bytes;
  }

  /** Forgets ended reservations, at most `limit`. */
  sweep(nowMs: number, limit: number): void {
    this.#sweepNotes(nowMs, limit);
    for (let left = limit; left > 0; left -= 1) {
      const book = this.#ends.takeEndedBy(nowMs);
      if (book === undefined) return;
      left -= book.sweep(nowMs, left);
      if (book.isEmpty) {
        this.#books.delete(book.stem);
        this.#occupy(book.owner, -bookBytes - keyBytes(book.stem));
      } else {
        this.#ends.add(book);
      }
    }
  }

  #sweepNotes(nowMs: number, limit: number): void {
    for (let left = limit; left > 0; left -= 1) {
      const ended = this.#noteEnds.takeEndedBy(nowMs);
      if (ended === undefined) return;
      this.#occupy(ended.owner, -ended.bytes);
      if (this.#notes.get(ended.id) === ended) this.#notes.delete(ended.id);
    }
  }

  #answer(ops: readonly Operation[], nowMs: number): void {
    const { verb, hold } = ops[0]!;
    const call = hold!.reservation;
    const sections = this.#sectionsOf(ops, verb === 'look' ? undefined : call.owner);
    const expiredBefore: { hold: ReservationHold; tally: CounterReservations; expired: number }[] = [];
    for (const { book, counters } of sections) {
      for (const counter of counters) {
        const hold = counter.hold!;
        Object.assign(hold, unanswered);
        counter.error = undefined;
        const tally = book.tally(counter.key);
        if (tally !== undefined) expiredBefore.push({ hold, tally, expired: tally.expired });
      }
      book.sweep(nowMs, sweptPerCall);
    }
    for (const { hold, tally, expired } of expiredBefore) hold.givenBack = tally.expired - expired;
    // This comes after the sweeps above, whose returned amounts the call reports.
    this.sweep(nowMs, sweptPerCall);
    if (verb === 'reserve') this.#reserve(call, sections, nowMs);
    else if (verb === 'commit') this.#commit(call, sections, nowMs);
    for (const { book, counters } of sections) {
      this.#shelve(book);
      for (const counter of counters) this.#report(counter, book, nowMs);
    }
  }

  #sectionsOf(ops: readonly Operation[], owner: ReservationOwner | undefined): Section[] {
    const sections: Section[] = [];
    for (const op of ops) {
      const stem = op.counter.counterStem;
      const known = sections.find(({ book }) => book.stem === stem);
      if (known !== undefined) known.counters.push(op);
      else sections.push({ book: this.#bookOf(stem, owner), counters: [op], isRejected: false });
    }
    return sections;
  }

  #bookOf(stem: string, owner: ReservationOwner | undefined): ReservationBook {
    const { table, maxReservations, recordMs } = this.#options;
    const onForgotten = (forgotten: MemoryReservation): void => {
      this.#occupy(forgotten.owner, -forgotten.bytes);
      if (this.#noted.get(forgotten.id) === forgotten) this.#noted.delete(forgotten.id);
    };
    return (
      this.#books.get(stem) ??
      new ReservationBook(stem, { owner, table, maxReservations, recordMs, onForgotten })
    );
  }

  /** Adds a new book if it is not empty. */
  #shelve(book: ReservationBook): void {
    if (book.isEmpty || this.#books.has(book.stem)) return;
    this.#books.set(book.stem, book);
    this.#ends.add(book);
    this.#occupy(book.owner, bookBytes + keyBytes(book.stem));
  }

  #occupy(owner: ReservationOwner | undefined, bytes: number): void {
    this.#shares.occupy(owner, bytes);
    this.#options.table.occupy(this.#shares.bytes);
  }

  /** Whether there is memory for this reservation in each section. */
  #hasRoom({ id, note, owner }: Reservation, sections: readonly Section[]): boolean {
    let bytes = keyBytes(note ?? '');
    for (const { book, counters } of sections) {
      bytes += reservationBytes(id, counters.length);
      if (!this.#books.has(book.stem)) bytes += bookBytes + keyBytes(book.stem);
    }
    return this.#shares.hasRoom(owner, bytes);
  }

  #reserve(call: Reservation, sections: readonly Section[], nowMs: number): void {
    call.expiresAtMs = 0;
    call.full = undefined;
    const { id, note, isMarker } = call;
    if (!isMarker) {
      const known = sections.map(({ book }) => book.record(id, nowMs));
      const noted = this.#noteAt(id, nowMs);
      const isOther = note !== undefined && noted !== undefined && noted !== note;
      if (isOther || known.some((one) => one !== undefined)) {
        const isSame = !isOther && sections.every((section, i) => isRepeated(call, section, known[i]));
        call.outcome = isSame ? 'repeated' : 'conflict';
        if (isSame) for (const [i, section] of sections.entries()) repeat(call, section, known[i]!);
        return;
      }
    }
    const isOverLimitHere = rejects(call, sections, nowMs, this.#options.table);
    const isRejected = isOverLimitHere || call.isOverLimitElsewhere;
    const held = sections.filter((section) => !section.isRejected);
    const hasRoom = this.#hasRoom(call, sections);
    const counterRoomMs = Math.max(...held.map(({ book, counters }) => book.fullUntilMs(counters)));
    const isFull = !hasRoom || counterRoomMs > 0;
    const isReserved = !isRejected && !isFull;
    if (!isRejected && isFull)
      call.full = hasRoom ? { of: 'counter', roomAtMs: counterRoomMs } : { of: 'memory', roomAtMs: nowMs };
    call.outcome = isRejected ? 'refused' : isFull ? 'full' : 'reserved';
    if (!hasRoom || (!isReserved && !isMarker)) return;
    for (const section of sections) {
      const { book, counters } = section;
      const terms = termsOf(call, section, section === sections[0] ? note : undefined);
      const isEmpty = !isReserved || section.isRejected;
      const made = isEmpty ? book.reserveNothing(terms, nowMs) : book.reserve(terms, counters, nowMs);
      if (isReserved) reportAll(counters, isEmpty);
      if (made === undefined) continue;
      this.#occupy(made.owner, made.bytes);
      if (made.note !== undefined) this.#noted.set(id, made);
      if (section === sections[0] && isReserved) call.expiresAtMs = made.dueMs;
    }
  }

  #commit(call: Reservation, sections: readonly Section[], nowMs: number): void {
    const { id, isMarker, owner } = call;
    call.commitOutcome = 'unknown';
    call.charged = 0;
    call.amount = 0;
    let isFirst = true;
    const all = sections.map(({ book }) => (isMarker ? book.marker(id, nowMs) : book.record(id, nowMs)));
    const other = all.find((known) => known !== undefined && hasOtherDescriptors(call, known));
    if (other !== undefined) {
      call.commitOutcome = 'partial';
      call.reservedDescriptors = other.descriptors;
      return;
    }
    for (const [i, section] of sections.entries()) {
      const { book, counters } = section;
      const actual = counters[0]!.hold!.amount;
      const known = all[i];
      if (known === undefined) {
        if (call.unknown === 'report' || actual === undefined) continue;
        const remembered = !isMarker && id !== '' && this.#hasRoom(call, [section]);
        const made = book.chargeUnreserved(
          counters,
          { actual, id: remembered ? id : undefined, owner },
          nowMs,
        );
        if (made !== undefined) this.#occupy(owner, made.bytes);
        if (call.commitOutcome === 'unknown' && isFirst) call.charged = actual;
        isFirst = false;
        reportAll(counters, false);
        continue;
      }
      const charged = known.state === 'settled' ? known.charged : (actual ?? known.amount);
      if (call.commitOutcome === 'unknown') {
        call.charged = charged;
        call.amount = known.amount;
      }
      call.commitOutcome = laterOutcome(call.commitOutcome, known, nowMs);
      if (known.state !== 'settled') book.commit(known, counters, charged, nowMs);
      reportAll(counters, known.isEmpty);
    }
  }

  #noteAt(id: string, nowMs: number): string | undefined {
    const noted = this.#noted.get(id);
    if (noted !== undefined && noted.forgetMs > nowMs) return noted.note;
    const kept = this.#notes.get(id);
    return kept !== undefined && kept.expiresAtMs > nowMs ? kept.text : undefined;
  }

  #report(counter: Operation, book: ReservationBook, nowMs: number): void {
    const bound = counter.counter.charging!;
    const hold = counter.hold!;
    const nowMicros = nowMs * 1000;
    const found = this.#options.table.find(counter, nowMs);
    const held = bound.stateAt(stateOf(found, bound), nowMicros);
    const tally = book.tally(counter.key);
    counter.after = used(bound, held, nowMicros);
    // A part of a bucket may have refilled on its own.
    hold.reserved =
      tally === undefined || tally.counter !== found ? 0 : Math.min(tally.reserved, counter.after);
    hold.open = tally?.open.size ?? 0;
    hold.oldestMs = 0;
    if (tally !== undefined)
      for (const { madeMs } of tally.open) {
        hold.oldestMs = madeMs;
        break;
      }
    counter.waitMicros = holdWaitMicros(counter, held, nowMicros);
  }
}

const unanswered = { outcome: 'untouched', changed: 0, givenBack: 0, lost: 0 } as const;

function termsOf(
  { id, owner, isMarker, width, descriptors }: Reservation,
  section: Section,
  note: string | undefined,
): ReservationTerms {
  const { amount, ttlMs, onExpiry } = section.counters[0]!.hold!;
  return { id, owner, isMarker, amount: amount ?? 0, ttlMs, onExpiry, width, descriptors, note };
}

/** Whether the reservation was made for another number of descriptors, if both numbers are known. */
function hasOtherDescriptors(
  { descriptors: named }: Reservation,
  { descriptors }: MemoryReservation,
): boolean {
  return named > 0 && descriptors > 0 && named !== descriptors;
}

function reportAll(counters: readonly Operation[], isEmpty: boolean): void {
  for (const { hold } of counters) hold!.outcome = isEmpty ? 'left-out' : 'charged';
}

function isRepeated(call: Reservation, section: Section, known: MemoryReservation | undefined): boolean {
  if (known === undefined) return false;
  const { amount, ttlMs, onExpiry, width, descriptors } = termsOf(call, section, undefined);
  return (
    known.amount === amount &&
    known.ttlMs === ttlMs &&
    known.onExpiry === onExpiry &&
    known.width === width &&
    known.descriptors === descriptors
  );
}

function repeat(call: Reservation, { counters }: Section, known: MemoryReservation): void {
  if (call.expiresAtMs === 0) call.expiresAtMs = known.dueMs;
  reportAll(counters, known.isEmpty);
}

/** Finds which sections have no room, and whether that rejects the call. */
function rejects(
  { otherQuotaPasses }: Reservation,
  sections: readonly Section[],
  nowMs: number,
  table: CounterTable,
): boolean {
  let isRejected = false;
  let quotas = 0;
  let quotasOver = 0;
  for (const section of sections) {
    const { counters } = section;
    for (const counter of counters) {
      const bound = counter.counter.charging!;
      const { isShadow, amount } = counter.hold!;
      const nowMicros = nowMs * 1000;
      const held = bound.stateAt(stateOf(table.find(counter, nowMs), bound), nowMicros);
      const room = bound.room(held, nowMicros);
      // If the limit is exceeded, not even an amount of 0 fits.
      const fits = (amount ?? 0) <= room && bound.used(held, room) <= bound.capacity;
      if (isShadow || fits) continue;
      counter.hold!.outcome = 'refused';
      section.isRejected = true;
    }
    if (!counters[0]!.hold!.isQuota) {
      isRejected ||= section.isRejected;
    } else if (counters.some(({ hold }) => !hold!.isShadow)) {
      quotas += 1;
      if (section.isRejected) quotasOver += 1;
    }
  }
  return isRejected || (quotas > 0 && quotas === quotasOver && !otherQuotaPasses);
}

/**
 * Joins the results of the sections of one call. A reservation that was settled just now takes precedence over one that was settled
 * before.
 */
function laterOutcome(
  former: Reservation['commitOutcome'],
  known: MemoryReservation,
  nowMs: number,
): Reservation['commitOutcome'] {
  if (known.state === 'settled') return former === 'unknown' ? 'repeated' : former;
  if (former === 'settled') return former;
  return nowMs >= known.dueMs ? 'late' : 'settled';
}
