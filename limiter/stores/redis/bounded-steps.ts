/**
 * Folding for ops with bounds: neighbours of equal hits on the same counters become one step, which the script does so many
 * times as it passes. It answers with what the counters held before, and each caller's answer follows from that as if it
 * had come alone, in order.
 */
import { admit } from '../admission.ts';
import type { Held } from '../bound.ts';
import { type CounterOp, callAbandoned, failOp, StoreError } from '../counter-store.ts';
import { maxTotal } from '../folded-run.ts';

/** For ops that only a script can count. Nobody asked the server. */
export const needsScripts = new StoreError(
  'this Redis runs no scripts, and limits with a sliding window, a token bucket or several in one rule need them (REDIS_SCRIPTS)',
  { transient: false, notCounted: true, unheard: true },
);

/** One group of ops, or the same from several callers. */
export interface Step {
  /** Group behind group. */
  ops: CounterOp[];
  readonly size: number;
  /** Others of the request do not let it pass: it is only looked at. */
  readonly heldBack: boolean;
  /** Answer: when the store decided. */
  nowMicros: number;
}

/** In the order of their arrival. */
export class Steps {
  list: Step[] = [];
  /** How many keys a call names for them. */
  keys = 0;
  /** The last step of each key. */
  readonly #last = new Map<string, Step>();

  has(key: string): boolean {
    return this.#last.has(key);
  }

  /** Adds the group of ops that begins at `first`; false where that takes more than `room` further keys. */
  add(ops: readonly CounterOp[], first: number, room: number, heldBack = false): boolean {
    const op = ops[first]!;
    const size = op.groupSize;
    const last = this.#last.get(op.key);
    if (last !== undefined && last.heldBack === heldBack && this.#isSame(last, ops, first)) {
      for (let i = first; i < first + size; i += 1) last.ops.push(ops[i]!);
      return true;
    }
    if (size > room) return false;
    const step: Step = {
      ops: size === 1 ? [op] : ops.slice(first, first + size),
      size,
      heldBack,
      nowMicros: 0,
    };
    for (const { key } of step.ops) this.#last.set(key, step);
    this.list.push(step);
    this.keys += size;
    return true;
  }

  /** Answers the ops whose callers gave up, and forgets them; false when none is left. */
  leaveOutAbandoned(): boolean {
    for (const step of this.list) {
      if (step.ops.some(isAbandoned)) step.ops = step.ops.filter((op) => !isAbandoned(op) || leaveOut(op));
    }
    this.list = this.list.filter(({ ops }) => ops.length > 0);
    this.keys = this.list.reduce((keys, { size }) => keys + size, 0);
    return this.keys > 0;
  }

  /** Whether nothing else came between on any of its counters, and the group does the same to them. */
  #isSame(last: Step, ops: readonly CounterOp[], first: number): boolean {
    const { size } = last;
    for (let i = 0; i < size; i += 1) {
      const before = last.ops[i]!;
      const op = ops[first + i]!;
      if (op.groupSize !== size || op.hits !== before.hits || op.negative !== before.negative) return false;
      if (op.key !== before.key || op.bound!.scriptText !== before.bound!.scriptText) return false;
      if (this.#last.get(op.key) !== last) return false;
    }
    return true;
  }
}

function isAbandoned({ caller }: CounterOp): boolean {
  return caller?.abandoned === true;
}

function leaveOut(op: CounterOp): false {
  failOp(op, callAbandoned);
  return false;
}

export function failSteps(steps: readonly Step[], error: StoreError): void {
  for (const { ops } of steps) for (const op of ops) failOp(op, error);
}

/** Numbers the bounds of a call, so that each goes there once. */
export class BoundTable {
  readonly #numbers = new Map<string, string>();

  numberOf({ bound }: CounterOp): string {
    if (bound === undefined) return '0';
    const known = this.#numbers.get(bound.scriptText);
    if (known !== undefined) return known;
    const number = String(this.#numbers.size + 1);
    this.#numbers.set(bound.scriptText, number);
    return number;
  }

  /** How many they are, then each. */
  toArgs(): string[] {
    return [String(this.#numbers.size), ...this.#numbers.keys()];
  }
}

/** The arguments of `boundedCountScript` for each step. */
export function stepArgs(steps: readonly Step[], bounds: BoundTable): string[] {
  const args: string[] = [];
  for (const { ops, size, heldBack } of steps) {
    const { hits, negative } = ops[0]!;
    args.push(String(size), heldBack ? '0' : String(negative ? -hits : hits), String(ops.length / size));
    for (let i = 0; i < size; i += 1) args.push(bounds.numberOf(ops[i]!), String(ops[i]!.ttlSeconds));
  }
  return args;
}

export function stepKeys({ ops, size }: Step): string[] {
  return ops.slice(0, size).map(({ key }) => key);
}

/**
 * Writes the answers from the script's: `replies` hold those of the first step's keys at `at`, the others behind, and then
 * the time. `translate` makes errors of what is no answer.
 */
export function answerSteps(
  steps: readonly Step[],
  {
    replies,
    at,
    translate,
  }: { replies: readonly unknown[]; at: number; translate: (reply: unknown) => StoreError },
): void {
  const nowMicros = Number(replies[replies.length - 1]);
  let next = at;
  for (const step of steps) {
    const { ops, size, heldBack } = step;
    step.nowMicros = nowMicros;
    let failure: unknown;
    for (let i = 0; i < size; i += 1) {
      const reply = replies[next + i];
      if (isHeld(reply)) ops[i]!.held = heldIn(reply, 0, ops[i]!);
      else failure ??= reply;
    }
    next += size;
    if (failure !== undefined) {
      const error = translate(failure);
      for (const op of ops) failOp(op, error);
      continue;
    }
    for (let first = 0; first < ops.length; first += size) {
      if (first > 0) for (let i = first; i < first + size; i += 1) ops[i]!.held = ops[i - size]!.held;
      admit(ops, first, nowMicros, heldBack);
    }
  }
}

/** Of a key that is there, or missing. */
export function isHeld(reply: unknown): reply is Buffer | null {
  return reply === null || reply instanceof Buffer;
}

/** What a key held, from its text, which begins at `from`. */
export function heldIn(reply: Buffer | null, from: number, { bound }: CounterOp): Held | undefined {
  if (reply === null || reply.length === from) return undefined;
  if (bound!.kind === 'fixed') {
    const total = Number(reply.toString('latin1', from));
    return [Math.min(maxTotal, Math.max(0, total)), 0, 0];
  }
  const held: [number, number, number] = [0, 0, 0];
  let part = 0;
  for (let i = from; i < reply.length; i += 1) {
    const byte = reply[i]!;
    if (byte === colon) part += 1;
    else held[part] = held[part]! * 10 + byte - zero;
  }
  return held;
}

const colon = 0x3a;
const zero = 0x30;
