import { leaseArgument } from '../../allocate/lease-ledger.ts';
import { admit } from '../admission.ts';
import { FoldedRun } from '../folded-run.ts';
import { failAll, failOp, type Operation } from '../operation.ts';
import type { ReservationBounds } from '../store.ts';
import type { StoreError } from '../store-error.ts';
import {
  answerSteps,
  boundNumber,
  CounterTexts,
  failSteps,
  NumberedTexts,
  noteStepsOver,
  pushStepKeys,
  type Step,
  Steps,
  stepArgument,
} from './bounded-steps.ts';
import { answerLeased } from './lua/bounded-scripts.ts';
import type { Section } from './lua/program.ts';
import { type KeysOverLimit, keysOverAt, noKeysOver, noteKeyOver } from './lua/reserved-keys-over.ts';
import { type ReservationNames, reservationKeysOf } from './reservation-keys.ts';
import type { RedisErrors } from './wire/redis-error.ts';
import { type Arguments, ReplyError, replyNumber } from './wire/resp.ts';

/** The part of a call that uses one section of the program. */
export interface CallPart {
  readonly section: Section;
  /** The number of keys that it names. */
  readonly keys: number;
  /** Returns one of its keys. */
  readonly key: string;
  /** Whether it has operations on this counter. */
  has(key: string): boolean;
  /** Adds adjacent operations of a request, from `first` to before `end`. Returns false if they need more than `room` further keys. */
  add(ops: readonly Operation[], first: number, end: number, room: number): boolean;
  /** Calls `act` for what `add` added, in an order that keeps the order of operations on one key. */
  forEach(act: (ops: readonly Operation[], first: number, end: number) => void): void;
  /** Passes the keys to `args`. Then `pushArguments` passes the rest. */
  pushKeys(args: Arguments): void;
  pushArguments(args: Arguments): void;
  /** Whether it has leases. `dropLeases` makes it count without their ledgers. */
  readonly hasLeases: boolean;
  dropLeases(): void;
  /** Writes the answers. Returns false if the reply does not have the form of the section; the written answers are then meaningless. */
  answer(reply: unknown, errors: RedisErrors): boolean;
  fail(error: StoreError): void;
  /** Counts and answers without a script. Never rejects. */
  countPlainly(plain: PlainCommands): Promise<void>;
  /** Returns a key of each operation that only a script can do. */
  scriptedKeys(): string[];
}

/** Counts by commands for one key each. Its promises never reject, because errors are written into the ops. */
export interface PlainCommands {
  /** Counts runs of different keys. Steps on other keys fail, because they need a script. */
  count(runs: readonly FoldedRun[], steps: readonly Step[]): Promise<void>;
  /** Counts whole requests with stop-when-over. */
  countWhole(requests: readonly (readonly Operation[])[]): Promise<void>;
}

/** The properties of a store that its parts depend on. */
export interface PartTerms {
  readonly names: ReservationNames;
  readonly reservations: ReservationBounds;
  /** Whether a batch and those formed of it count without the ledgers of leases. Defaults to false. */
  readonly isWithoutLeases?: boolean;
}

/** The class of a part: `CountPart`, `StopPart`, or `ReservationPart` for whole calls about reservations. */
export type PartKind = new (terms: PartTerms) => CallPart;

const noRuns: readonly FoldedRun[] = [];

/** Groups of many requests, folded by key. */
export class CountPart implements CallPart {
  /** The section, which is known once the keys are passed on. */
  section: Section = 'count';
  /** The runs, in the order of their arrival. */
  #runs: FoldedRun[] = [];
  /** The runs by their keys, only from the second run on: most calls of a single request have one. */
  #byKey: Map<string, FoldedRun> | undefined;
  /** The runs, in the order of the script's keys. */
  #sent: readonly FoldedRun[] = noRuns;
  /** The number of runs that only add. */
  #additions = 0;
  /** The number of runs with a lease. */
  #leased = 0;
  /** Steps on other keys than the runs. A plain window may also belong to one of several limits. */
  #steps: Steps | undefined;
  readonly #terms: PartTerms;

