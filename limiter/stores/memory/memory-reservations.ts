import type { Clock } from '../../../process/time/clock.ts';
import { used } from '../admission.ts';
import { StoreError } from '../counter-store.ts';
import { keyBytes } from '../folded-run.ts';
import type {
  Fullness,
  Note,
  ReservationBounds,
  ReservationCall,
  ReservationOwner,
  ReservationStore,
  ReserveCall,
  ReservedCounter,
  SettleCall,
} from '../reservations/reservation-store.ts';
import { ByteShares } from './byte-shares.ts';
import { CounterTable, heldBy, keyTooLong } from './counter-table.ts';
import { type Expiring, ExpiryQueue } from './expiry-queue.ts';
import {
  type Reservation,
  ReservationBook,
  type ReservationTerms,
  reservationBytes,
  type Tally,
} from './reservation-book.ts';

export interface MemoryReservationsOptions extends ReservationBounds {
  readonly clock: Clock;
  readonly table: CounterTable;
}

/** Chosen: of the store's bytes reservations take so much at most, so that there is room for counters. */
const mostOfBytes = 0.5;
/** Measured on Node 26, rounded up. */
const bookBytes = 1500;
const noteBytes = 250;
/** Chosen: names that are claimed. When there are more, that which ends soonest is free again. */
const mostClaims = { maxCounters: 10_000, maxBytes: 4 * 1024 * 1024 };

/** More than one, so that ended ones go faster than new ones can come. */
const sweptPerCall = 4;

/** The counters of a call that have one stem, in their order. */
interface Section {
  readonly book: ReservationBook;
  readonly counters: ReservedCounter[];
  isRefused: boolean;
}

/** A note of what holds nothing. */
interface KeptNote extends Expiring {
  readonly id: string;
  readonly text: string;
  readonly owner: ReservationOwner | undefined;
  readonly bytes: number;
}

/** Budgets of a store in this process. `done` is called before `submit` returns. */
export class MemoryReservations implements ReservationStore {
  readonly #options: MemoryReservationsOptions;
  readonly #books = new Map<string, ReservationBook>();
  readonly #ends = new ExpiryQueue<ReservationBook>();
  readonly #noted = new Map<string, Reservation>();
  readonly #notes = new Map<string, KeptNote>();
  readonly #noteEnds = new ExpiryQueue<KeptNote>();
  readonly #claims = new CounterTable(mostClaims);
  readonly #shares: ByteShares;
  #closed = false;

  constructor(options: MemoryReservationsOptions) {
    this.#options = options;
    this.#shares = new ByteShares(mostOfBytes * options.table.maxBytes);
  }

  submit(call: ReservationCall, done: () => void): void {
    call.error = this.#problem(call);
    if (call.error === undefined) this.#answer(call, this.#options.clock.nowMs());
    done();
  }

  async recall(id: string): Promise<string | undefined> {
    return this.#noteAt(id, this.#options.clock.nowMs());
  }

