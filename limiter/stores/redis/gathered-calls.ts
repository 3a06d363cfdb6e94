/**
 * From ops to calls of one Redis. What arrives in one turn is gathered into as few calls as possible, and so many calls
 * are under way at a time as there are places. One connection carries them all, so what is a pool of connections elsewhere
 * is a number of places here: a call that finds none waits, in order, and what arrives meanwhile is gathered into the calls
 * behind it.
 */
import type { Timers } from '../../../process/time/clock.ts';
import type { FlushTurn } from '../../../process/time/loop-turns.ts';
import type { Operation } from '../operation.ts';
import type { StoreError } from '../store-error.ts';
import type { Part, PartKind, PlainCommands } from './count-parts.ts';
import { severalSections } from './lua/program.ts';
import type { RedisErrors } from './wire/redis-error.ts';
import type { SentCall } from './wire/redis-link.ts';
import type { Arguments, Reply } from './wire/resp.ts';

/** More would hold up Redis's other users: it does nothing else while a script runs. */
export const maxKeysPerCall = 512;

/** One `submit`, until every call that carries a part of it is answered. */
export interface PendingRequest {
  callsLeft: number;
  done: () => void;
}

/** Hears what became of a batch that a link sent. */
export interface BatchSender {
  answered(batch: Batch, reply: Reply): void;
  failed(batch: Batch, error: Error): void;
}

/** What goes out in one call of the program: what arrived in one turn, whatever it mixes, a part for each kind. */
export class Batch implements SentCall {
  dueMs = 0;
  next: SentCall | undefined = undefined;
  /** Written before a link sends it. */
  sender: BatchSender | undefined = undefined;
  /** The program goes out with its source, as the server does not know its name. */
  isWithSource = false;
  /** A piece of one that has the place: of a call that was refused, or for one slot. */
  readonly isSplit: boolean;
  readonly requests: PendingRequest[] = [];
  readonly #newPart: (kind: PartKind) => Part;
  #parts: Part[];

  constructor(newPart: (kind: PartKind) => Part, parts?: Part[]) {
    this.#newPart = newPart;
    this.isSplit = parts !== undefined;
    this.#parts = parts ?? [];
  }

