/**
 * From ops to calls of one Redis. What arrives in one turn is gathered into as few calls as possible, and so many calls
 * are under way at a time as there are places. One connection carries them all, so what is a pool of connections elsewhere
 * is a number of places here: a call that finds none waits, in order, and what arrives meanwhile is gathered into the calls
 * behind it.
 */
import type { Timers } from '../../../process/time/clock.ts';
import type { FlushTurn } from '../../../process/time/loop-turns.ts';
import type { Operation } from '../operation.ts';
import type { PartKind } from './count-parts.ts';
import type { Batch, PendingRequest } from './turn-batch.ts';

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
      this.#waiting.delete(waiting);
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
  }
}

export interface TurnGatheringOptions {
  /** Takes the batches of one turn, in order. False when one has to wait: `left` says when it does no more. */
  calls: { take(batch: Batch): boolean };
  newBatch: () => Batch;
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
    let batch = this.#last() ?? this.#begin();
    for (let first = 0; first < ops.length; ) {
      const end = kind === 'count' ? first + ops[first]!.groupSize : ops.length;
      if (!batch.add(ops, first, end, kind, request)) {
        batch = this.#begin();
        batch.add(ops, first, end, kind, request);
      }
      first = end;
    }
  }

  /** The batch goes out, or is refused: nothing joins it any more. */
  left(batch: Batch): void {
    if (batch === this.#waiting) this.#waiting = undefined;
  }

  /** That everything else comes before. */
  #last(): Batch | undefined {
    if (this.#open !== undefined || this.#waiting === undefined) return this.#open;
    return this.#options.monotonicMs() < this.#joinUntilMs ? this.#waiting : undefined;
  }

  #begin(): Batch {
    const batch = this.#options.newBatch();
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
