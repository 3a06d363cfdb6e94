import type { Timers } from '../../../process/time/clock.ts';
import {
  type CounterOp,
  type CounterStore,
  StoreError,
  type SubmitOptions,
  wasLeftOut,
} from '../counter-store.ts';
import { failOp } from '../folded-run.ts';
import { type BreakerPhase, BreakerState } from './breaker-state.ts';
import { Flight, Flights, waitingBytes } from './call-breaker.ts';

export interface BreakerStoreOptions {
  store: CounterStore;
  /** Their ticks come after what the store said was read, and none is made up for (`ticksAfterReading`). */
  timers: Timers;
  /** From 0 to below 1: many limiters do not probe in one moment. */
  random: () => number;
  /** STORE_BREAKER_SILENCE: without any answer for so long while requests wait, it opens, at most an eighth later. */
  silenceMs: number;
  /** STORE_BREAKER_PROBE_INTERVAL: from a failed probe to the next, less up to a quarter. */
  probeIntervalMs: number;
  /**
   * No request waits longer, at most an eighth of `silenceMs` apart: neither when its turn at the store comes late, nor
   * while answers to others keep the breaker closed.
   */
  patienceMs: number;
  /** STORE_BREAKER_MAX_WAITING. */
  maxWaiting: number;
  /** STORE_BREAKER_MAX_WAITING_BYTES. */
  maxWaitingBytes: number;
  /** It opened, with the reason, which holds no credentials; or it closed again, `reason` then being undefined. */
  onChange?: (open: boolean, reason?: string) => void;
}

/** So many quiet ticks make the silence. */
const quietTicks = 8;

/**
 * Asks a store as long as it answers, and answers by itself, at once, as long as it does not. When
 * the store answers such a request after all, nobody is told: its ops are never used again (`CounterOp`).
 */
export class BreakerStore implements CounterStore {
  readonly #options: BreakerStoreOptions;
  readonly #store: CounterStore;
  readonly #state = new BreakerState({ quietTicks });
  readonly #flights = new Flights();
  /** One for a whole outage: making errors is dear, and there are many callers. */
  #refusal: StoreError | undefined;
  #opened = 0;
  #refused = 0;
  /** Counts up while requests wait. */
  #ticks = 0;
  #endTicks: (() => void) | undefined;
  #endProbe: (() => void) | undefined;
  #closed = false;

  constructor(options: BreakerStoreOptions) {
    this.#options = options;
    this.#store = options.store;
  }

  get phase(): BreakerPhase {
    return this.#state.phase;
  }

  /** Requests under way. */
  get waiting(): number {
    return this.#flights.size;
  }

  /** How often it opened since the start. */
  get opened(): number {
    return this.#opened;
  }

  /** Requests answered since the start without asking the store. */
  get refused(): number {
    return this.#refused;
  }

  submit(ops: CounterOp[], options: SubmitOptions, done: () => void): void {
    const bytes = waitingBytes(ops);
    const refusal = this.#refusalFor(bytes);
    if (refusal !== undefined) {
      this.#refused += 1;
      for (const op of ops) failOp(op, refusal);
      done();
      return;
    }
    const flight = new Flight(ops, bytes, this.#ticks, done);
    this.#flights.add(flight);
    if (this.#endTicks === undefined) this.#startTicks();
    this.#store.submit(ops, options, () => this.#answered(flight));
  }

  ping(patienceMs?: number): Promise<void> {
    return this.#store.ping(patienceMs);
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#stopTicks();
    this.#endProbe?.();
    return this.#store.close();
  }

  #refusalFor(bytes: number): StoreError | undefined {
    const { maxWaiting, maxWaitingBytes } = this.#options;
    const flights = this.#flights;
    if (flights.size >= this.#state.admitted) return this.#refusal;
    if (flights.size >= maxWaiting) {
      return tooMany(
        `${flights.size} requests wait for the store, and STORE_BREAKER_MAX_WAITING allows no more`,
      );
    }
    if (flights.bytes + bytes <= maxWaitingBytes) return undefined;
    return tooMany(
      `requests that wait for the store would occupy ${flights.bytes + bytes} bytes, and STORE_BREAKER_MAX_WAITING_BYTES allows ${maxWaitingBytes}`,
    );
  }

  #answered(flight: Flight): void {
    if (!flight.waiting) return;
    this.#flights.remove(flight);
    flight.waiting = false;
    if (wasLeftOut(flight.ops)) {
      // Which says nothing of the store.
      flight.done();
      return;
    }
    const error = this.#store.connected === false && !this.#closed ? firstError(flight.ops) : undefined;
    if (error === undefined) {
      // Errors of a key, or of one node of many, come from a store that is there.
      if (flight.ops.some(isWordOfStore)) this.#state.heard();
      flight.done();
      return;
    }
    this.#state.unreachable();
    try {
      this.#opens(error.message);
    } finally {
      flight.done();
    }
  }

  #startTicks(): void {
    if (this.#closed) return;
    this.#endTicks = this.#options.timers.every(this.#options.silenceMs / quietTicks, () => this.#tick());
  }

  #stopTicks(): void {
    this.#endTicks?.();
    this.#endTicks = undefined;
  }