  async note({ id, text, ttlMs, owner }: Note): Promise<string | Fullness | undefined> {
    const nowMs = this.#options.clock.nowMs();
    this.sweep(nowMs, sweptPerCall);
    const known = this.#noteAt(id, nowMs);
    if (known !== undefined) return known;
    const bytes = keyBytes(id) + keyBytes(text) + noteBytes;
    if (!this.#shares.hasRoom(owner, bytes)) return { of: 'memory', roomAtMs: nowMs };
    const expiresAtMs = nowMs + ttlMs + this.#options.recordMs;
    const note: KeptNote = { id, text, owner, bytes, expiresAtMs, queuedTick: 0, nextInTick: undefined };
    this.#notes.set(id, note);
    this.#noteEnds.add(note);
    this.#occupy(owner, bytes);
    return undefined;
  }

  async claim(name: string, seconds: number): Promise<boolean> {
    const nowMs = this.#options.clock.nowMs();
    this.#claims.sweep(nowMs, 2);
    if (this.#claims.find({ key: name }, nowMs) !== undefined) return false;
    this.#claims.create({ key: name, value: 1, expiresAtMs: nowMs + seconds * 1000 });
    return true;
  }

  /** Whether any was made for counters of this stem, and is not forgotten. */
  knows(stem: string): boolean {
    return this.#books.has(stem);
  }

  get bytes(): number {
    return this.#shares.bytes;
  }

  close(): void {
    this.#closed = true;
  }

  /** Forgets what nobody asked for, so many reservations at most. */
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

  #problem({ counters }: ReservationCall): StoreError | undefined {
    if (this.#closed) return new StoreError('memory store is closed', { transient: false, notCounted: true });
    const { table } = this.#options;
    const tooLong = counters.find(({ key }) => !table.fits(key));
    return tooLong && keyTooLong(tooLong.key, table.maxBytes);
  }

  #answer(call: ReservationCall, nowMs: number): void {
    const sections = this.#sectionsOf(call);
    const expiredBefore: { counter: ReservedCounter; tally: Tally; expired: number }[] = [];
    for (const { book, counters } of sections) {
      for (const counter of counters) {
        Object.assign(counter, unanswered);
        const tally = book.tally(counter.key);
        if (tally !== undefined) expiredBefore.push({ counter, tally, expired: tally.expired });
      }
      book.sweep(nowMs, sweptPerCall);
    }
    for (const { counter, tally, expired } of expiredBefore) counter.givenBack = tally.expired - expired;
    // Behind these, as what the call gave back is told.
    this.sweep(nowMs, sweptPerCall);
    if (call.kind === 'reserve') this.#reserve(call, sections, nowMs);
    else if (call.kind === 'settle') this.#settle(call, sections, nowMs);
    for (const { book, counters } of sections) {
      this.#shelve(book);
      for (const counter of counters) this.#tell(counter, book, nowMs);
    }
  }

  #sectionsOf(call: ReservationCall): Section[] {
    const { counters } = call;
    const owner = call.kind === 'look' ? undefined : call.owner;
    const sections: Section[] = [];
    for (const counter of counters) {
      const known = sections.find(({ book }) => book.stem === counter.stem);
      if (known !== undefined) known.counters.push(counter);
      else sections.push({ book: this.#bookOf(counter.stem, owner), counters: [counter], isRefused: false });
    }
    return sections;
  }

  #bookOf(stem: string, owner: ReservationOwner | undefined): ReservationBook {
    const { table, maxReservations, recordMs } = this.#options;
    const onForgotten = (forgotten: Reservation): void => {
      this.#occupy(forgotten.owner, -forgotten.bytes);
      if (this.#noted.get(forgotten.id) === forgotten) this.#noted.delete(forgotten.id);
    };
    return (
      this.#books.get(stem) ??
      new ReservationBook(stem, { owner, table, maxReservations, recordMs, onForgotten })
    );
  }

  /** Keeps a new one, if there is anything in it. */
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

  /** Whether so much more may be remembered of the id in each section. */
  #hasRoom({ id, note, owner }: Remembered, sections: readonly Section[]): boolean {
    let bytes = keyBytes(note ?? '');
    for (const { book, counters } of sections) {
      bytes += reservationBytes(id, counters.length);
      if (!this.#books.has(book.stem)) bytes += bookBytes + keyBytes(book.stem);
    }
    return this.#shares.hasRoom(owner, bytes);
  }

  #reserve(call: ReserveCall, sections: readonly Section[], nowMs: number): void {
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
    const hasRefused = refuses(call, sections, nowMs, this.#options.table);
    const isRefused = hasRefused || call.refusedElsewhere === true;
    const held = sections.filter((section) => !section.isRefused);
    const hasRoom = this.#hasRoom(call, sections);
    const counterRoomMs = Math.max(...held.map(({ book, counters }) => book.fullUntilMs(counters)));
    const isFull = !hasRoom || counterRoomMs > 0;
    const isReserved = !isRefused && !isFull;
    if (!isRefused && isFull)
      call.full = hasRoom ? { of: 'counter', roomAtMs: counterRoomMs } : { of: 'memory', roomAtMs: nowMs };
    call.outcome = isRefused ? 'refused' : isFull ? 'full' : 'reserved';
    if (!hasRoom || (!isReserved && !isMarker)) return;
    for (const section of sections) {
      const { book, counters } = section;
      const terms = termsOf(call, section, section === sections[0] ? note : undefined);
      const isEmpty = !isReserved || section.isRefused;
      const made = isEmpty ? book.reserveNothing(terms, nowMs) : book.reserve(terms, counters, nowMs);
      if (isReserved) for (const counter of counters) counter.outcome = isEmpty ? 'left-out' : 'charged';
      if (made === undefined) continue;
      this.#occupy(made.owner, made.bytes);
      if (made.note !== undefined) this.#noted.set(id, made);
      if (section === sections[0] && isReserved) call.expiresAtMs = made.dueMs;
    }
  }

  #settle(call: SettleCall, sections: readonly Section[], nowMs: number): void {
    const { id, isMarker, owner } = call;
    call.outcome = 'unknown';
    call.charged = 0;
    call.amount = 0;
    for (const section of sections) {
      const { book, counters } = section;
      const actual = counters[0]!.amount;
      const known = isMarker ? book.marker(id, nowMs) : book.record(id, nowMs);
      if (known === undefined) {
        if (call.unknown === 'tell' || actual === undefined) continue;
        const remembered = !isMarker && id !== '' && this.#hasRoom(call, [section]);
        const made = book.chargeUnreserved(
          counters,
          { actual, id: remembered ? id : undefined, owner },
          nowMs,
        );
        if (made !== undefined) this.#occupy(owner, made.bytes);
        if (call.outcome === 'unknown') call.charged = actual;
        for (const counter of counters) counter.outcome = 'charged';
        continue;
      }
      const charged = known.state === 'settled' ? known.charged : (actual ?? known.amount);
      if (call.outcome === 'unknown') {
        call.charged = charged;
        call.amount = known.amount;
      }
      call.outcome = laterOutcome(call.outcome, known, nowMs);
      if (known.state !== 'settled') book.settle(known, counters, charged, nowMs);
      for (const counter of counters) counter.outcome = known.isEmpty ? 'left-out' : 'charged';
    }
  }

  #noteAt(id: string, nowMs: number): string | undefined {
    const noted = this.#noted.get(id);
    if (noted !== undefined && noted.forgetMs > nowMs) return noted.note;
    const kept = this.#notes.get(id);
    return kept !== undefined && kept.expiresAtMs > nowMs ? kept.text : undefined;
  }