  /** Adds neighbouring operations of a request that go together, from `first` to before `end`. False when the keys would be too many. */
  add(
    ops: readonly Operation[],
    first: number,
    end: number,
    kind: PartKind,
    request: PendingRequest,
  ): boolean {
    const isFirst = this.#parts.length === 0;
    const known = isFirst ? undefined : this.#partOf(kind, ops, first, end);
    if (known?.add(ops, first, end, this.#room()) !== true) {
      const part = this.#newPart(kind);
      // One call takes any reservation, however many counters that has.
      const room = isFirst ? Number.POSITIVE_INFINITY : this.#room();
      if (!part.add(ops, first, end, room)) return false;
      this.#parts.push(part);
    }
    if (this.requests.at(-1) !== request) {
      this.requests.push(request);
      request.callsLeft += 1;
    }
    return true;
  }

  /** Several parts are in it, so that it may be refused for one of them. */
  get isMixed(): boolean {
    return this.#parts.length > 1;
  }

  get hasLeases(): boolean {
    return this.#parts.some((part) => part.hasLeases);
  }

  dropLeases(): void {
    for (const part of this.#parts) part.dropLeases();
  }

  /** A batch for each part. */
  split(): Batch[] {
    return this.#parts.map((part) => this.with(part));
  }

  /** A piece of it. */
  with(part: Part): Batch {
    return new Batch(this.#newPart, [part]);
  }

  /** A batch for each place that needs a script, of all that is there, and the parts that are in no such place. */
  spread(placeOf: (key: string) => unknown): { placed: Batch[]; rest: Part[] } {
    const scripted = new Set(this.#parts.flatMap((part) => part.scriptedKeys()).map(placeOf));
    if (scripted.size === 0) return { placed: [], rest: this.#parts };
    const places = new Map<unknown, Batch>();
    const rest: Part[] = [];
    for (const part of this.#parts) {
      const own = part.spread(placeOf, scripted);
      if (own.rest !== undefined) rest.push(own.rest);
      for (const [place, one] of own.placed)
        places.getOrInsertComputed(place, () => new Batch(this.#newPart, [])).#parts.push(one);
    }
    return { placed: [...places.values()], rest };
  }

  /** One of its keys. */
  get key(): string {
    return this.#parts[0]!.key;
  }

  /** Asked right before it is sent: answers the ops whose callers gave up, and drops them. False when none is left. */
  leaveOutAbandoned(): boolean {
    const parts = this.#parts;
    let left = 0;
    for (const part of parts) if (part.leaveOutAbandoned()) parts[left++] = part;
    parts.length = left;
    return left > 0;
  }

  /** Hands over the arguments after the program itself: the number of keys, the keys, the rest. */
  pushArguments(args: Arguments): void {
    let keys = 0;
    for (const part of this.#parts) keys += part.keys;
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

  /** Writes the answers; false when the reply is not what the program gives: what was written means nothing then. */
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

  answered(reply: Reply): void {
    this.sender!.answered(this, reply);
  }

  failed(error: Error): void {
    this.sender!.failed(this, error);
  }

  /** Counts and answers without a script. Never rejects. */
  async countPlainly(plain: PlainCommands): Promise<void> {
    await Promise.all(this.#parts.map((part) => part.countPlainly(plain)));
  }

  #room(): number {
    let room = maxKeysPerCall;
    for (const part of this.#parts) room -= part.keys;
    return room;
  }

  /** The part that takes them: none where another one behind it is about the same counter, as that comes first. */
  #partOf(kind: PartKind, ops: readonly Operation[], first: number, end: number): Part | undefined {
    for (let at = this.#parts.length - 1; at >= 0; at -= 1) {
      const part = this.#parts[at]!;
      if (part.kind === kind) return part;
      for (let i = first; i < end; i += 1) if (part.has(ops[i]!.key)) return undefined;
    }
    return undefined;
  }
}

/**
 * The batch, which had one of `places` unless it is a piece, is answered. Reports to those requests that wait for nothing else any
 * more: all of them, even when one throws, which is thrown then.
 */
export function settle(batch: Batch, places?: Pick<CallPlaces<Batch>, 'free'>): void {
  if (!batch.isSplit) places?.free();
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

/** What becomes of a call that has waited long enough: it goes out beyond the bound, it fails, or it waits on. */
export type WhenPoolIsEmpty = 'CREATE' | 'ERROR' | 'WAIT';

export interface CallBounds {
  /** Calls under way at a time. At least 1. */
  places: number;
  whenEmpty: WhenPoolIsEmpty;
  /** With CREATE and ERROR. */
  waitMs: number;
}

/** Of the Go service without any settings. */
export const defaultCallBounds: CallBounds = { places: 10, whenEmpty: 'CREATE', waitMs: 1_000 };

export interface CallPlacesOptions<Call> extends CallBounds {
  /** With WAIT, and for the others at most: then a call fails. */
  timeoutMs: number;
  timers: Timers;
  carrier: CallCarrier<Call>;
}

export interface CallCarrier<Call> {
  /** The call has a place until `free`. */
  send(call: Call): void;
  /** `waitedMs` is undefined when the places are being closed. */
  refuse(call: Call, waitedMs: number | undefined): void;
  /** It waits no more: `send` or `refuse` follows. */
  left(call: Call): void;
}

interface Waiting<Call> {
  call: Call;
  callOff: () => void;
}

/** Values of `ratelimit.redis_pool.calls_active`, `calls_waiting` and `calls_refused`. */
export type CallCounts = Readonly<Record<'active' | 'waiting' | 'refused', number>>;

export class CallPlaces<Call> {
  readonly #options: CallPlacesOptions<Call>;
  /** Oldest first. */
  readonly #waiting = new Set<Waiting<Call>>();
  #taken = 0;
  #refused = 0;

  constructor(options: CallPlacesOptions<Call>) {
    this.#options = options;
  }

  /** Calls under way, those beyond the bound too. */
  get active(): number {
    return this.#taken;
  }

  /** Calls that found no place in time, since the start. */
  get refused(): number {
    return this.#refused;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** False when it has to wait for a place. */
  take(call: Call): boolean {
    if (this.#taken >= this.#options.places) {
      this.#wait(call);
      return false;
    }
    this.#taken += 1;
    this.#options.carrier.send(call);
    return true;
  }

  /** Once for each call that was sent. */
  free(): void {
    this.#taken -= 1;
    if (this.#waiting.size === 0 || this.#taken >= this.#options.places) return;
    for (const oldest of this.#waiting) {
      this.#leave(oldest);
      this.take(oldest.call);
      return;
    }
  }

  /** Refuses what waits. */
  close(): void {
    for (const waiting of [...this.#waiting]) {
      this.#leave(waiting);
      this.#options.carrier.refuse(waiting.call, undefined);
    }
  }

  #wait(call: Call): void {
    const { whenEmpty, waitMs, timeoutMs, timers } = this.#options;
    const mostMs = whenEmpty === 'WAIT' ? timeoutMs : Math.min(waitMs, timeoutMs);
    const waiting: Waiting<Call> = { call, callOff: () => {} };
    waiting.callOff = timers.after(mostMs, () => {
      this.#leave(waiting);
      if (whenEmpty === 'CREATE') {
        this.#taken += 1;
        this.#options.carrier.send(call);
      } else {
        this.#refused += 1;
        this.#options.carrier.refuse(call, mostMs);
      }
    });
    this.#waiting.add(waiting);
  }

  #leave(waiting: Waiting<Call>): void {
    waiting.callOff();
    this.#waiting.delete(waiting);
    this.#options.carrier.left(waiting.call);
  }
}

export interface TurnGatheringOptions {
  /** Takes the batches of one turn, in order. False when one has to wait: `left` says when it does no more. */
  calls: { take(batch: Batch): boolean };
  newPart: (kind: PartKind) => Part;
  /**
   * At most one sending in so long, whole milliseconds: what comes soon after one is gathered until the time is over. What
   * comes alone does not wait. Defaults to 0: everything goes out at the end of its turn.
   */
  windowMs?: number | undefined;
  timers: Timers;
  monotonicMs: () => number;
  /** Says when the read ends that brought a request. */
  flushTurn: FlushTurn;
}

/**
 * Chosen: after so many turns in a row with one request each, the next is sent when the read that brought it ends. How many
 * reads a turn has is seen at the turn's end alone, so one turn in so many is looked at then.
 */
const turnsOfOne = 16;

/** Chosen: so long what comes joins a batch that waits for a place. Its wait is bounded, and theirs is this much shorter at most. */
const joinMs = 5;

/** Gathers what arrives in one turn of the event loop, or in a window, into as few batches as possible. */
export class TurnGathering {
  readonly #options: TurnGatheringOptions;
  /** Closed to new ops, to be sent when the turn ends. */
  #full: Batch[] = [];
  #open: Batch | undefined;
  /** The last in the line of those that wait for a place. */
  #waiting: Batch | undefined;
  #joinUntilMs = 0;
  #scheduled = false;
  #sentAtMs = Number.NEGATIVE_INFINITY;
  /** Since the last sending. */
  #requests = 0;
  /** Each request has its turn for itself. */
  #comeAlone = false;
  /** In a row; while requests come alone, those that were not looked at. */
  #turns = 0;
  #isLooking = false;

  constructor(options: TurnGatheringOptions) {
    this.#options = options;
  }

  /** `kind`: those of `count` go by their groups, which may be in several calls; of others all together. */
  add(ops: readonly Operation[], kind: PartKind, request: PendingRequest): void {
    this.#requests += 1;
    let batch = this.#open;
    if (batch === undefined && this.#waiting !== undefined) batch = this.#joined();
    batch ??= this.#begin();
    for (let first = 0; first < ops.length; ) {
      const end = kind === 'count' ? first + ops[first]!.groupSize : ops.length;
      if (!batch.add(ops, first, end, kind, request)) {
        batch = this.#begin();
        batch.add(ops, first, end, kind, request);
      }
      first = end;
    }
  }

  /** The batch, which has waited, goes out or is refused: nothing joins it any more. */
  left(batch: Batch): void {
    if (batch === this.#waiting) this.#waiting = undefined;
  }

  /** The one that waits, as long as anything may join it. */
  #joined(): Batch | undefined {
    return this.#options.monotonicMs() < this.#joinUntilMs ? this.#waiting : undefined;
  }

  #begin(): Batch {
    const batch = new Batch(this.#options.newPart);
    if (this.#open !== undefined) this.#full.push(this.#open);
    this.#open = batch;
    if (this.#scheduled) return batch;
    this.#scheduled = true;
    const { windowMs = 0, timers, monotonicMs, flushTurn } = this.#options;
    // Without a window the clock need not be read.
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
    this.#full = [];
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

  /** What else is sent in this turn did not come alone. */
  #look(): void {
    this.#isLooking = true;
    setImmediate(() => {
      this.#isLooking = false;
    });
  }
}
