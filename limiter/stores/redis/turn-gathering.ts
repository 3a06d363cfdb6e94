import type { Timers } from '../../../process/time/clock.ts';
import type { CounterOp } from '../counter-store.ts';
import type { Batch, PendingRequest } from './call-places.ts';
import { CountBatch, StopBatch } from './script-batches.ts';

export interface TurnGatheringOptions {
  /** Called with the batches of one turn, in order. */
  send: (batch: Batch) => void;
  /**
   * At most one sending in so long, whole milliseconds: what comes soon after one is gathered until the time is over. What
   * comes alone does not wait. Defaults to 0: everything goes out at the end of its turn.
   */
  windowMs?: number | undefined;
  timers: Timers;
  monotonicMs: () => number;
}

/** Gathers what arrives in one turn of the event loop, or in a window, into as few batches as possible. */
export class TurnGathering {
  readonly #options: TurnGatheringOptions;
  /** Closed to new ops, to be sent when the turn ends. */
  #full: Batch[] = [];
  #open: CountBatch | StopBatch | undefined;
  #scheduled = false;
  #sentAtMs = Number.NEGATIVE_INFINITY;
  readonly #flush = () => this.#sendAll();

  constructor(options: TurnGatheringOptions) {
    this.#options = options;
  }

  add(ops: CounterOp[], request: PendingRequest): void {
    let batch = this.#open instanceof CountBatch ? this.#open : this.#begin(new CountBatch());
    for (const op of ops) {
      if (batch.add(op, request)) continue;
      batch = this.#begin(new CountBatch());
      batch.add(op, request);
    }
  }

  /** For stop-when-over: the ops stay together. At most `maxKeysPerCall` of them. */
  addWhole(ops: CounterOp[], request: PendingRequest): void {
    if (this.#open instanceof StopBatch && this.#open.add(ops, request)) return;
    this.#begin(new StopBatch()).add(ops, request);
  }

  #begin<T extends CountBatch | StopBatch>(batch: T): T {
    if (this.#open !== undefined) this.#full.push(this.#open);
    this.#open = batch;
    if (!this.#scheduled) {
      this.#scheduled = true;
      this.#schedule();
    }
    return batch;
  }

  #schedule(): void {
    const { windowMs = 0, timers, monotonicMs } = this.#options;
    // Without a window the clock need not be read.
    const waitMs = windowMs === 0 ? 0 : this.#sentAtMs + windowMs - monotonicMs();
    if (waitMs > 0) timers.after(Math.ceil(waitMs), this.#flush);
    else setImmediate(this.#flush);
  }

  #sendAll(): void {
    this.#scheduled = false;
    const { windowMs = 0, monotonicMs } = this.#options;
    if (windowMs > 0) this.#sentAtMs = monotonicMs();
    const full = this.#full;
    const last = this.#open;
    this.#full = [];
    this.#open = undefined;
    for (const batch of full) this.#options.send(batch);
    if (last !== undefined) this.#options.send(last);
  }
}

/** Does `work` for each item, for at most `limit` of them at a time, in order. Rejects with the first error of `work`. */
export async function inParallel<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  if (items.length <= limit) {
    await Promise.all(items.map(work));
    return;
  }
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length) await work(items[next++] as T);
  };
  await Promise.all(Array.from({ length: Math.max(1, limit) }, worker));
}