  #tell(counter: ReservedCounter, book: ReservationBook, nowMs: number): void {
    const { bound, outcome } = counter;
    const nowMicros = nowMs * 1000;
    const found = this.#options.table.find(counter, nowMs);
    const held = bound.heldAt(heldBy(found, bound), nowMicros);
    const tally = book.tally(counter.key);
    counter.used = used(bound, held, nowMicros);
    // Of a bucket some of it has come back by itself.
    counter.reserved =
      tally === undefined || tally.counter !== found ? 0 : Math.min(tally.reserved, counter.used);
    counter.open = tally?.open.size ?? 0;
    counter.oldestMs = 0;
    if (tally !== undefined)
      for (const { madeMs } of tally.open) {
        counter.oldestMs = madeMs;
        break;
      }
    const isOver =
      outcome === 'refused' || (outcome === 'left-out' && counter.amount! > bound.room(held, nowMicros));
    counter.waitMicros = isOver
      ? bound.untilRoomMicros(held, nowMicros, counter.amount)
      : bound.untilUnusedMicros(held, nowMicros);
  }
}

/** What is remembered of a call. */
type Remembered = Pick<ReserveCall, 'id' | 'owner'> & { readonly note?: string | undefined };

const unanswered = { outcome: 'untouched', changed: 0, givenBack: 0, lost: 0 } as const;

function termsOf(
  { id, owner, isMarker, counters }: ReserveCall,
  section: Section,
  note: string | undefined,
): ReservationTerms {
  const { amount, ttlMs, onExpiry } = section.counters[0]!;
  return { id, owner, isMarker, amount: amount ?? 0, ttlMs, onExpiry, width: counters.length, note };
}

function isRepeated(call: ReserveCall, section: Section, known: Reservation | undefined): boolean {
  if (known === undefined) return false;
  const { amount, ttlMs, onExpiry, width } = termsOf(call, section, undefined);
  return (
    known.amount === amount && known.ttlMs === ttlMs && known.onExpiry === onExpiry && known.width === width
  );
}

function repeat(call: ReserveCall, { counters }: Section, known: Reservation): void {
  if (call.expiresAtMs === 0) call.expiresAtMs = known.dueMs;
  for (const counter of counters) counter.outcome = known.isEmpty ? 'left-out' : 'charged';
}

/** Finds which sections have no room, and whether that refuses the call. */
function refuses(
  { otherQuotaPasses }: ReserveCall,
  sections: readonly Section[],
  nowMs: number,
  table: CounterTable,
): boolean {
  let isRefused = false;
  let quotas = 0;
  let quotasOver = 0;
  for (const section of sections) {
    const { counters } = section;
    for (const counter of counters) {
      const { bound, isShadow, amount } = counter;
      const nowMicros = nowMs * 1000;
      const held = bound.heldAt(heldBy(table.find(counter, nowMs), bound), nowMicros);
      if (isShadow || (amount ?? 0) <= bound.room(held, nowMicros)) continue;
      counter.outcome = 'refused';
      section.isRefused = true;
    }
    if (!counters[0]!.isQuota) {
      isRefused ||= section.isRefused;
    } else if (counters.some(({ isShadow }) => !isShadow)) {
      quotas += 1;
      if (section.isRefused) quotasOver += 1;
    }
  }
  return isRefused || (quotas > 0 && quotas === quotasOver && !otherQuotaPasses);
}

/** Of the sections of one call: what was settled just now says more than what was settled before. */
function laterOutcome(
  former: SettleCall['outcome'],
  known: Reservation,
  nowMs: number,
): SettleCall['outcome'] {
  if (known.state === 'settled') return former === 'unknown' ? 'repeated' : former;
  if (former === 'settled') return former;
  return nowMs >= known.dueMs ? 'late' : 'settled';
}
