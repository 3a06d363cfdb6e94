/** Calls about reservations on their way to the script, and its answers on their way back. */
import { used } from '../admission.ts';
import type { Held } from '../bound.ts';
import { callAbandoned, type StoreError } from '../counter-store.ts';
import type {
  ReservationBounds,
  ReservationCall,
  ReservedCounter,
} from '../reservations/reservation-store.ts';
import { BoundTable } from './bounded-steps.ts';
import { keySlot } from './cluster-topology.ts';
import type { PlainCounting } from './plain-counting.ts';
import type { RedisErrors } from './redis-error.ts';
import { noteKeyOf, type ReservationNames, reservationKeysOf, windowOf } from './reservation-keys.ts';
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
    const { isCluster } = this.#names;
    const bounds = new BoundTable();
    const shapes = new Map<string, number>();
    let text = `${this.#bounds.maxReservations} ${this.#bounds.recordMs}`;
    args.push(String(this.#keys));
    for (const call of this.#calls) {
      let shape = `${call.kind.charAt(0)} ${flagsOf(call)} ${call.counters.length} ${widthOf(call)}`;
      let amounts = '';
      let lives = '';
      for (const counter of call.counters) {
        const { key, ttlSeconds, group, amount, ttlMs, onExpiry } = counter;
        const [hash, set] = reservationKeysOf(key, isCluster);
        args.push(key);
        args.push(hash);
        args.push(set);
        shape += ` ${bounds.numberOf(counter)} ${windowOf(key) || '-'} ${termsOf(counter)}`;
        shape += ` ${group} ${ttlMs} ${onExpiry.charAt(0)}`;
        amounts += ` ${amount ?? (call.kind === 'reserve' ? 0 : '-')}`;
        lives += ` ${ttlSeconds}`;
      }
      const number = shapes.get(shape) ?? shapes.size + 1;
      if (number > shapes.size) shapes.set(shape, number);
      text += ` ${number}${amounts}${lives}`;
      if (noteOf(call) !== undefined) args.push(noteKeyOf(idOf(call), this.#names));
    }
    args.push(bounds.toArgument());
    args.push([...shapes.keys()].join(';'));
    args.push(text);
    for (const call of this.#calls) {
      args.push(idOf(call));
      const note = noteOf(call);
      if (note !== undefined) args.push(note);
    }
  }

  answer(reply: unknown, errors: RedisErrors): boolean {
    if (!Array.isArray(reply) || !(reply[0] instanceof Buffer)) return false;
    if (typeof reply[1] !== 'number' && !(reply[1] instanceof Buffer)) {
      this.fail(errors.fromCommand(reply[1]));
      return true;
    }
    const nowMicros = Number(reply[1]);
    const told = new Told(reply[0].toString('latin1'));
    let failed = 2;
    for (const call of this.#calls) {
      call.error = undefined;
      if (told.takeError()) call.error = errors.fromCommand(reply[failed++]);
      else answerCall(call, told, nowMicros);
    }
    return true;
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
  return `${marker}${charges}${call.undoes === true ? 'u' : ''}${call.hasEnded === true ? 'e' : ''}`;
}

function termsOf({ isShadow, isQuota }: ReservedCounter): string {
  return `-${isShadow ? 's' : ''}${isQuota ? 'q' : ''}`;
}

/** The script's words, one after another. */
class Told {
  readonly #words: readonly string[];
  #at = 0;

  constructor(text: string) {
    this.#words = text.split(' ');
  }

  takeError(): boolean {
    if (this.#words[this.#at] !== '!') return false;
    this.#at += 1;
    return true;
  }

  word(): string {
    return this.#words[this.#at++] ?? '';
  }

  number(): number {
    return Number(this.word());
  }
}

const outcomes = { c: 'charged', r: 'refused', l: 'left-out', u: 'untouched' } as const;

function answerCall(call: ReservationCall, told: Told, nowMicros: number): void {
  const outcome = told.word();
  const first = told.number();
  const second = told.number();
  if (call.kind === 'reserve') {
    call.outcome = outcome as typeof call.outcome;
    call.expiresAtMs = first;
  } else if (call.kind === 'settle') {
    call.outcome = outcome as typeof call.outcome;
    call.charged = first;
    call.amount = second;
  }
  for (const counter of call.counters) {
    const { bound } = counter;
    counter.outcome = outcomes[told.word() as keyof typeof outcomes];
    const held: Held = [told.number(), told.number(), told.number()];
    counter.used = used(bound, held, nowMicros);
    counter.reserved = Math.min(counter.used, told.number());
    counter.open = told.number();
    counter.oldestMs = told.number();
    counter.changed = told.number();
    counter.givenBack = told.number();
    const isOver =
      counter.outcome === 'refused' ||
      (counter.outcome === 'left-out' && counter.amount! > bound.room(held, nowMicros));
    counter.waitMicros = isOver
      ? bound.untilRoomMicros(held, nowMicros, counter.amount)
      : bound.untilUnusedMicros(held, nowMicros);
  }
}
