/** Writes calls about reservations for the script, and reads its answers. */
import type { CounterState } from '../../algorithms/algorithm-bound.ts';
import { holdWaitMicros, used } from '../admission.ts';
import { failAll, type Operation, type Reservation, type ReservationHold, type Verb } from '../operation.ts';
import { boundNumber, NumberedTexts, needsScripts } from './bounded-steps.ts';
import { type PartTerms, WholePart } from './count-parts.ts';
import { noteKeyOf, reservationPlaceOf } from './reservation-keys.ts';
import type { RedisErrors } from './wire/redis-error.ts';
import { type Arguments, isCount, isTimeMicros, keyError } from './wire/resp.ts';
import { ScriptText } from './wire/script-text.ts';

/** Calls whose counters are in one place. */
export class ReservationPart extends WholePart {
  readonly section = 'reservations';
  readonly #terms: PartTerms;

  constructor(terms: PartTerms) {
    super();
    this.#terms = terms;
  }

  protected override keysOf(call: readonly Operation[]): number {
    return 3 * call.length + (noteOf(call) === undefined ? 0 : 1);
  }

  override pushKeys(args: Arguments): void {
    for (const call of this.requests) {
      for (const op of call) {
        const { hash, set } = reservationPlaceOf(op);
        args.push(op.key);
        args.push(hash);
        args.push(set);
      }
      if (noteOf(call) !== undefined) args.push(noteKeyOf(termsOf(call).id, this.#terms.names));
    }
  }

  /** Passes on separate arguments, because the words of a text cost Redis three times as much. */
  override pushArguments(args: Arguments): void {
    const { names, reservations } = this.#terms;
    const bounds = new NumberedTexts();
    const shapes = new NumberedTexts();
    let lives = '';
    for (const call of this.requests) {
      args.push(String(shapes.numberOf(shapeOf(call, bounds))));
      args.push(nameOf(call));
      for (const op of call) {
        args.push(String(op.hold!.amount ?? (op.verb === 'reserve' ? 0 : '-')));
        lives += `${op.ttlSeconds} `;
      }
      const note = noteOf(call);
      if (note !== undefined) args.push(note);
    }
    args.push(String(reservations.maxReservations));
    args.push(String(reservations.recordMs));
    args.push(names.isCluster ? '0' : '1');
    args.push(bounds.toArgument());
    args.push(shapes.toArgument());
    args.push(lives);
  }

  override answer(reply: unknown, errors: RedisErrors): boolean {
    if (!Array.isArray(reply)) return false;
    const [now] = reply as unknown[];
    if (!isTimeMicros(now)) {
      this.fail(errors.fromCommand(keyError(now)));
      return true;
    }
    let at = 1;
    for (const call of this.requests) {
      const reported: unknown = reply[at];
      for (const op of call) op.error = undefined;
      if (isFastPath(call, reply, at)) at = answerFastPath(call, reply as number[], at, now);
      else {
        const isAnswer = reported instanceof Buffer && answerCall(call, new ScriptText(reported), now);
        if (!isAnswer) failAll(call, errors.fromCommand(keyError(reported)));
        at += 1;
      }
    }
    // If the numbers differ, it is unknown which answer is missing or surplus.
    return at === reply.length;
  }

  override async countPlainly(): Promise<void> {
    this.fail(needsScripts);
  }

  override scriptedKeys(): string[] {
    return this.requests.map(([first]) => first!.key);
  }
}

/** Returns the terms that all operations of a call share. */
function termsOf([first]: readonly Operation[]): Reservation {
  return first!.hold!.reservation;
}

/** Returns the name of a call's record; for a marker, the name of the first record. */
function nameOf(call: readonly Operation[]): string {
  const { id, isMarker } = termsOf(call);
  return `${isMarker ? '0:' : 'p'}${id}`;
}

function noteOf(call: readonly Operation[]): string | undefined {
  return call[0]!.verb === 'reserve' ? termsOf(call).note : undefined;
}

function widthOf(call: readonly Operation[]): number {
  return call[0]!.verb === 'reserve' ? termsOf(call).width : call.length;
}

function flagsOf(call: readonly Operation[]): string {
  const { verb } = call[0]!;
  if (verb === 'look') return '-';
  const { isMarker, otherQuotaPasses, isOverLimitElsewhere, note, unknown, undoes } = termsOf(call);
  const marker = isMarker ? 'm' : '-';
  if (verb === 'reserve') {
    const others = `${otherQuotaPasses ? 'q' : ''}${isOverLimitElsewhere ? 'x' : ''}`;
    return `${marker}${others}${note === undefined ? '' : 'n'}`;
  }
  return `${marker}${unknown === 'charge' ? 'c' : ''}${undoes ? 'u' : ''}`;
}

/** Returns the script's word for a verb. */
function wordOf({ verb }: Operation): string {
  return verb === 'commit' ? 's' : verb.charAt(0);
}

/** The text of a shape with one counter, and the properties from which it follows. */
interface KnownShape {
  readonly flags: number;
  readonly width: number;
  readonly descriptors: number;
  readonly bound: number;
  readonly window: string;
  readonly group: number;
  readonly ttlMs: number;
  readonly onExpiry: ReservationHold['onExpiry'];
  readonly text: string;
}

/** The last shape of each verb. Most calls are alike, and comparing costs less than creating a text for each call. */
let lastReserve: KnownShape | undefined;
let lastCommit: KnownShape | undefined;

/** Returns the common properties of calls as the script gets them. */
function shapeOf(call: readonly Operation[], bounds: NumberedTexts): string {
  const [op] = call;
  const { verb, counter, hold } = op!;
  if (call.length > 1 || verb === 'look') return shapeText(call, bounds);
  const { reservation, group, ttlMs, onExpiry } = hold!;
  const { descriptors } = reservation;
  const flags = flagBitsOf(hold!);
  const width = widthOf(call);
  const bound = boundNumber(bounds, counter.charging);
  const { window } = reservationPlaceOf(op!);
  const last = verb === 'reserve' ? lastReserve : lastCommit;
  if (
    last !== undefined &&
    last.flags === flags &&
    last.width === width &&
    last.descriptors === descriptors &&
    last.bound === bound &&
    last.window === window &&
    last.group === group &&
    last.ttlMs === ttlMs &&
    last.onExpiry === onExpiry
  ) {
    return last.text;
  }
  const text = shapeText(call, bounds);
  const shape = { flags, width, descriptors, bound, window, group, ttlMs, onExpiry, text };
  if (verb === 'reserve') lastReserve = shape;
  else lastCommit = shape;
  return text;
}

function shapeText(call: readonly Operation[], bounds: NumberedTexts): string {
  const counters = `${call.length} ${widthOf(call)} ${termsOf(call).descriptors}`;
  let text = `${wordOf(call[0]!)} ${flagsOf(call)} ${counters}`;
  for (const op of call) {
    const { group, ttlMs, onExpiry, isShadow, isQuota } = op.hold!;
    const terms = `-${isShadow ? 's' : ''}${isQuota ? 'q' : ''}`;
    const window = reservationPlaceOf(op).window || '-';
    text += ` ${boundNumber(bounds, op.counter.charging)} ${window} ${terms} ${group} ${ttlMs} ${onExpiry.charAt(0)}`;
  }
  return text;
}

/** Returns everything that `flagsOf` and the flags of the counter depend on. */
function flagBitsOf({ reservation, isShadow, isQuota }: ReservationHold): number {
  const { isMarker, otherQuotaPasses, isOverLimitElsewhere, note, unknown, undoes } = reservation;
  return (
    (isMarker ? 1 : 0) |
    (otherQuotaPasses ? 2 : 0) |
    (isOverLimitElsewhere ? 4 : 0) |
    (note === undefined ? 0 : 8) |
    (unknown === 'charge' ? 16 : 0) |
    (undoes ? 32 : 0) |
    (isShadow ? 64 : 0) |
    (isQuota ? 128 : 0)
  );
}

/** Returns the outcome for a letter, or undefined for a letter that the script does not write. */
function outcomeOf(letter: number): ReservationHold['outcome'] | undefined {
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

const reserveOutcomes = ['reserved', 'repeated', 'refused', 'conflict', 'full'] as const;
const commitOutcomes = ['settled', 'late', 'repeated', 'unknown', 'partial'] as const;

/** Writes the outcome of the call. Returns false for a word that the script does not use. */
function noteOutcome(verb: Verb, call: Reservation, word: string): boolean {
  call.hasMore = word === 'more' && verb !== 'commit';
  if (verb === 'look') return word === 'looked' || call.hasMore;
  if (verb === 'commit') {
    const settled = commitOutcomes.find((one) => one === word);
    if (settled !== undefined) call.commitOutcome = settled;
    return settled !== undefined;
  }
  const outcome = reserveOutcomes.find((one) => one === word);
  if (outcome !== undefined) call.outcome = outcome;
  return outcome !== undefined || call.hasMore;
}

/** Whether the numbers from `at` on are the script's answer to a call that held its whole amount. */
function isFastPath(call: readonly Operation[], reply: readonly unknown[], at: number): boolean {
  const { verb, counter } = call[0]!;
  if (verb === 'look' || call.length !== 1 || !counter.charging!.holdsTotal) return false;
  if (!isCount(reply[at]) || !isCount(reply[at + 1]) || !isCount(reply[at + 2])) return false;
  return verb === 'reserve' || isCount(reply[at + 3]);
}

/** Answers a call that held its whole amount on one counter of a fixed window. Returns the start of the next answer. */
function answerFastPath(
  [op]: readonly Operation[],
  reported: readonly number[],
  at: number,
  nowMicros: number,
): number {
  const { verb } = op!;
  const hold = op!.hold!;
  const { reservation: call, ttlMs, amount } = hold;
  const after = reported[at]!;
  op!.after = after;
  // The end of the window determines the wait.
  op!.waitMicros = 0;
  hold.outcome = 'charged';
  hold.reserved = Math.min(after, reported[at + 1]!);
  hold.open = reported[at + 2]!;
  hold.oldestMs = 0;
  if (!call.hasMore) hold.givenBack = 0;
  hold.lost = 0;
  call.hasMore = false;
  if (verb !== 'commit') {
    call.outcome = 'reserved';
    call.expiresAtMs = Math.floor(nowMicros / 1000) + ttlMs;
    hold.changed = amount ?? 0;
    return at + 3;
  }
  const reserved = reported[at + 3]!;
  call.commitOutcome = 'settled';
  call.amount = reserved;
  call.charged = amount ?? reserved;
  hold.changed = call.charged - reserved;
  return at + 4;
}

/** Answers a call. Returns false if the text does not have the script's form; the written answers are then meaningless. */
function answerCall(ops: readonly Operation[], reported: ScriptText, nowMicros: number): boolean {
  const { verb } = ops[0]!;
  const call = termsOf(ops);
  const wasAskedBefore = call.hasMore;
  const outcome = reported.word();
  if (!noteOutcome(verb, call, outcome)) return false;
  const first = reported.count();
  const second = reported.count();
  if (verb === 'reserve') {
    call.full = outcome === 'full' ? { of: 'counter', roomAtMs: first } : undefined;
    call.expiresAtMs = outcome === 'full' ? 0 : first;
  } else if (verb === 'commit') {
    const isPartial = outcome === 'partial';
    call.charged = first;
    call.amount = isPartial ? 0 : second;
    call.reservedDescriptors = isPartial ? second : 0;
  }
  for (const op of ops) {
    const bound = op.counter.charging!;
    const hold = op.hold!;
    const became = outcomeOf(reported.letter());
    if (became === undefined) return false;
    hold.outcome = became;
    const held: CounterState = [reported.count(), reported.count(), reported.count()];
    op.after = used(bound, held, nowMicros);
    hold.reserved = Math.min(op.after, reported.count());
    hold.open = reported.count();
    hold.oldestMs = reported.count();
    hold.changed = reported.number();
    hold.givenBack = reported.count() + (wasAskedBefore ? hold.givenBack : 0);
    hold.lost = reported.count();
    op.waitMicros = holdWaitMicros(op, held, nowMicros);
  }
  const endMicros = outcome === 'reserved' || outcome === 'repeated' ? 1_000 * first : nowMicros;
  return reported.isRead && (verb !== 'reserve' || isTimeMicros(endMicros));
}
