/** Calls about reservations on their way to the script, and its answers on their way back. */
import type { Held } from '../../algorithms/bound.ts';
import { used } from '../admission.ts';
import { callAbandoned, type StoreError } from '../counter-store.ts';
import { beyondTotal } from '../folded-run.ts';
import type {
  ReservationBounds,
  ReservationCall,
  ReserveCall,
  ReservedCounter,
} from '../reservations/reservation-store.ts';
import { BoundTable } from './bounded-steps.ts';
import { keySlot } from './cluster-topology.ts';
import type { PlainCounting } from './plain-counting.ts';
import type { RedisErrors } from './redis-error.ts';
import { isCount, isTimeMicros, keyError } from './reply-checks.ts';
import { noteKeyOf, type ReservationNames, type ReservationPlace } from './reservation-keys.ts';
import { reservationScript } from './reservation-script.ts';
import { type Batch, maxKeysPerCall, type PendingRequest } from './script-batches.ts';
import type { Arguments } from './scripts.ts';

/** Calls whose counters are in one place. */
export class ReservationBatch implements Batch {
  readonly script = reservationScript;
  readonly hasLeases = false;
  readonly requests: PendingRequest[] = [];
  readonly #bounds: ReservationBounds;
  readonly #names: ReservationNames;
  #calls: ReservationCall[] = [];
  #keys = 0;

  constructor(bounds: ReservationBounds, names: ReservationNames) {
    this.#bounds = bounds;
    this.#names = names;
  }

  dropLeases(): void {}