  constructor(terms: PartTerms) {
    this.#terms = terms;
  }

  /** The number of keys, including those of ledgers. */
  get keys(): number {
    return this.#runs.length + this.#leased + (this.#steps?.keys ?? 0);
  }

  get key(): string {
    return this.#runs[0]?.key ?? keyOfStep(this.#steps!.list[0]!);
  }

  has(key: string): boolean {
    return this.#runOf(key) !== undefined || this.#steps?.has(key) === true;
  }

  /** Adds one group. */
  add(ops: readonly Operation[], first: number, end: number, room: number): boolean {
    const op = ops[first]!;
    if (op.counter.bound !== undefined) return this.#addStep(ops, first, end, room);
    const run = this.#runs.length === 0 ? undefined : this.#runOf(op.key);
    const isLeased = op.lease !== undefined && run?.lease === undefined;
    if (run !== undefined) run.add(op);
    else if (room > 0 && this.#steps?.has(op.key) !== true) {
      const runs = this.#runs;
      // A list that is created with its first item reserves no space for further items.
      if (runs.length === 0) this.#runs = [new FoldedRun(op)];
      else {
        runs.push(new FoldedRun(op));
        this.#nameLast();
      }
    } else return false;
    if (isLeased) this.#leased += 1;
    return true;
  }

  #addStep(ops: readonly Operation[], first: number, end: number, room: number): boolean {
    // A plain window may also belong to one of several limits.
    for (let i = first; i < end; i += 1) if (this.#runOf(ops[i]!.key) !== undefined) return false;
    const steps = this.#steps ?? new Steps();
    if (!steps.add(ops, first, room)) return false;
    this.#steps = steps;
    return true;
  }

  #runOf(key: string): FoldedRun | undefined {
    if (this.#byKey !== undefined) return this.#byKey.get(key);
    const [only] = this.#runs;
    return only?.key === key ? only : undefined;
  }

  #nameLast(): void {
    const run = this.#runs.at(-1)!;
    if (this.#byKey === undefined) this.#byKey = new Map(this.#runs.map((one) => [one.key, one]));
    else this.#byKey.set(run.key, run);
  }

