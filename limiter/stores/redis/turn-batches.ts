/**
 * Forms calls of one Redis from ops. Everything that arrives in one turn is gathered into as few calls as possible. The number of calls
 * in progress is at most the number of places. One connection carries all of them, so the number of places replaces the size of a
 * connection pool. A call that finds no place waits its turn. Ops that arrive meanwhile are gathered into the waiting calls.
 */

import type { FlushTurn } from '../../../process/queues/loop-turns.ts';
import type { Timers } from '../../../process/time/clock.ts';
import { type Caller, callAbandoned, type Operation } from '../operation.ts';
import type { StoreError } from '../store-error.ts';
import {
  type CallPart,
  CountPart,
  type PartKind,
  type PartTerms,
  type PlainCommands,
  StopPart,
} from './count-parts.ts';
import { program, severalSections } from './lua/program.ts';
import type { RedisErrors } from './wire/redis-error.ts';
import type { CallReceiver, SentCall, WritableCall } from './wire/redis-link.ts';
import type { Arguments } from './wire/resp.ts';

/** The maximum number of keys in a call. More keys would delay other users of Redis, which does nothing else while a script runs. */
export const maxKeysPerCall = 512;

/** A `submit`, until every call that contains a part of it is answered. */
export interface PendingSubmit {
  callsLeft: number;
  /** The caller of all of its operations. */
  readonly caller: Caller | undefined;
  done: () => void;
}

/** The request of a batch that was formed from another one, which answers. */
const noRequest: PendingSubmit = { callsLeft: 0, caller: undefined, done: () => {} };

/** The content of one call of the program: everything that arrived in one turn, with a part for each kind. */
export class Batch implements WritableCall {
  dueMs = 0;
  next: SentCall | undefined = undefined;
  /** The sender, set before a link sends the batch. */
  receiver: CallReceiver | undefined = undefined;
  /**
   * Most calls of a single request have one request and one part. A list that is created with its first item reserves no space for
   * further items.
   */
  requests: PendingSubmit[] = [];
  #terms: PartTerms;
  #parts: CallPart[];

  constructor(terms: PartTerms, parts: CallPart[] = []) {
    this.#terms = terms;
    this.#parts = parts;
  }

