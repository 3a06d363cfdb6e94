/** Sends the entries of a queue to a server, a few at a time. It retries each entry, with growing waits, until it succeeds. */
import type { ProcessTime } from '../time/clock.ts';
import { retryDelayMs } from '../time/pacing.ts';

/** The part of a failure that determines the wait before the next attempt. */
export interface Failure {
  retryAfterMs?: number | undefined;
}

export interface PumpOptions<Entry, Failed extends Failure> extends ProcessTime {
  /** The waiting entries, in their order and within their budget. */
  queue: {
    next(nowMs: number): Entry | undefined;
    /** Returns the milliseconds until `next` returns an entry. Undefined if no entry waits. */
    nextDueMs(nowMs: number): number | undefined;
  };
  /** The maximum number of concurrent entries, including those that wait for another attempt. */
  concurrency: number;
  /** Called before each attempt. */
  mayRun(): boolean;
  /** Returns undefined if the entry is done. `failures` counts from 1 and includes this attempt. */
  attempt(entry: Entry, failures: number): Promise<Failed | undefined>;
  /** The entry will be tried again at that time. */
  failed?(entry: Entry, failure: Failed, retryInMs: number): void;
  /** The entry is not tried again, because no entry may run any more. */
  givenUp?(entry: Entry): void;
  firstRetryMs: number;
  maxRetryMs: number;
  random(): number;
}

export class Pump<Entry, Failed extends Failure> {
  readonly #options: PumpOptions<Entry, Failed>;
  readonly #running = new Set<Promise<void>>();
  /** Functions that each end a wait at once. */
  readonly #waits = new Set<() => void>();
  #callOff: (() => void) | undefined;
  #isClosed = false;

  constructor(options: PumpOptions<Entry, Failed>) {
    this.#options = options;
  }

  /** Called when the queue has a new entry, or when entries may run from now on. */
  wake(): void {
    const { queue, clock, timers, mayRun, concurrency } = this.#options;
    this.#callOff?.();
    this.#callOff = undefined;
    const hasRoom = () => !this.#isClosed && mayRun() && this.#running.size < concurrency;
    while (hasRoom()) {
      const entry = queue.next(clock.nowMs());
      if (entry === undefined) break;
      this.#run(entry);
    }
    if (!hasRoom()) return;
    const delayMs = queue.nextDueMs(clock.nowMs());
    if (delayMs !== undefined) this.#callOff = timers.after(Math.max(1, delayMs), () => this.wake());
  }

  /** Ends all waits: failed entries are tried again at once, or given up if no entry may run any more. `wake` continues. */
  endWaits(): void {
    this.#callOff?.();
    this.#callOff = undefined;
    for (const end of [...this.#waits]) end();
  }

  /** Takes no more entries from the queue. Settles when no attempt is in progress. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.endWaits();
    await Promise.all(this.#running);
  }

  /** Calls `then` after the time, or as soon as `endWaits` ends it. */
  later(delayMs: number, then: () => void): void {
    const end = () => {
      callOff();
      this.#waits.delete(end);
      then();
    };
    const callOff = this.#options.timers.after(delayMs, end);
    this.#waits.add(end);
    if (this.#isClosed) end();
  }

  #run(entry: Entry): void {
    const run = this.#carry(entry).finally(() => {
      this.#running.delete(run);
      this.wake();
    });
    this.#running.add(run);
  }

  async #carry(entry: Entry): Promise<void> {
    const { mayRun, attempt, failed, givenUp, firstRetryMs, maxRetryMs, random } = this.#options;
    for (let failures = 1; mayRun(); failures += 1) {
      const failure = await attempt(entry, failures);
      if (failure === undefined) return;
      const { retryAfterMs } = failure;
      const wait = { failures, firstMs: firstRetryMs, maxMs: maxRetryMs, random, retryAfterMs };
      const delayMs = retryDelayMs(wait);
      failed?.(entry, failure, delayMs);
      await new Promise<void>((resolve) => this.later(delayMs, resolve));
    }
    givenUp?.(entry);
  }
}