  forEach(act: (ops: readonly Operation[], first: number, end: number) => void): void {
    for (const run of this.#runs) run.forEach((op) => void act([op], 0, 1));
    for (const { ops, first, size, rest = [] } of this.#steps?.list ?? []) {
      act(ops, first, first + size);
      for (let next = 0; next < rest.length; next += size) act(rest, next, next + size);
    }
  }

  get hasLeases(): boolean {
    return this.#leased > 0;
  }

  dropLeases(): void {
    for (const run of this.#runs) run.lease = undefined;
    this.#leased = 0;
  }

  pushKeys(args: Arguments): void {
    const steps = this.#steps;
    const runs = this.#runs;
    this.section = steps === undefined && this.#leased === 0 ? 'count' : 'bounded';
    let additions = 0;
    for (const run of runs) if (run.isAddition) additions += 1;
    this.#additions = additions;
    // Additions are first, and leases last.
    this.#sent =
      additions === runs.length ? runs : runs.toSorted((one, other) => orderOf(one) - orderOf(other));
    const sent = this.#sent;
    const plain = sent.length - this.#leased;
    for (let i = 0; i < sent.length; i += 1) {
      args.push(sent[i]!.key);
      if (i >= plain) args.push(sent[i]!.lease!.ledgerKey);
    }
    if (steps !== undefined) pushStepKeys(args, steps.list);
  }

  pushArguments(args: Arguments): void {
    const steps = this.#steps;
    const additions = this.#additions;
    const sent = this.#sent;
    const plain = sent.length - this.#leased;
    args.push(String(additions));
    if (this.section === 'bounded') {
      const bounds = new NumberedTexts();
      const groups = steps === undefined ? '' : stepArgument(steps.list, bounds);
      args.push(String(plain - additions));
      args.push(bounds.toArgument());
      args.push(groups);
      args.push(leaseArgument(sent.slice(plain)));
      args.push(this.#terms.names.isCluster ? '1' : '0');
    }
    for (let i = 0; i < plain; i += 1) {
      const run = sent[i]!;
      args.push(String(run.shift));
      if (i >= additions) {
        args.push(String(run.low));
        args.push(String(run.high));
      }
      args.push(String(run.ttlSeconds));
      args.push(String(run.max));
    }
    for (let i = plain; i < sent.length; i += 1) args.push(reservationKeysOf(sent[i]!.key)[0]);
  }

  answer(reply: unknown, errors: RedisErrors): boolean {
    const sent = this.#sent;
    const steps = this.#steps;
    if (!Array.isArray(reply)) return false;
    const isPlain = this.section === 'count';
    const plain = sent.length - this.#leased;
    const texts = isPlain ? undefined : CounterTexts.of(reply, plain + 3 * this.#leased, errors);
    let over: KeysOverLimit | undefined = noKeysOver;
    if (!isPlain) over = texts?.over;
    else if (reply.length !== sent.length) over = keysOverAt(reply, sent.length);
    if (over === undefined) return false;
    for (let i = 0; i < plain; i += 1) {
      const run = sent[i] as FoldedRun;
      const before = replyNumber(reply[i]);
      if (before !== undefined) run.answer(before);
      else if (reply[i] instanceof ReplyError) run.fail(errors.fromCommand(reply[i]));
      else if (!answerUncounted(run, reply[i], errors)) return false;
    }
    for (let i = plain; i < sent.length; i += 1) {
      answerLeased(sent[i]!, reply, 3 * i - 2 * plain, errors);
    }
    if (steps !== undefined) answerSteps(steps.list, texts!);
    if (over.length > 0) this.#noteOver(over, plain);
    return texts === undefined || texts.isRead;
  }

  /** Notes keys that are over. `plain`: the number of keys before those that are each followed by a ledger. */
  #noteOver(over: KeysOverLimit, plain: number): void {
    const runKeys = plain + 2 * this.#leased;
    for (const [key, what] of over) {
      if (key > runKeys) continue;
      const place = key <= plain ? key - 1 : plain + (key - plain - 1) / 2;
      this.#sent[place]?.forEach((op) => void noteKeyOver(op, what));
    }
    if (this.#steps !== undefined) noteStepsOver(this.#steps.list, over, runKeys);
  }

  fail(error: StoreError): void {
    for (const run of this.#runs) run.fail(error);
    if (this.#steps !== undefined) failSteps(this.#steps.list, error);
  }

  countPlainly(plain: PlainCommands): Promise<void> {
    return plain.count(this.#runs, this.#steps?.list ?? []);
  }

  scriptedKeys(): string[] {
    const keys: string[] = [];
    for (const run of this.#runs) if (!isPlainRun(run)) keys.push(run.key);
    for (const step of this.#steps?.list ?? []) keys.push(keyOfStep(step));
    return keys;
  }
}

/** Answers a run whose key is over limit in a full Redis, from the key's value and the error. Returns false for any other reply. */
function answerUncounted(run: FoldedRun, reply: unknown, errors: RedisErrors): boolean {
  if (!Array.isArray(reply) || reply.length !== 2) return false;
  const held = replyNumber(reply[0]);
  if (held === undefined || !(reply[1] instanceof ReplyError)) return false;
  run.answerUncounted(held, errors.fromCommand(reply[1]));
  return true;
}

/** Whether plain commands have the same effect as a script. */
function isPlainRun(run: FoldedRun): boolean {
  return run.isAddition || (run.isLook && run.lease === undefined);
}

function keyOfStep({ ops, first }: Step): string {
  return ops[first]!.key;
}

function orderOf(run: FoldedRun): number {
  if (run.lease !== undefined) return 2;
  return run.isAddition ? 0 : 1;
}

/** Whole requests, or whole calls about reservations. Nothing is folded, because one operation depends on the others. */
export abstract class WholePart implements CallPart {
  abstract readonly section: Section;
  readonly hasLeases = false;
  keys = 0;
  protected requests: (readonly Operation[])[] = [];

  protected abstract keysOf(request: readonly Operation[]): number;

  abstract pushKeys(args: Arguments): void;

  abstract pushArguments(args: Arguments): void;

  abstract answer(reply: unknown, errors: RedisErrors): boolean;

  abstract countPlainly(plain: PlainCommands): Promise<void>;

  abstract scriptedKeys(): string[];

  get key(): string {
    return this.requests[0]![0]!.key;
  }

  has(key: string): boolean {
    return this.requests.some((request) => request.some((op) => op.key === key));
  }

  dropLeases(): void {}

  /** Adds the whole request. */
  add(
    request: readonly Operation[],
    _first = 0,
    _end = request.length,
    room = Number.POSITIVE_INFINITY,
  ): boolean {
    const keys = this.keysOf(request);
    if (keys > room) return false;
    this.requests.push(request);
    this.keys += keys;
    return true;
  }

  forEach(act: (ops: readonly Operation[], first: number, end: number) => void): void {
    for (const request of this.requests) act(request, 0, request.length);
  }

  fail(error: StoreError): void {
    for (const request of this.requests) failAll(request, error);
  }
}

/** Whole requests with stop-when-over. What a request may count depends on the requests before it. */
export class StopPart extends WholePart {
  readonly section = 'stop';
  #hasBounds = false;

  protected override keysOf(request: readonly Operation[]): number {
    return request.length;
  }

  override pushKeys(args: Arguments): void {
    for (const ops of this.requests) for (const op of ops) args.push(op.key);
  }

  override pushArguments(args: Arguments): void {
    this.#hasBounds = this.requests.some((ops) => ops.some(({ counter }) => counter.bound !== undefined));
    const bounds = new NumberedTexts();
    const words: string[] = [];
    for (const ops of this.requests) {
      words.push(String(ops.length));
      for (const op of ops) {
        const { counter, holdsBack, ttlSeconds, groupSize } = op;
        words.push(hitsArgument(op), String(counter.capacity), holdsBack.charAt(0), String(ttlSeconds));
        if (this.#hasBounds) words.push(String(boundNumber(bounds, counter.bound)), String(groupSize));
      }
    }
    if (this.#hasBounds) words.splice(0, words.length, words.join(' '), bounds.toArgument());
    for (const word of words) args.push(word);
  }

  override answer(reply: unknown, errors: RedisErrors): boolean {
    if (!Array.isArray(reply)) return false;
    const ops = this.requests.flat();
    const plain = ops.filter(({ counter }) => counter.bound === undefined).length;
    const texts = this.#hasBounds ? CounterTexts.of(reply, plain, errors) : undefined;
    const over = this.#hasBounds ? texts?.over : keysOverAt(reply, plain);
    if (over === undefined) return false;
    let at = 0;
    for (let i = 0; i < ops.length; i += ops[i]!.groupSize) {
      const op = ops[i] as Operation;
      if (op.counter.bound === undefined) {
        if (!answerPlain(op, reply[at++], errors)) return false;
      } else if (texts!.read(ops, i)) admit(ops, i, texts!.nowMicros, texts!.heldBack);
    }
    for (const [key, what] of over) if (key <= ops.length) noteKeyOver(ops[key - 1]!, what);
    return texts === undefined || texts.isRead;
  }

  override scriptedKeys(): string[] {
    return [];
  }

  override countPlainly(plain: PlainCommands): Promise<void> {
    return plain.countWhole(this.requests);
  }
}

/** Answers an op without a bound. Returns false if the reply does not have the script's form. */
function answerPlain(op: Operation, reply: unknown, errors: RedisErrors): boolean {
  const after = replyNumber(reply);
  if (after === undefined) {
    if (reply instanceof ReplyError) failOp(op, errors.fromCommand(reply));
    return reply instanceof ReplyError;
  }
  const heldBack = after < 0;
  op.applied = heldBack ? 0 : op.hits;
  op.after = heldBack ? -1 - after : after;
  op.error = undefined;
  return true;
}

function hitsArgument(op: Operation): string {
  if (op.verb === 'refund') return op.hits === 0 ? '?' : `-${op.hits}`;
  return op.verb === 'peek' ? '?' : String(op.hits);
}
