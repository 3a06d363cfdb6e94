/**
 * Folds ops with bounds. Adjacent groups of equal hits on the same counters become one step, which the script repeats as often as it
 * passes. The script returns the states of the counters before the step. Each caller's answer follows from them, as if the ops had
 * arrived one after another.
 */
import type { AlgorithmBound, CounterState } from '../../algorithms/algorithm-bound.ts';
import { admit } from '../admission.ts';
import { maxTotal } from '../folded-run.ts';
import { failOp, hitsToCount, type Operation } from '../operation.ts';
import { StoreError } from '../store-error.ts';
import { type KeysOverLimit, keysOver, noteKeyOver } from './lua/reserved-keys-over.ts';
import type { RedisErrors } from './wire/redis-error.ts';
import { type Arguments, isTimeMicros, keyError, UnexpectedReply } from './wire/resp.ts';
import { ScriptText } from './wire/script-text.ts';

/** The error of ops that only a script can count. The server was not asked. */
export const needsScripts = new StoreError(
  'this Redis runs no scripts, which are necessary for limits with a sliding window, a token bucket or several in one rule (REDIS_SCRIPTS)',
  { transient: false, notCounted: true, noAnswer: true },
);

/** A group of ops, or the same group from several callers. */
export interface Step {
  /** The first group, within its request. */
  readonly ops: readonly Operation[];
  readonly first: number;
  readonly size: number;
  /** The groups after the first one, in order. */
  rest: Operation[] | undefined;
}

/** The steps in the order of their arrival. */
export class Steps {
  readonly list: Step[] = [];
  /** The number of keys that a call names for them. */
  keys = 0;
  /** The last step of each key. */
  readonly #last = new Map<string, Step>();

  has(key: string): boolean {
    return this.#last.has(key);
  }

  /** Adds the group of ops that begins at `first`. Returns false if that takes more than `room` further keys. */
  add(ops: readonly Operation[], first: number, room: number): boolean {
    const op = ops[first]!;
    const size = op.groupSize;
    const end = first + size;
    const last = this.#last.get(op.key);
    if (last !== undefined && this.#isSame(last, ops, first)) {
      last.rest ??= [];
      for (let i = first; i < end; i += 1) last.rest.push(ops[i]!);
      return true;
    }
    if (size > room) return false;
    this.#take({ ops, first, size, rest: undefined });
    return true;
  }

  #take(step: Step): void {
    const { ops, first, size } = step;
    for (let i = first; i < first + size; i += 1) this.#last.set(ops[i]!.key, step);
    this.list.push(step);
    this.keys += size;
  }

  /** Whether the group does the same to the same counters as a step, and no other op on them came in between. */
  #isSame(last: Step, ops: readonly Operation[], first: number): boolean {
    const { size } = last;
    for (let i = 0; i < size; i += 1) {
      const before = last.ops[last.first + i]!;
      const op = ops[first + i]!;
      if (op.groupSize !== size || op.hits !== before.hits || op.verb !== before.verb) return false;
      if (op.key !== before.key || op.counter.bound!.scriptText !== before.counter.bound!.scriptText)
        return false;
      if (this.#last.get(op.key) !== last) return false;
    }
    return true;
  }
}

export function opsOf({ ops, first, size, rest }: Step): readonly Operation[] {
  const group = ops.length === size ? ops : ops.slice(first, first + size);
  return rest === undefined ? group : group.concat(rest);
}

export function failSteps(steps: readonly Step[], error: StoreError): void {
  for (const step of steps) for (const op of opsOf(step)) failOp(op, error);
}

/** Numbers texts of a call, from 1 on, so that each text is sent once. */
export class NumberedTexts {
  #first: string | undefined;
  /** The further texts. Most calls have one text. */
  #others: Map<string, number> | undefined;