  /** False when its keys would be too many; an empty batch takes any. */
  add(call: ReservationCall, request: PendingRequest): boolean {
    const keys = keysOf(call);
    if (this.#keys > 0 && this.#keys + keys > maxKeysPerCall) return false;
    this.#take(call);
    this.requests.push(request);
    request.callsLeft += 1;
    return true;
  }

  /** What was used is charged whoever still waits. */
  leaveOutAbandoned(): boolean {
    if (this.#calls.some(isAbandoned)) {
      for (const call of this.#calls) if (isAbandoned(call)) call.error = callAbandoned;
      this.#calls = this.#calls.filter((call) => !isAbandoned(call));
      this.#keys = this.#calls.reduce((keys, call) => keys + keysOf(call), 0);
    }
    return this.#calls.length > 0;
  }

  pushArguments(args: Arguments): void {
    const bounds = new BoundTable();
    const shapes = new ShapeTable(bounds, this.#names);
    let text = `${this.#bounds.maxReservations} ${this.#bounds.recordMs} ${this.#names.isCluster ? 0 : 1}`;
    let lives = '';
    args.push(String(this.#keys));
    for (const call of this.#calls) {
      let amounts = '';
      let place = noPlace;
      for (const counter of call.counters) {
        const { key, ttlSeconds, amount } = counter;
        place = this.#names.placeOf(key);
        args.push(key);
        args.push(place.hash);
        args.push(place.set);
        amounts += ` ${amount ?? (call.kind === 'reserve' ? 0 : '-')}`;
        lives += ` ${ttlSeconds}`;
      }
      text += ` ${shapes.numberOf(call, place.window)}${amounts}`;
      if (noteOf(call) !== undefined) args.push(noteKeyOf(idOf(call), this.#names));
    }
    args.push(bounds.toArgument());
    args.push(shapes.toArgument());
    args.push(text);
    args.push(lives);
    for (const call of this.#calls) {
      args.push(nameOf(call));
      const note = noteOf(call);
      if (note !== undefined) args.push(note);
    }
  }

  answer(reply: unknown, errors: RedisErrors): boolean {
    if (!Array.isArray(reply)) return false;
    const [now] = reply as unknown[];
    if (!isTimeMicros(now)) {
      this.fail(errors.fromCommand(keyError(now)));
      return true;
    }
    let at = 1;
    for (const call of this.#calls) {
      const told: unknown = reply[at];
      call.error = undefined;
      if (isUsual(call, reply, at)) at = answerUsual(call, reply as number[], at, now);
      else {
        const isAnswer = told instanceof Buffer && answerCall(call, new Told(told), now);
        if (!isAnswer) call.error = errors.fromCommand(keyError(told));
        at += 1;
      }
    }
    // Nobody knows whose answer is missing, or too many.
    return at === reply.length;
  }

  fail(error: StoreError): void {
    for (const call of this.#calls) call.error = error;
  }

  countPlainly(plain: PlainCounting): Promise<void> {
    return plain.reserve(this.#bySlot());
  }

  /** A key of one that has but one slot. */
  get key(): string {
    return this.#calls[0]!.counters[0]!.key;
  }

  #bySlot(): ReservationBatch[] {
    const slots = Map.groupBy(this.#calls, ({ counters }) => keySlot(counters[0]!.key));
    return [...slots.values()].map((calls) => {
      const batch = new ReservationBatch(this.#bounds, this.#names);
      for (const call of calls) batch.#take(call);
      return batch;
    });
  }

  #take(call: ReservationCall): void {
    this.#calls.push(call);
    this.#keys += keysOf(call);
  }
}

function isAbandoned({ kind, caller }: ReservationCall): boolean {
  return kind !== 'settle' && caller?.abandoned === true;
}

function idOf(call: ReservationCall): string {
  return call.kind === 'look' ? '' : call.id;
}

/** Of its record, of a marker's the first one. */
function nameOf(call: ReservationCall): string {
  if (call.kind === 'look') return 'p';
  return `${call.isMarker ? '0:' : 'p'}${call.id}`;
}

function noteOf(call: ReservationCall): string | undefined {
  return call.kind === 'reserve' ? call.note : undefined;
}

function widthOf(call: ReservationCall): number {
  return (call.kind === 'reserve' ? call.width : undefined) ?? call.counters.length;
}

function keysOf(call: ReservationCall): number {
  return 3 * call.counters.length + (noteOf(call) === undefined ? 0 : 1);
}

function flagsOf(call: ReservationCall): string {
  if (call.kind === 'look') return '-';
  const marker = call.isMarker ? 'm' : '-';
  if (call.kind === 'reserve') {
    const others = `${call.otherQuotaPasses ? 'q' : ''}${call.refusedElsewhere === true ? 'x' : ''}`;
    return `${marker}${others}${call.note === undefined ? '' : 'n'}`;
  }
  const charges = call.unknown === 'charge' ? 'c' : '';
  return `${marker}${charges}${call.undoes === true ? 'u' : ''}`;
}

/** Of a call's last counter, before there is one. */
const noPlace: ReservationPlace = { hash: '', set: '', window: '' };

/** A shape whose text is known: that of the calls that this one is like. */
interface KnownShape {
  readonly call: ReservationCall;
  readonly window: string;
  readonly number: number;
}

/** Numbers what calls have in common, so that it goes to the script once. */
class ShapeTable {
  readonly #bounds: BoundTable;
  readonly #names: ReservationNames;
  readonly #texts = new Map<string, number>();
  /** The last one of each kind: most calls of a batch are alike, and comparing costs less than a text for each. */
  #reserve: KnownShape | undefined;
  #settle: KnownShape | undefined;

  constructor(bounds: BoundTable, names: ReservationNames) {
    this.#bounds = bounds;
    this.#names = names;
  }

  /** `window`: of the last counter. */
  numberOf(call: ReservationCall, window: string): number {
    const last = call.kind === 'reserve' ? this.#reserve : call.kind === 'settle' ? this.#settle : undefined;
    if (last !== undefined && last.window === window && areAlike(last.call, call)) return last.number;
    let text = `${call.kind.charAt(0)} ${flagsOf(call)} ${call.counters.length} ${widthOf(call)}`;
    for (const counter of call.counters) {
      const { key, group, ttlMs, onExpiry, isShadow, isQuota } = counter;
      const terms = `-${isShadow ? 's' : ''}${isQuota ? 'q' : ''}`;
      const { window: own } = this.#names.placeOf(key);
      text += ` ${this.#bounds.numberOf(counter)} ${own || '-'} ${terms} ${group} ${ttlMs} ${onExpiry.charAt(0)}`;
    }
    const number = this.#texts.get(text) ?? this.#texts.size + 1;
    if (number > this.#texts.size) this.#texts.set(text, number);
    if (call.kind === 'reserve') this.#reserve = { call, window, number };
    else if (call.kind === 'settle') this.#settle = { call, window, number };
    return number;
  }

  toArgument(): string {
    return [...this.#texts.keys()].join(';');
  }
}

/** Of one kind, with one counter each, in equal windows. */
function areAlike(one: ReservationCall, other: ReservationCall): boolean {
  if (one.counters.length !== 1 || other.counters.length !== 1 || !haveEqualFlags(one, other)) return false;
  const [first, second] = [one.counters[0]!, other.counters[0]!];
  return (
    first.bound.scriptText === second.bound.scriptText &&
    first.isShadow === second.isShadow &&
    first.isQuota === second.isQuota &&
    first.group === second.group &&
    first.ttlMs === second.ttlMs &&
    first.onExpiry === second.onExpiry
  );
}

function haveEqualFlags(one: ReservationCall, other: ReservationCall): boolean {
  if (one.kind === 'reserve' && other.kind === 'reserve') {
    return (
      one.isMarker === other.isMarker &&
      one.otherQuotaPasses === other.otherQuotaPasses &&
      one.refusedElsewhere === other.refusedElsewhere &&
      one.width === other.width &&
      (one.note === undefined) === (other.note === undefined)
    );
  }
  if (one.kind !== 'settle' || other.kind !== 'settle') return false;
  return one.isMarker === other.isMarker && one.unknown === other.unknown && one.undoes === other.undoes;
}

const latin1Slice = Buffer.prototype.latin1Slice;
const space = 0x20;
const minus = 0x2d;
const zero = 0x30;

/** The script's words, one after another, a space between them. None of its numbers is beyond 2^53. */
class Told {
  readonly #bytes: Buffer;
  #at = 0;
  #isBroken = false;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  word(): string {
    const bytes = this.#bytes;
    const start = this.#at;
    let end = start;
    while (end < bytes.length && bytes[end] !== space) end += 1;
    this.#at = end + 1;
    return latin1Slice.call(bytes, start, end);
  }

  /** A word of one letter. */
  letter(): number {
    this.#at += 2;
    if (this.#bytes[this.#at - 1] !== space) this.#isBroken = true;
    return this.#bytes[this.#at - 2]!;
  }

  /** Whether all words were read, and were what they were read as. */
  get isRead(): boolean {
    return !this.#isBroken && this.#at === this.#bytes.length + 1;
  }

  number(): number {
    const bytes = this.#bytes;
    let at = this.#at;
    const isNegative = bytes[at] === minus;
    if (isNegative) at += 1;
    let number = 0;
    // Behind the last one is nothing.
    for (let digit = bytes[at++]! - zero; digit >= 0 && digit <= 9; digit = bytes[at++]! - zero)
      number = number * 10 + digit;
    const isEmpty = at <= this.#at + (isNegative ? 2 : 1);
    const isEnd = at > bytes.length || bytes[at - 1] === space;
    if (isEmpty || !isEnd || number > beyondTotal) this.#isBroken = true;
    this.#at = at;
    return isNegative ? -number : number;
  }

  /** One that is not below 0. */
  count(): number {
    const number = this.number();
    if (number < 0) this.#isBroken = true;
    return number;
  }
}

/** Undefined for a letter that the script does not write. */
function outcomeOf(letter: number): ReservedCounter['outcome'] | undefined {
  switch (letter) {
    case 0x63:
      return 'charged';
    case 0x72:
      return 'refused';
    case 0x6c:
      return 'left-out';
    case 0x75:
      return 'untouched';
    default:
      return undefined;
  }
}

const outcomes: { readonly [kind in ReservationCall['kind']]: ReadonlySet<string> } = {
  reserve: new Set(['reserved', 'repeated', 'refused', 'conflict', 'full', 'more']),
  settle: new Set(['settled', 'late', 'repeated', 'unknown']),
  look: new Set(['looked', 'more']),
};

/** Whether the numbers from `at` on are what the script gives for a call that held all that was asked. */
function isUsual(call: ReservationCall, reply: readonly unknown[], at: number): boolean {
  if (call.kind === 'look' || call.counters.length !== 1 || !call.counters[0]!.bound.holdsTotal) return false;
  if (!isCount(reply[at]) || !isCount(reply[at + 1]) || !isCount(reply[at + 2])) return false;
  return call.kind === 'reserve' || isCount(reply[at + 3]);
}

/** What held all that was asked, of one counter of a fixed window. Gives where the next answer begins. */
function answerUsual(call: ReservationCall, told: readonly number[], at: number, nowMicros: number): number {
  const counter = call.counters[0]!;
  const { bound, ttlMs, amount = 0 } = counter;
  const held: Held = [told[at]!, 0, 0];
  counter.outcome = 'charged';
  counter.used = used(bound, held, nowMicros);
  counter.reserved = Math.min(counter.used, told[at + 1]!);
  counter.open = told[at + 2]!;
  counter.oldestMs = 0;
  if (call.hasMore !== true) counter.givenBack = 0;
  counter.lost = 0;
  call.hasMore = false;
  counter.waitMicros = bound.untilUnusedMicros(held, nowMicros);
  if (call.kind !== 'settle') {
    (call as ReserveCall).outcome = 'reserved';
    (call as ReserveCall).expiresAtMs = Math.floor(nowMicros / 1000) + ttlMs;
    counter.changed = amount;
    return at + 3;
  }
  const reserved = told[at + 3]!;
  call.outcome = 'settled';
  call.amount = reserved;
  call.charged = counter.amount ?? reserved;
  counter.changed = call.charged - reserved;
  return at + 4;
}

/** False for a text that the script does not give; what was written means nothing then. */
function answerCall(call: ReservationCall, told: Told, nowMicros: number): boolean {
  const outcome = told.word();
  if (!outcomes[call.kind].has(outcome)) return false;
  const wasAskedBefore = call.hasMore === true;
  call.hasMore = outcome === 'more';
  const first = told.count();
  const second = told.count();
  if (call.kind === 'reserve') {
    call.outcome = outcome as typeof call.outcome;
    call.full = outcome === 'full' ? { of: 'counter', roomAtMs: first } : undefined;
    call.expiresAtMs = outcome === 'full' ? 0 : first;
  } else if (call.kind === 'settle') {
    call.outcome = outcome as typeof call.outcome;
    call.charged = first;
    call.amount = second;
  }
  for (const counter of call.counters) {
    const { bound } = counter;
    const became = outcomeOf(told.letter());
    if (became === undefined) return false;
    counter.outcome = became;
    const held: Held = [told.count(), told.count(), told.count()];
    counter.used = used(bound, held, nowMicros);
    counter.reserved = Math.min(counter.used, told.count());
    counter.open = told.count();
    counter.oldestMs = told.count();
    counter.changed = told.number();
    counter.givenBack = told.count() + (wasAskedBefore ? counter.givenBack : 0);
    counter.lost = told.count();
    const isOver =
      counter.outcome === 'refused' ||
      (counter.outcome === 'left-out' && counter.amount! > bound.room(held, nowMicros));
    counter.waitMicros = isOver
      ? bound.untilRoomMicros(held, nowMicros, counter.amount)
      : bound.untilUnusedMicros(held, nowMicros);
  }
  const endMicros = outcome === 'reserved' || outcome === 'repeated' ? 1_000 * first : nowMicros;
  return told.isRead && (call.kind !== 'reserve' || isTimeMicros(endMicros));
}
