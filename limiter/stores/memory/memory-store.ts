import type { Clock } from '../../../process/time/clock.ts';
import { admit, used } from '../admission.ts';
import type { Bound, Held } from '../bound.ts';
import {
  type CounterOp,
  type CounterStore,
  failOp,
  StoreError,
  type SubmitOptions,
} from '../counter-store.ts';
import { totalAfter } from '../folded-run.ts';
import { holdBack } from '../stop-when-over.ts';
import { type Counter, CounterTable } from './counter-table.ts';

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
        for (const op of ops) this.#look(op, nowMs);
        holdBack(ops);
      } else {
        for (const op of ops) op.applied = op.hits;
      }
      for (let first = 0; first < ops.length; ) {
        const op = ops[first]!;
        if (op.bound === undefined) this.#apply(op, nowMs);
        else this.#admit(ops, first, nowMs);
        first += op.groupSize;
      }
    }
    done();
  }

  /** Takes over what another store answered to the op. A counter that is new here lives for its `ttlSeconds`. */
  learn({ key, after, bound, held, ttlSeconds }: CounterOp): void {
    const nowMs = this.#clock.nowMs();
    this.#table.sweep(nowMs, sweptPerOp);
    const counter = this.#table.get(key, nowMs);
    const inPlaceOfValue = bound === undefined || bound.kind === 'fixed' ? undefined : held;
    if (counter !== undefined) {
      counter.value = after;
      counter.held = inPlaceOfValue;
    } else if (after > 0) {
      this.#table.create({ key, value: after, held: inPlaceOfValue, expiresAtMs: nowMs + ttlSeconds * 1000 });
    }
  }

  ping(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.#closed = true;
    return Promise.resolve();
  }

  #look(op: CounterOp, nowMs: number): void {
    const { bound } = op;
    const counter = this.#table.get(op.key, nowMs);
    op.error = undefined;
    if (bound === undefined) {
      op.after = counter?.value ?? 0;
    } else {
      const nowMicros = nowMs * 1000;
      op.after = used(bound, bound.heldAt(heldBy(counter, bound), nowMicros), nowMicros);
    }
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

  #admit(ops: readonly CounterOp[], first: number, nowMs: number): void {
    const { groupSize, hits, applied } = ops[first]!;
    const end = first + groupSize;
    for (let i = first; i < end; i += 1) {
      const op = ops[i]!;
      op.held = heldBy(this.#table.get(op.key, nowMs), op.bound!);
    }
    if (!admit(ops, first, nowMs * 1000, applied < hits)) return;
    for (let i = first; i < end; i += 1) {
      const op = ops[i]!;
      if (op.held === undefined || this.#keep(op, op.held, nowMs)) continue;
      const error = keyTooLong(op.key, this.#table.maxBytes);
      for (let other = first; other < end; other += 1) failOp(ops[other]!, error);
    }
  }

  /** False when the key does not fit. A counter that has to live longer than it was to is made anew, for twice as long. */
  #keep({ key, bound, ttlSeconds }: CounterOp, held: Held, nowMs: number): boolean {
    const counter = this.#table.get(key, nowMs);
    const isFixed = bound!.kind === 'fixed';
    const untilUnusedMs = bound!.untilUnusedMicros(held, nowMs * 1000) / 1000;
    if (counter !== undefined && counter.expiresAtMs >= nowMs + untilUnusedMs) {
      if (isFixed) counter.value = held[0];
      else counter.held = held;
      return true;
    }
    if (counter !== undefined) this.#table.drop(counter);
    const lifeMs = isFixed ? ttlSeconds * 1000 : 2 * untilUnusedMs;
    return this.#table.create({
      key,
      value: isFixed ? held[0] : 0,
      held: isFixed ? undefined : held,
      expiresAtMs: nowMs + lifeMs,
    });
  }
}

function heldBy(counter: Counter | undefined, bound: Bound): Held | undefined {
  if (counter === undefined || bound.kind !== 'fixed') return counter?.held;
  return [counter.value, 0, 0];
}

function keyTooLong(key: string, maxBytes: number): StoreError {
  return new StoreError(
    `a counter key of ${key.length} characters does not fit into the ${maxBytes} bytes of the memory store`,
    { transient: false },
  );
}