  numberOf(text: string): number {
    this.#first ??= text;
    if (text === this.#first) return 1;
    this.#others ??= new Map();
    const known = this.#others.get(text);
    if (known !== undefined) return known;
    const number = this.#others.size + 2;
    this.#others.set(text, number);
    return number;
  }

  toArgument(): string {
    const first = this.#first ?? '';
    return this.#others === undefined ? first : [first, ...this.#others.keys()].join(';');
  }
}

/** Returns the number of a bound; 0 if there is none. */
export function boundNumber(bounds: NumberedTexts, bound: AlgorithmBound | undefined): number {
  return bound === undefined ? 0 : bounds.numberOf(bound.scriptText);
}

/** Returns the argument of `luaBoundedCountSection` with the steps: one text, because many arguments cost more than their bytes. */
export function stepArgument(steps: readonly Step[], bounds: NumberedTexts): string {
  let text = '';
  for (const { ops, first, size, rest } of steps) {
    const op = ops[first]!;
    const hits = hitsToCount(op);
    const times = rest === undefined ? 1 : 1 + rest.length / size;
    text += `${size} ${op.verb === 'refund' ? -hits : hits} ${times} `;
    for (let i = first; i < first + size; i += 1)
      text += `${ops[i]!.ttlSeconds} ${boundNumber(bounds, ops[i]!.counter.bound)} `;
  }
  return text;
}

export function pushStepKeys(args: Arguments, steps: readonly Step[]): void {
  for (const { ops, first, size } of steps)
    for (let i = first; i < first + size; i += 1) args.push(ops[i]!.key);
}

/** Writes the answers, which follow from the states of the keys of all steps. */
export function answerSteps(steps: readonly Step[], texts: CounterTexts): void {
  for (const step of steps) {
    const { ops, first, size, rest } = step;
    if (!texts.read(ops, first)) {
      for (const op of opsOf(step)) failOp(op, ops[first]!.error!);
      continue;
    }
    admit(ops, first, texts.nowMicros);
    if (rest === undefined) continue;
    for (let next = 0; next < rest.length; next += size) {
      for (let i = 0; i < size; i += 1)
        rest[next + i]!.held = (next === 0 ? ops[first + i]! : rest[next - size + i]!).held;
      admit(rest, next, texts.nowMicros);
    }
  }
}

/** Writes the script's report about keys that are over into all ops of these keys. `before`: how many keys the call names first. */
export function noteStepsOver(steps: readonly Step[], over: KeysOverLimit, before: number): void {
  for (const [key, what] of over) {
    let first = before;
    for (const step of steps) {
      const place = key - 1 - first;
      first += step.size;
      if (place < 0 || place >= step.size) continue;
      const ops = opsOf(step);
      for (let i = place; i < ops.length; i += step.size) noteKeyOver(ops[i]!, what);
    }
  }
}

/**
 * Reads the script's reports about groups, one after another. They are a text of each key, followed by a space, or nothing for a
 * missing key. An exclamation mark means that the group has an error. It is one text, because many replies cost more than their
 * bytes.
 */
export class CounterTexts {
  /** The time of the server. 0 if the server does not report it: every group then has an error. */
  readonly nowMicros: number;
  /** The report about keys that are over. */
  readonly over: KeysOverLimit;
  /** Whether others of the request held back the group that was read last. */
  heldBack = false;
  readonly #text: ScriptText;
  readonly #bytes: Buffer;
  /** The errors of groups, in their order. */
  readonly #failures: readonly unknown[];
  readonly #errors: RedisErrors;
  #failed = 0;

  /** Returns undefined if the scripts never give such a reply, with this many plain values first. */
  static of(reply: unknown, plain: number, errors: RedisErrors): CounterTexts | undefined {
    if (!Array.isArray(reply) || reply.length < plain + 2) return undefined;
    const text: unknown = reply[plain];
    const nowMicros: unknown = reply[plain + 1];
    if (!(text instanceof Buffer) || !(nowMicros === 0 || isTimeMicros(nowMicros))) return undefined;
    const failures: unknown[] = reply.slice(plain + 2);
    const over = failures.at(-1) instanceof Buffer ? keysOver(failures.pop()) : [];
    return over && new CounterTexts(text, nowMicros, over, failures, errors);
  }

  private constructor(
    text: Buffer,
    nowMicros: number,
    over: KeysOverLimit,
    failures: readonly unknown[],
    errors: RedisErrors,
  ) {
    this.nowMicros = nowMicros;
    this.over = over;
    this.#text = new ScriptText(text);
    this.#bytes = text;
    this.#failures = failures;
    this.#errors = errors;
  }

  /** Writes the states of their keys to the ops of a group. If the group has an error, writes that instead and returns false. */
  read(ops: readonly Operation[], first: number): boolean {
    const end = first + ops[first]!.groupSize;
    const text = this.#text;
    if (text.isNext(exclamation)) {
      for (let i = first; i < end; i += 1) {
        text.mark(exclamation);
        text.mark(space);
      }
      return this.#fail(ops, first, keyError(this.#failures[this.#failed++]));
    }
    this.heldBack = text.isNext(star);
    for (let i = first; i < end; i += 1) {
      if (this.heldBack) text.mark(star);
      ops[i]!.held = heldOf(text, ops[i]!.counter.bound!.holdsTotal);
    }
    if (!text.isBroken && this.nowMicros > 0) return true;
    return this.#fail(ops, first, new UnexpectedReply('EVALSHA', this.#bytes));
  }

  /** Whether the whole text was read and had the expected form. */
  get isRead(): boolean {
    return this.#text.isRead && this.#failed === this.#failures.length;
  }

  #fail(ops: readonly Operation[], first: number, why: Error): false {
    const error = this.#errors.fromCommand(why);
    for (let i = first; i < first + ops[first]!.groupSize; i += 1) failOp(ops[i]!, error);
    return false;
  }
}

/** Reads the state of a key: nothing, the total of a fixed window, or the three numbers of another state. */
function heldOf(text: ScriptText, isTotal: boolean): CounterState | undefined {
  if (text.isNext(space)) {
    text.mark(space);
    return undefined;
  }
  if (!isTotal) return [text.count(maxTotal, colon), text.count(maxTotal, colon), text.count(maxTotal)];
  return [Math.max(0, Math.min(maxTotal, text.number(Number.POSITIVE_INFINITY))), 0, 0];
}

const space = 0x20;
const exclamation = 0x21;
const star = 0x2a;
const colon = 0x3a;