  /**
   * Adds adjacent operations of a request that belong together, from `first` to before `end`. Returns false if the keys would be too
   * many.
   */
  add(
    ops: readonly Operation[],
    first: number,
    end: number,
    kind: PartKind,
    request: PendingSubmit,
  ): boolean {
    const isFirst = this.#parts.length === 0;
    const known = isFirst ? undefined : this.#partOf(kind, ops, first, end);
    if (known?.add(ops, first, end, this.#room()) !== true) {
      const part = new kind(this.#terms);
      // One call accepts any reservation, regardless of its number of counters.
      const room = isFirst ? Number.POSITIVE_INFINITY : this.#room();
      if (!part.add(ops, first, end, room)) return false;
      if (isFirst) this.#parts = [part];
      else this.#parts.push(part);
    }
    const { requests } = this;
    if (requests.length === 0) this.requests = [request];
    else if (requests.at(-1) === request) return true;
    else requests.push(request);
    request.callsLeft += 1;
    return true;
  }

  /** Whether it has several parts. */
  get isMixed(): boolean {
    return this.#parts.length > 1;
  }

  get hasLeases(): boolean {
    return this.#parts.some((part) => part.hasLeases);
  }

  dropLeases(): void {
    this.#terms = { ...this.#terms, isWithoutLeases: true };
    for (const part of this.#parts) part.dropLeases();
  }

  get isEmpty(): boolean {
    return this.#parts.length === 0;
  }

  /** Returns a batch for each part or, of a single part, for each counter or group, or each request that needs several of them. */
  split(): Batch[] {
    if (this.isMixed) return this.#parts.map((part) => new Batch(this.#terms, [part]));
    return [...this.#formed((ops, first, kind) => (kind === CountPart ? ops[first]!.key : ops)).values()];
  }

  /** Returns a batch for each place that needs a script, with everything for that place, and one with the rest. */
  spread(placeOf: (key: string) => unknown): { placed: Batch[]; rest: Batch } {
    const scripted = new Set(this.#parts.flatMap((part) => part.scriptedKeys()).map(placeOf));
    if (scripted.size === 0) return { placed: [], rest: this };
    const batches = this.#formed((ops, first, kind) => {
      // The keys of a whole request may be in many places.
      const place = kind === StopPart ? undefined : placeOf(ops[first]!.key);
      return scripted.has(place) ? place : undefined;
    });
    const rest = batches.get(undefined) ?? new Batch(this.#terms);
    batches.delete(undefined);
    return { placed: [...batches.values()], rest };
  }

  /** One of its keys. */
  get key(): string {
    return this.#parts[0]!.key;
  }

  /** Answers and drops the ops whose callers gave up. Returns false if no op is left. Call it immediately before sending. */
  leaveOutAbandoned(): boolean {
    // Each caller is asked once, because its time may be over a moment later.
    let gone: Set<Caller> | undefined;
    for (const { caller } of this.requests) {
      if (caller?.abandoned !== true) continue;
      gone ??= new Set();
      gone.add(caller);
    }
    if (gone === undefined) return true;
    const batches = this.#formed((ops, first) => {
      const { verb, caller } = ops[first]!;
      // Used amounts are always charged.
      return verb === 'commit' || caller === undefined || !gone.has(caller);
    });
    batches.get(false)?.fail(callAbandoned);
    const kept = batches.get(true);
    this.#parts = kept === undefined ? [] : kept.#parts;
    return kept !== undefined;
  }

  /** Passes on the program, by default as EVALSHA names it, the number of keys, the keys, and the rest. */
  pushArguments(args: Arguments, code = program.sha1): void {
    let keys = 0;
    for (const part of this.#parts) keys += part.keys;
    args.push(code);
    args.push(String(keys));
    for (const part of this.#parts) part.pushKeys(args);
    if (this.#parts.length === 1) {
      const part = this.#parts[0]!;
      part.pushArguments(args);
      if (part.section !== 'count') args.push(part.section);
      return;
    }
    let sections = '';
    for (const part of this.#parts) {
      const own: string[] = [];
      part.pushArguments(own);
      for (const argument of own) args.push(argument);
      sections += `${part.section} ${part.keys} ${own.length} `;
    }
    args.push(sections);
    args.push(severalSections);
  }

  /** Writes the answers. Returns false if the reply does not have the program's form; the written answers are then meaningless. */
  answer(reply: unknown, errors: RedisErrors): boolean {
    if (this.#parts.length === 1) return this.#parts[0]!.answer(reply, errors);
    if (!Array.isArray(reply) || reply.length !== this.#parts.length) return false;
    let isRead = true;
    for (const [i, part] of this.#parts.entries()) if (!part.answer(reply[i], errors)) isRead = false;
    return isRead;
  }

  fail(error: StoreError): void {
    for (const part of this.#parts) part.fail(error);
  }

  /** Counts and answers without a script. Never rejects. */
  async countPlainly(plain: PlainCommands): Promise<void> {
    await Promise.all(this.#parts.map((part) => part.countPlainly(plain)));
  }

  /** Returns new batches of what was added at once, by what `placeOf` returns for it. */
  #formed(
    placeOf: (ops: readonly Operation[], first: number, kind: PartKind) => unknown,
  ): Map<unknown, Batch> {
    const batches = new Map<unknown, Batch>();
    for (const part of this.#parts) {
      const kind = part.constructor as PartKind;
      part.forEach((ops, first, end) => {
        const place = placeOf(ops, first, kind);
        const batch = batches.getOrInsertComputed(place, () => new Batch(this.#terms));
        batch.add(ops, first, end, kind, noRequest);
      });
    }
    if (this.#terms.isWithoutLeases === true) for (const batch of batches.values()) batch.dropLeases();
    return batches;
  }

  #room(): number {
    let room = maxKeysPerCall;
    for (const part of this.#parts) room -= part.keys;
    return room;
  }

  /** Returns the part that takes the ops. A later part about the same counter must be executed first: then it returns none. */
  #partOf(kind: PartKind, ops: readonly Operation[], first: number, end: number): CallPart | undefined {
    for (let at = this.#parts.length - 1; at >= 0; at -= 1) {
      const part = this.#parts[at]!;
      if (part.constructor === kind) return part;
      for (let i = first; i < end; i += 1) if (part.has(ops[i]!.key)) return undefined;
    }
    return undefined;
  }
}

/**
 * Settles an answered batch, which had one of `places`. Calls `done` of all requests that wait for nothing else, even if one throws. The
 * first error is thrown at the end.
 */
export function finishBatch(batch: Batch, places?: Pick<CallSlots<Batch>, 'free'>): void {
  places?.free();
  let thrown: { error: unknown } | undefined;
  for (const request of batch.requests) {
    request.callsLeft -= 1;
    if (request.callsLeft > 0) continue;
    try {
      request.done();
    } catch (error) {
      thrown ??= { error };
    }
  }
  if (thrown !== undefined) throw thrown.error;
}

/** What happens to a call that has waited too long: it is sent beyond the bound, it fails, or it continues to wait. */
export type WhenPoolIsEmpty = 'CREATE' | 'ERROR' | 'WAIT';

export interface CallBounds {
  /** The maximum number of calls in progress. At least 1. */
  places: number;
  whenEmpty: WhenPoolIsEmpty;
  /** The maximum wait with CREATE and ERROR. */
  waitMs: number;
}

/** The bounds of the Go service without any settings. */
export const defaultCallBounds: CallBounds = { places: 10, whenEmpty: 'CREATE', waitMs: 1_000 };

export interface CallSlotsOptions<Call> extends CallBounds {
  /** The maximum wait with WAIT, and an upper bound for the others. After it, a call fails. */
  timeoutMs: number;
  timers: Timers;
  carrier: CallCarrier<Call>;
}

export interface CallCarrier<Call> {
  /** Sends the call, which occupies a place until `free`. */
  send(call: Call): void;
  /** Fails the call. `waitedMs` is undefined when the places are being closed. */
  reject(call: Call, waitedMs: number | undefined): void;
}

/** Values of `ratelimit.redis_pool.calls_active`, `calls_waiting` and `calls_refused`. */
export type CallCounts = Readonly<Record<'active' | 'waiting' | 'rejected', number>>;

export class CallSlots<Call> {
  readonly #options: CallSlotsOptions<Call>;
  /** The waiting calls, the oldest first, each with the function that ends its timer. */
  readonly #waiting = new Map<Call, () => void>();
  #taken = 0;
  #rejected = 0;

  constructor(options: CallSlotsOptions<Call>) {
    this.#options = options;
  }

  /** The calls in progress, including those beyond the bound. */
  get active(): number {
    return this.#taken;
  }

  /** The number of calls since the start that found no place in time. */
  get rejected(): number {
    return this.#rejected;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Sends the call, or returns false if it must wait for a place. */
  take(call: Call): boolean {
    if (this.#taken >= this.#options.places) {
      this.#wait(call);
      return false;
    }
    this.#taken += 1;
    this.#options.carrier.send(call);
    return true;
  }

  /** Frees a place. Call it once for each call that was sent. */
  free(): void {
    this.#taken -= 1;
    if (this.#waiting.size === 0 || this.#taken >= this.#options.places) return;
    for (const oldest of this.#waiting.keys()) {
      this.#leave(oldest);
      this.take(oldest);
      return;
    }
  }

  isWaiting(call: Call): boolean {
    return this.#waiting.has(call);
  }

  /** Rejects all waiting calls. */
  close(): void {
    for (const call of [...this.#waiting.keys()]) {
      this.#leave(call);
      this.#options.carrier.reject(call, undefined);
    }
  }

  #wait(call: Call): void {
    const { whenEmpty, waitMs, timeoutMs, timers } = this.#options;
    const maxMs = whenEmpty === 'WAIT' ? timeoutMs : Math.min(waitMs, timeoutMs);
    const callOff = timers.after(maxMs, () => {
      this.#leave(call);
      if (whenEmpty === 'CREATE') {
        this.#taken += 1;
        this.#options.carrier.send(call);
      } else {
        this.#rejected += 1;
        this.#options.carrier.reject(call, maxMs);
      }
    });
    this.#waiting.set(call, callOff);
  }

  #leave(call: Call): void {
    this.#waiting.get(call)!();
    this.#waiting.delete(call);
  }
}

export interface TurnBatchesOptions {
  /** Takes the batches of one turn, in order. `take` returns false if a batch must wait. */
  calls: Pick<CallSlots<Batch>, 'take' | 'isWaiting'>;
  terms: PartTerms;
  /**
   * The shortest time between two batches, in whole milliseconds. Ops that arrive shortly after a batch are gathered until the time
   * is over. A single op does not wait. Defaults to 0: everything is sent at the end of its turn.
   */
  windowMs?: number | undefined;
  timers: Timers;
  monotonicMs: () => number;
  /** Reports when the read that brought a request ends. */
  flushTurn: FlushTurn;
}

/**
 * Chosen: after this many consecutive turns with one request each, the next request is sent when the read that brought it ends. The
 * number of reads of a turn is known only at the end of the turn, so one turn in this many is checked then.
 */
const turnsOfOne = 16;

/** Chosen: how long a waiting batch accepts more operations. It bounds how much longer the first one waits than the others. */
const joinMs = 5;

/** Gathers ops that arrive in one turn of the event loop, or in a window, into as few batches as possible. */
export class TurnBatches {
  readonly #options: TurnBatchesOptions;
  /** Batches that accept no more ops and are sent when the turn ends. */
  #full: Batch[] = [];
  #open: Batch | undefined;
  /** The last batch that waits for a place. */
  #waiting: Batch | undefined;
  #joinUntilMs = 0;
  #scheduled = false;
  #sentAtMs = Number.NEGATIVE_INFINITY;
  /** The number of requests since the last batch was sent. */
  #requests = 0;
  /** Whether each request has a turn of its own. */
  #comeAlone = false;
  /** The number of consecutive turns with one request. While requests arrive alone, it counts the turns that were not checked. */
  #turns = 0;
  #isLooking = false;

  constructor(options: TurnBatchesOptions) {
    this.#options = options;
  }

  /** Adds ops. Those of a `CountPart` may be in several calls, in whole groups; the ops of other kinds are in one. */
  add(ops: readonly Operation[], kind: PartKind, request: PendingSubmit): void {
    this.#requests += 1;
    let batch = this.#open;
    if (batch === undefined && this.#waiting !== undefined) batch = this.#joined();
    batch ??= this.#begin();
    for (let first = 0; first < ops.length; ) {
      const end = kind === CountPart ? first + ops[first]!.groupSize : ops.length;
      if (!batch.add(ops, first, end, kind, request)) {
        batch = this.#begin();
        batch.add(ops, first, end, kind, request);
      }
      first = end;
    }
  }

  /** Returns the waiting batch, as long as ops may join it: no op can join it once it was sent or rejected. */
  #joined(): Batch | undefined {
    const { calls, monotonicMs } = this.#options;
    if (!calls.isWaiting(this.#waiting!) || monotonicMs() >= this.#joinUntilMs) this.#waiting = undefined;
    return this.#waiting;
  }

  #begin(): Batch {
    const batch = new Batch(this.#options.terms);
    if (this.#open !== undefined) this.#full.push(this.#open);
    this.#open = batch;
    if (this.#scheduled) return batch;
    this.#scheduled = true;
    const { windowMs = 0, timers, monotonicMs, flushTurn } = this.#options;
    // The clock is read only with a window.
    const waitMs = windowMs === 0 ? 0 : this.#sentAtMs + windowMs - monotonicMs();
    if (waitMs > 0) timers.after(Math.ceil(waitMs), this.flush);
    else if (this.#comeAlone) flushTurn.schedule(this);
    else setImmediate(this.flush);
    return batch;
  }

  readonly flush = (): void => {
    this.#scheduled = false;
    const { windowMs = 0, monotonicMs, calls } = this.#options;
    if (windowMs > 0) this.#sentAtMs = monotonicMs();
    this.#judge();
    const full = this.#full;
    const last = this.#open;
    if (full.length > 0) this.#full = [];
    this.#open = undefined;
    for (const batch of full) calls.take(batch);
    if (last === undefined || calls.take(last)) return;
    this.#waiting = last;
    this.#joinUntilMs = monotonicMs() + joinMs;
  };

  #judge(): void {
    const isOne = this.#requests === 1 && !this.#isLooking;
    this.#requests = 0;
    this.#turns = isOne ? this.#turns + 1 : 0;
    if (!isOne) {
      this.#comeAlone = false;
    } else if (this.#turns === turnsOfOne) {
      this.#turns = 0;
      if (this.#comeAlone) this.#look();
      else this.#comeAlone = true;
    }
  }

  /** Checks this turn. Requests in the rest of the turn did not arrive alone. */
  #look(): void {
    this.#isLooking = true;
    setImmediate(() => {
      this.#isLooking = false;
    });
  }
}