  #tick(): void {
    this.#ticks += 1;
    this.#abandonLate();
    const before = this.#state.phase;
    this.#state.tick(this.#flights.size > 0);
    const { phase } = this.#state;
    if (phase === 'open') {
      this.#opens(`the store did not answer within ${this.#options.silenceMs} ms`);
    } else if (phase === 'closed') {
      if (before === 'ramping') this.#closes();
      if (this.#flights.size === 0) this.#stopTicks();
    }
  }

  #abandonLate(): void {
    const { silenceMs, patienceMs } = this.#options;
    const oldest = this.#ticks - Math.ceil((patienceMs * quietTicks) / silenceMs);
    const late = this.#flights.takeBefore(oldest);
    if (late.length === 0) return;
    const message = `the store did not answer this request within ${patienceMs} ms`;
    abandonAll(late, new StoreError(message, { transient: true }));
  }

  /** After the state opened. Whoever waits is answered now; whether they were counted, nobody knows. */
  #opens(reason: string): void {
    this.#stopTicks();
    this.#opened += 1;
    const wasOpen = this.#refusal !== undefined;
    this.#refusal = notAsked(reason);
    if (!wasOpen) this.#options.onChange?.(true, reason);
    this.#scheduleProbe();
    abandonAll(this.#flights.takeAll(), new StoreError(reason, { transient: true }));
  }

  #closes(): void {
    this.#refusal = undefined;
    this.#options.onChange?.(false);
  }

  #scheduleProbe(): void {
    if (this.#closed) return;
    const { timers, random, probeIntervalMs } = this.#options;
    this.#endProbe = timers.after(probeIntervalMs * (1 - random() / 4), () => this.#probe());
  }

  #probe(): void {
    this.#state.probeSent();
    this.#store.ping(this.#options.silenceMs).then(
      () => {
        this.#state.probeAnswered();
        this.#startTicks();
      },
      (error: Error) => {
        // Why it does not come back says more than how it went away.
        if (!this.#closed) this.#refusal = notAsked(error.message);
        this.#state.probeFailed();
        this.#scheduleProbe();
      },
    );
  }
}

function firstError(ops: readonly CounterOp[]): StoreError | undefined {
  return ops.find((op) => op.error !== undefined)?.error;
}

function isWordOfStore({ error }: CounterOp): boolean {
  return error === undefined || !error.unheard;
}

function notAsked(reason: string): StoreError {
  const message = `the store is not asked until it answers again: ${reason}`;
  return new StoreError(message, { transient: true, notCounted: true });
}

function tooMany(message: string): StoreError {
  return new StoreError(message, { transient: true, notCounted: true });
}

/** Tells all of them, even when one throws, which is thrown then. */
function abandonAll(flights: readonly Flight[], error: StoreError): void {
  let thrown: { error: unknown } | undefined;
  for (const flight of flights) {
    try {
      flight.abandon(error);
    } catch (fault) {
      thrown ??= { error: fault };
    }
  }
  if (thrown !== undefined) throw thrown.error;
}
