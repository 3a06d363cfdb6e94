import { type Clock, inTime, type Timers } from '../../process/time/clock.ts';
import type { Operation } from '../stores/operation.ts';
import { countAll, type Store, StoreDecorator, type SubmitOptions } from '../stores/store.ts';
import { LeaseBook, tickMs } from './lease-book.ts';

export interface LeaseStoreOptions {
  /** Passes `Operation.lease` to the counters, or leaves it unanswered. */
  store: Store;
  clock: Pick<Clock, 'monotonicMs'>;
  timers: Timers;
  /** The name of this thread of this process in ledgers, which is unique. */
  limiter: string;
  /** LEASES_MAX_COUNTERS. */
  maxCounters: number;
}

/** The maximum number of leases that one request gives back. Several requests run at the same time. */
const returnsPerRequest = 128;
/** How long `close` waits for leases to be given back. */
export const lastReturnsMs = 1_000;

/**
 * Counts hits of busy counters with leases from a store (`LeaseBook`), and all others directly in that store. A hit that a lease covers
 * is answered at once, even if the store is unavailable.
 */
export class LeaseStore extends StoreDecorator {
  readonly #options: LeaseStoreOptions;
  readonly #book: LeaseBook;
  #endSweeps: (() => void) | undefined;
  #stopped = false;
  #onSettled: (() => void) | undefined;

  constructor(options: LeaseStoreOptions) {
    super(options.store);
    this.#options = options;
    this.#book = new LeaseBook(options);
  }

  /** The counts for statistics. */
  get book(): LeaseBook {
    return this.#book;
  }

  override submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    if (this.#stopped || options.stopWhenOver || ops[0]?.hold !== undefined) {
      for (const op of ops) op.mayReturn = false;
      this.store.submit(ops, options, done);
      return;
    }
    if (this.#endSweeps === undefined) this.#startSweeps();
    /** The ops that were not spent, if others were. */
    let left: Operation[] | undefined;
    let asked = false;
    for (let n = 0; n < ops.length; n += 1) {
      const op = ops[n]!;
      if (mayLease(op)) {
        if (op.verb === 'add' && this.#book.spend(op)) {
          left ??= ops.slice(0, n);
          continue;
        }
        if (this.#ask(op)) asked = true;
      }
      left?.push(op);
    }
    left ??= ops;
    if (left.length === 0) done();
    else if (asked) this.#submitAsking(left, options, done);
    else this.store.submit(left, options, done);
  }

  #submitAsking(ops: Operation[], options: SubmitOptions, done: () => void): void {
    this.store.submit(ops, options, () => {
      for (const op of ops) if (op.lease !== undefined) this.#book.answered(op.key, op.lease, op.error);
      done();
    });
  }

  /** Whether a message accompanies an op that was not spent. */
  #ask(op: Operation): boolean {
    if (!this.#book.mayAsk(op)) return false;
    op.lease = this.#book.ask(op, this.#options.clock.monotonicMs());
    return op.lease !== undefined;
  }

  #startSweeps(): void {
    const { clock, timers } = this.#options;
    this.#book.moveTo(clock.monotonicMs());
    this.#endSweeps = timers.every(tickMs, () => this.#sweep());
  }

  /** Ends all leases, because the rules with which they were taken are no longer in force. */
  endAll(): void {
    this.#book.endAll();
    this.#sweep();
  }

  /** Ends the leases of counters that were reset. */
  cancel(keys: readonly string[]): void {
    for (const key of keys) this.#book.cancel(key);
    this.#sweep();
  }

  /** The store now counts every hit. */
  stop(): void {
    this.#stopped = true;
    this.endAll();
  }

  /** Gives back unspent hits first, if the store accepts them soon. */
  override async close(): Promise<void> {
    this.stop();
    if (this.#book.unsettled > 0) {
      const settled = new Promise<void>((resolve) => {
        this.#onSettled = resolve;
      });
      await inTime(this.#options.timers, lastReturnsMs, settled, undefined);
    }
    this.#endSweeps?.();
    this.#book.close();
    await this.store.close();
  }

  #sweep(): void {
    const returns = this.#book.sweep(this.#options.clock.monotonicMs(), this.#stopped);
    for (let first = 0; first < returns.length; first += returnsPerRequest) {
      this.#submitAsking(returns.slice(first, first + returnsPerRequest), countAll, () => this.#returned());
    }
    if (this.#book.counters === 0) {
      this.#endSweeps?.();
      this.#endSweeps = undefined;
    }
    this.#returned();
  }

  #returned(): void {
    if (this.#onSettled !== undefined && this.#book.unsettled === 0) this.#onSettled();
  }
}

/** Whether leases may be involved: hits of one fixed window. For refunds this includes counters that only other limiters may lease. */
function mayLease(op: Operation): boolean {
  const { verb, hits, counter } = op;
  return hits > 0 && (verb === 'refund' ? counter.bound === undefined : counter.maxLease !== 0);
}
