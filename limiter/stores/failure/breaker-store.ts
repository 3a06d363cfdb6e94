import type { Timers } from '../../../process/time/clock.ts';
import { answerAll, failAll, newOperation, type Operation, plainCounter, wasLeftOut } from '../operation.ts';
import { type Notes, type OnceClaims, type Store, StoreDecorator, type SubmitOptions } from '../store.ts';
import { StoreError } from '../store-error.ts';
import { type BreakerPhase, BreakerState } from './breaker-state.ts';

export interface BreakerStoreOptions {
  store: Store;
  /** Their ticks come after the store's answers were read, and missed ticks are not repeated (`ticksAfterReading`). */
  timers: Timers;
  /** Returns a number from 0 to below 1, so that many limiters do not probe at the same moment. */
  random: () => number;
  /**
   * STORE_BREAKER_SILENCE: the breaker opens after this time without any answer while requests wait, up to an eighth later.
   */
  silenceMs: number;
  /** STORE_BREAKER_PROBE_INTERVAL: the time from a failed probe to the next, less up to a quarter. */
  probeIntervalMs: number;
  /**
   * The maximum time that a request waits, give or take an eighth of `silenceMs`. It matters if the request's turn at the store comes
   * late, or if answers to other requests keep the breaker closed.
   */
  patienceMs: number;
  /** STORE_BREAKER_MAX_WAITING. */
  maxWaiting: number;
  /** STORE_BREAKER_MAX_WAITING_BYTES. */
  maxWaitingBytes: number;
  /** Called when the breaker opened, with a reason without credentials, or when it closed, with an undefined reason. */
  onChange?: (open: boolean, reason?: string) => void;
  onClose?: () => void;
}

const ticksPerSilence = 8;

/** The memory of an op in flight in addition to its key, rounded up. */
const opOverheadBytes = 256;

/** The counter of requests that count nothing. */
const nothingCounted = plainCounter('', { perSecond: false });

/** A request in flight at the store. */
interface Flight {
  readonly ops: readonly Operation[];
  /** The bytes of the request that count toward the bound. */
  readonly bytes: number;
  readonly done: () => void;
  /** The tick of the breaker in which it was sent. */
  readonly sinceTick: number;
  /** Whether the caller still waits. If not, the store's answer is too late. */
  waiting: boolean;
  previous: Flight | undefined;
  next: Flight | undefined;
}

/** Requests in flight, in the order of their arrival. It is a linked list because requests leave it at any position. */
class Flights {
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

  /** Removes and returns the requests that were sent before this tick. */
  takeBefore(tick: number): Flight[] {
    const taken: Flight[] = [];
    for (let flight = this.#first; flight !== undefined && flight.sinceTick < tick; flight = this.#first) {
      this.remove(flight);
      taken.push(flight);
    }
    return taken;
  }

  /** Empties the list and returns its requests. */
  takeAll(): Flight[] {
    return this.takeBefore(Number.POSITIVE_INFINITY);
  }
}

/**
 * Asks the store as long as the store answers. Otherwise the breaker answers immediately itself. If the store answers such a request
 * later, the answer is dropped: its ops are never used again (`Operation`).
 */
export class BreakerStore extends StoreDecorator {
  readonly #options: BreakerStoreOptions;
  readonly #state = new BreakerState({ quietTicks: ticksPerSilence });
  readonly #flights = new Flights();
  /** One error for a whole outage, because creating errors is expensive and there are many callers. */
  #rejection: StoreError | undefined;
  #opened = 0;
  #rejected = 0;
  /** The number of ticks, counted while requests wait. */
  #ticks = 0;
  /** Ends the ticks: they run while the breaker is closed and requests wait, or while it ramps. Undefined: there are none. */
  #endTicks: (() => void) | undefined;
  /** Calls off the next probe. */
  #endProbe = (): void => {};
  #closed = false;

  constructor(options: BreakerStoreOptions) {
    super(options.store);
    this.#options = options;
  }

  get phase(): BreakerPhase {
    return this.#state.phase;
  }

  /** The number of requests in flight. */
  get waiting(): number {
    return this.#flights.size;
  }

  /** How often the breaker has opened since the start. */
  get opened(): number {
    return this.#opened;
  }

  /** Requests answered since the start without asking the store. */
  get rejected(): number {
    return this.#rejected;
  }

  override submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    let bytes = 0;
    for (const op of ops) bytes += op.key.length + opOverheadBytes;
    const flight = this.#depart(ops, bytes, done);
    if (flight !== undefined) this.store.submit(ops, options, () => this.#arrive(flight));
  }

