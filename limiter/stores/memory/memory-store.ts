import type { Clock } from '../../../process/time/clock.ts';
import {
  type CounterOp,
  type CounterStore,
  failOp,
  StoreError,
  type SubmitOptions,
} from '../counter-store.ts';
import { totalAfter } from '../folded-run.ts';
import { holdBack } from '../stop-when-over.ts';
import { CounterTable } from './counter-table.ts';

export interface MemoryStoreOptions {
  clock: Clock;
  /** How many counters are held at most; when full, those nearest to their end go first. */
  maxCounters: number;
  /** What they occupy at most, keys included. */
  maxBytes: number;
}

/** More than one, so that ended counters go faster than new ones can come. */
const sweptPerOp = 4;
/** Holds the thread for a few milliseconds at most. */
const sweptPerSizeReading = 10_000;

/** Counts exactly, in this process alone. `done` is called before `submit` returns. */
export class MemoryStore implements CounterStore {
  readonly #clock: Clock;
  readonly #table: CounterTable;
  #closed = false;

  constructor({ clock, maxCounters, maxBytes }: MemoryStoreOptions) {
    this.#clock = clock;
    this.#table = new CounterTable({ maxCounters, maxBytes });
  }

  /** Counters held now, for a gauge. Sweeps as well, so that it falls when traffic ends. */
  get size(): number {
    this.#table.sweep(this.#clock.nowMs(), sweptPerSizeReading);
    return this.#table.size;
  }

  /** What the counters occupy now. */
  get bytes(): number {
    return this.#table.bytes;
  }

  /** Counters dropped before their end since the start, because the table was full. */
  get evicted(): number {
    return this.#table.evicted;
  }

  submit(ops: CounterOp[], options: SubmitOptions, done: () => void): void {
    if (this.#closed) {
      const error = new StoreError('memory store is closed', { transient: false, notCounted: true });
      for (const op of ops) failOp(op, error);
    } else {
      const nowMs = this.#clock.nowMs();
      this.#table.sweep(nowMs, ops.length * sweptPerOp);
      if (options.stopWhenOver) {
        for (const op of ops) {
          op.after = this.#table.get(op.key, nowMs)?.value ?? 0;
          op.error = undefined;
        }
        holdBack(ops);
      } else {
        for (const op of ops) op.applied = op.hits;
      }
      for (const op of ops) this.#apply(op, nowMs);
    }
    done();
  }

  /** Takes over a total that another store counted. A counter that is new here lives for `ttlSeconds`. */
  learn(key: string, total: number, ttlSeconds: number): void {
    const nowMs = this.#clock.nowMs();
    this.#table.sweep(nowMs, sweptPerOp);
    const counter = this.#table.get(key, nowMs);
    if (counter !== undefined) counter.value = total;
    else if (total > 0) this.#table.create({ key, value: total, expiresAtMs: nowMs + ttlSeconds * 1000 });
  }

  ping(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.#closed = true;
    return Promise.resolve();
  }

  #apply(op: CounterOp, nowMs: number): void {
    const counter = this.#table.get(op.key, nowMs);
    op.error = undefined;
    op.after = totalAfter(counter?.value ?? 0, op.applied, op.negative);
    if (counter !== undefined) {
      counter.value = op.after;
    } else if (!op.negative && op.applied > 0) {
      const created = this.#table.create({
        key: op.key,
        value: op.after,
        expiresAtMs: nowMs + op.ttlSeconds * 1000,
      });
      if (!created) failOp(op, keyTooLong(op.key, this.#table.maxBytes));
    }
  }
}

function keyTooLong(key: string, maxBytes: number): StoreError {
  return new StoreError(
    `a counter key of ${key.length} characters does not fit into the ${maxBytes} bytes of the memory store`,
    { transient: false },
  );
}
