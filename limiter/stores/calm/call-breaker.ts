import type { Timers } from '../../../process/time/clock.ts';
import type { CounterOp, StoreError } from '../counter-store.ts';
import { failOp } from '../folded-run.ts';
import { BreakerState } from './breaker-state.ts';

export interface CallBreakerOptions {
  /** As those of `BreakerStore`. */
  timers: Timers;
  /** From 0 to below 1: many limiters do not probe in one moment. */
  random: () => number;
  /** Without any answer for so long while calls wait, it opens, at most an eighth earlier. */
  silenceMs: number;
  /** From a failed probe to the next, less up to a quarter. */
  probeIntervalMs: number;
  /** One call beside the breaker. */
  probe: () => Promise<unknown>;
  /** What calls reject with that were sent and not answered. */
  unanswered: () => Error;
  /** What calls reject with that were never sent. */
  unsent: () => Error;
  /** Whether a call that rejected so was answered all the same. */
  isAnswer: (error: unknown) => boolean;
  onChange?: ((open: boolean) => void) | undefined;
}

const ticksPerSilence = 8;
/** Opens at the tick after these: before a breaker around everything, for which nine ticks are silence. */
const quietTicks = 6;

/**
 * A breaker around the calls to one server of several: those that wait when it falls silent reject, and all others at
 * once until it answers a probe. Unlike `BreakerStore` it lets everybody through then: who calls is bounded already.
 */
export class CallBreaker {
  readonly #options: CallBreakerOptions;
  readonly #state = new BreakerState({ quietTicks });
  /** Rejects each call under way. */
  readonly #waiting = new Set<(error: Error) => void>();
  #endTicks: (() => void) | undefined;
  #endProbe: (() => void) | undefined;
  #closed = false;

  constructor(options: CallBreakerOptions) {
    this.#options = options;
  }

  get open(): boolean {
    return this.#state.phase === 'open' || this.#state.phase === 'probing';
  }

  /** Calls `send` before it returns, or not at all. */
  call<T>(send: () => Promise<T>): Promise<T> {
    if (this.open) return Promise.reject(this.#options.unsent());
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waiting.add(reject);
    this.#startTicks();
    send().then(
      (value) => {
        if (this.#waiting.delete(reject)) this.#state.heard();
        resolve(value);
      },
      (error: unknown) => {
        if (this.#waiting.delete(reject) && this.#options.isAnswer(error)) this.#state.heard();
        reject(error);
      },
    );
    return promise;
  }

  /** Ends its timers. Calls under way are left to end by themselves. */
  close(): void {
    this.#closed = true;
    this.#stopTicks();
    this.#endProbe?.();
  }

  #startTicks(): void {
    if (this.#closed || this.#endTicks !== undefined) return;
    const { timers, silenceMs } = this.#options;
    this.#endTicks = timers.every(silenceMs / ticksPerSilence, () => this.#tick());
  }

  #stopTicks(): void {
    this.#endTicks?.();
    this.#endTicks = undefined;
  }

  #tick(): void {
    this.#state.tick(this.#waiting.size > 0);
    const { phase } = this.#state;
    if (phase === 'open') this.#opens();
    else if (phase === 'closed' && this.#waiting.size === 0) this.#stopTicks();
  }

  #opens(): void {
    this.#stopTicks();
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    this.#options.onChange?.(true);
    this.#scheduleProbe();
    const error = this.#options.unanswered();
    for (const reject of waiting) reject(error);
  }

  #scheduleProbe(): void {
    if (this.#closed) return;
    const { timers, random, probeIntervalMs } = this.#options;
    this.#endProbe = timers.after(probeIntervalMs * (1 - random() / 4), () => this.#probe());
  }

  #probe(): void {
    this.#state.probeSent();
    this.#options.probe().then(
      () => {
        if (this.#closed) return;
        this.#state.probeAnswered();
        this.#startTicks();
        this.#options.onChange?.(false);
      },
      () => {
        this.#state.probeFailed();
        this.#scheduleProbe();
      },
    );
  }
}

/** What an op under way occupies besides its key, rounded up. */
const opOverheadBytes = 256;

/** What requests wait with, for the bound in bytes. */
export function waitingBytes(ops: readonly CounterOp[]): number {
  let bytes = 0;
  for (const op of ops) bytes += op.key.length + opOverheadBytes;
  return bytes;
}

/** One request at the store. */
export class Flight {
  readonly ops: readonly CounterOp[];
  readonly bytes: number;
  readonly done: () => void;
  /** The tick of the breaker in which it set out. */
  readonly sinceTick: number;
  /** Whether the caller still waits: what the store says otherwise is too late. */
  waiting = true;
  previous: Flight | undefined = undefined;
  next: Flight | undefined = undefined;

  constructor(ops: readonly CounterOp[], bytes: number, sinceTick: number, done: () => void) {
    this.ops = ops;
    this.bytes = bytes;
    this.sinceTick = sinceTick;
    this.done = done;
  }

  /** Answers without the store. */
  abandon(error: StoreError): void {
    this.waiting = false;
    for (const op of this.ops) failOp(op, error);
    this.done();
  }
}

/** Requests under way, in the order of their arrival: a linked list, as they leave it from anywhere. */
export class Flights {
  size = 0;
  bytes = 0;
  #first: Flight | undefined;
  #last: Flight | undefined;

  add(flight: Flight): void {
    flight.previous = this.#last;
    if (this.#last === undefined) this.#first = flight;
    else this.#last.next = flight;
    this.#last = flight;
    this.size += 1;
    this.bytes += flight.bytes;
  }

  remove(flight: Flight): void {
    const { previous, next } = flight;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    flight.previous = undefined;
    flight.next = undefined;
    this.size -= 1;
    this.bytes -= flight.bytes;
  }

  /** Takes out those that set out before this tick. */
  takeBefore(tick: number): Flight[] {
    const taken: Flight[] = [];
    for (let flight = this.#first; flight !== undefined && flight.sinceTick < tick; flight = this.#first) {
      this.remove(flight);
      taken.push(flight);
    }
    return taken;
  }

  /** Empties the list. */
  takeAll(): Flight[] {
    return this.takeBefore(Number.POSITIVE_INFINITY);
  }
}