  override get notes(): Notes | undefined {
    const { notes } = this.store;
    return (
      notes && {
        recall: (id) => this.#asked(() => notes.recall(id)),
        note: (note) => this.#asked(() => notes.note(note)),
        share: notes.share && ((...args) => this.#unlessOpen(() => notes.share!(...args))),
      }
    );
  }

  override get claims(): OnceClaims | undefined {
    const { claims } = this.store;
    return claims && { claim: (name, seconds) => this.#unlessOpen(() => claims.claim(name, seconds)) };
  }

  async #unlessOpen<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    if (this.#rejection !== undefined) throw this.#rejection;
    return ask();
  }

  /** Treats the question like any request, so it does not wait longer than others. */
  #asked<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const part = newOperation(nothingCounted, '', 'look', 0, 1);
      let answer: Promise<Answer>;
      const flight = this.#depart([part], opOverheadBytes, () =>
        part.error === undefined ? resolve(answer) : reject(part.error),
      );
      if (flight === undefined) return;
      answer = ask();
      answer
        .catch((error: StoreError) => {
          if (flight.waiting) part.error = error;
        })
        .then(() => this.#arrive(flight));
    });
  }

  /** Sends a request, or returns undefined if it was rejected. */
  #depart(ops: readonly Operation[], bytes: number, done: () => void): Flight | undefined {
    const flights = this.#flights;
    const { maxWaiting, maxWaitingBytes } = this.#options;
    const tooMany = flights.size >= maxWaiting || flights.bytes + bytes > maxWaitingBytes;
    if (tooMany || flights.size >= this.#state.admitted) {
      this.#reject(ops, bytes, done);
      return undefined;
    }
    const sinceTick = this.#ticks;
    const flight: Flight = {
      ops,
      bytes,
      done,
      sinceTick,
      waiting: true,
      previous: undefined,
      next: undefined,
    };
    flights.add(flight);
    if (this.#endTicks === undefined) this.#startTicks();
    return flight;
  }

  #arrive(flight: Flight): void {
    if (!flight.waiting) return;
    this.#flights.remove(flight);
    flight.waiting = false;
    const { ops } = flight;
    for (let i = 0; i < ops.length; i += 1) {
      if (ops[i]!.error === undefined) continue;
      this.#failed(flight);
      return;
    }
    if (ops.length > 0) this.#state.hasAnswered = true;
    flight.done();
  }

  override close(): Promise<void> {
    this.#closed = true;
    this.#stopTicks();
    this.#endProbe();
    this.#options.onClose?.();
    return this.store.close();
  }

  #reject(ops: readonly Operation[], bytes: number, done: () => void): void {
    this.#rejected += 1;
    const rejection = this.#rejectionFor(bytes);
    failAll(ops, rejection);
    done();
  }

  #rejectionFor(bytes: number): StoreError {
    const { maxWaiting, maxWaitingBytes } = this.#options;
    const flights = this.#flights;
    if (flights.size >= this.#state.admitted) return this.#rejection as StoreError;
    const message =
      flights.size >= maxWaiting
        ? `${flights.size} requests wait for the store, and STORE_BREAKER_MAX_WAITING allows no more`
        : `requests that wait for the store would occupy ${flights.bytes + bytes} bytes, and STORE_BREAKER_MAX_WAITING_BYTES allows ${maxWaitingBytes}`;
    return new StoreError(message, { transient: true, notCounted: true });
  }

  /** Handles the answer to a request in which not every op was counted. */
  #failed(flight: Flight): void {
    if (wasLeftOut(flight.ops)) {
      // This error says nothing about the store.
      flight.done();
      return;
    }
    if (this.store.connected !== false || this.#closed) {
      // An error about a key, or from one node of many, shows that the store is available.
      if (flight.ops.some(isWordOfStore)) this.#state.hasAnswered = true;
      flight.done();
      return;
    }
    this.#state.unreachable();
    try {
      this.#opens(firstError(flight.ops).message);
    } finally {
      flight.done();
    }
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

  #startTicks(): void {
    if (this.#closed) return;
    const { timers, silenceMs } = this.#options;
    this.#endTicks = timers.every(silenceMs / ticksPerSilence, () => this.#tick());
  }

  #stopTicks(): void {
    this.#endTicks?.();
    this.#endTicks = undefined;
  }

  #probeLater(): void {
    this.#stopTicks();
    if (this.#closed) return;
    const { timers, random, probeIntervalMs } = this.#options;
    this.#endProbe = timers.after(probeIntervalMs * (1 - random() / 4), () => void this.#probe());
  }

  /** Sends one request that bypasses the breaker. */
  async #probe(): Promise<void> {
    this.#state.probeSent();
    const failure = await this.store.ping(this.#options.silenceMs).then(
      () => undefined,
      (error: Error) => error,
    );
    if (this.#closed) return;
    if (failure === undefined) {
      this.#state.probeAnswered();
      this.#startTicks();
    } else {
      // The reason why the store does not come back is more useful than the reason why it was lost.
      this.#rejection = notAsked(failure.message);
      this.#state.probeFailed();
      this.#probeLater();
    }
  }

  #abandonLate(): void {
    const { silenceMs, patienceMs } = this.#options;
    const oldest = this.#ticks - Math.ceil((patienceMs * ticksPerSilence) / silenceMs);
    const late = this.#flights.takeBefore(oldest);
    if (late.length === 0) return;
    const message = `the store did not answer this request within ${patienceMs} ms`;
    abandonAll(late, new StoreError(message, { transient: true }));
  }

  /** Called after the state opened. Waiting callers are answered now. Whether they were counted is unknown. */
  #opens(reason: string): void {
    this.#opened += 1;
    const wasOpen = this.#rejection !== undefined;
    this.#rejection = notAsked(reason);
    if (!wasOpen) this.#options.onChange?.(true, reason);
    this.#probeLater();
    abandonAll(this.#flights.takeAll(), new StoreError(reason, { transient: true }));
  }

  #closes(): void {
    this.#rejection = undefined;
    this.#options.onChange?.(false);
  }
}

/** Returns the error of the first op that failed. At least one op failed. */
function firstError(ops: readonly Operation[]): StoreError {
  return ops.find(({ error }) => error !== undefined)!.error!;
}

function isWordOfStore({ error }: Operation): boolean {
  return error === undefined || !error.noAnswer;
}

function notAsked(reason: string): StoreError {
  const message = `the limiter does not ask the store until it answers again: ${reason}`;
  return new StoreError(message, { transient: true, notCounted: true });
}

/** Answers without the store. */
function abandonAll(flights: readonly Flight[], error: StoreError): void {
  answerAll(flights, (flight) => {
    flight.waiting = false;
    failAll(flight.ops, error);
    flight.done();
  });
}
