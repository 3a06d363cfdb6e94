import type { Clock } from '../../../process/time/clock.ts';
import type { CounterState } from '../../algorithms/algorithm-bound.ts';
import { MemoryLedger } from '../../allocate/memory-ledger.ts';
import { admit, used } from '../admission.ts';
import { maxTotal, reportedTotal } from '../folded-run.ts';
import { failAll, failOp, hitsToCount, isRejected, type LeaseTerms, type Operation } from '../operation.ts';
import { stopOthersWhenOver } from '../stop-when-over.ts';
import type { Notes, OnceClaims, ReservationBounds, Store, SubmitOptions } from '../store.ts';
import { StoreError } from '../store-error.ts';
import { CounterTable, keyTooLong, type MemoryCounter, stateOf } from './counter-table.ts';
import { MemoryReservations } from './memory-reservations.ts';

export interface MemoryStoreOptions {
  clock: Clock;
  /** The maximum number of counters. When it is reached, the counters nearest to their end are removed first. */
  maxCounters: number;
  /** The maximum memory of counters, including keys. */
  maxBytes: number;
  /** Undefined: the store does not support reservations. */
  reservations?: ReservationBounds | undefined;
  /**
   * Whether the store answers messages to ledgers. It must not if it counts in place of another store, because no other limiter would see
   * the messages. Defaults to false.
   */
  ledgers?: boolean | undefined;
}

/** Above one, so that ended counters are removed faster than new ones can be added. */
const sweptPerOp = 4;
/** The maximum number of counters in one sweep. Sweeping them blocks the thread for a few milliseconds at most. */
const sweptPerSizeReading = 10_000;

/** Counts exactly, but only for this process. `done` is called before `submit` returns. */
export class MemoryStore implements Store {
  readonly #clock: Clock;
  readonly #table: CounterTable;
  /** The states of the current group. */
  readonly #counters: (MemoryCounter | undefined)[] = [];
  readonly #reservations: MemoryReservations | undefined;
  /** The shares of limiters in counters that several limiters share. */
  readonly #ledgers: WeakMap<MemoryCounter, MemoryLedger> | undefined;
  #closed = false;

  constructor({ clock, maxCounters, maxBytes, reservations, ledgers = false }: MemoryStoreOptions) {
    this.#clock = clock;
    if (ledgers) this.#ledgers = new WeakMap();
    this.#table = new CounterTable({ maxCounters, maxBytes });
    if (reservations !== undefined)
      this.#reservations = new MemoryReservations({ ...reservations, clock, table: this.#table });
  }

  get notes(): Notes | undefined {
    return this.#reservations;
  }

  get claims(): OnceClaims | undefined {
    return this.#reservations;
  }

  /** The current number of counters, for a gauge. Reading it also sweeps, so that the number falls when traffic ends. */
  get size(): number {
    const nowMs = this.#clock.nowMs();
    this.#table.sweep(nowMs, sweptPerSizeReading);
    this.#reservations?.sweep(nowMs, sweptPerSizeReading);
    return this.#table.size;
  }

  /** The memory that counters and their reservations use. */
  get bytes(): number {
    return this.#table.bytes + this.reservedBytes;
  }

  /** The part of it that reservations use. */
  get reservedBytes(): number {
    return this.#reservations?.bytes ?? 0;
  }

  /** The number of counters that were removed before their end since the start, because the table was full. */
  get evicted(): number {
    return this.#table.evicted;
  }

  submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    if (this.#closed) {
      const error = new StoreError('memory store is closed', { transient: false, notCounted: true });
      failAll(ops, error);
    } else if (ops[0]?.hold !== undefined) {
      this.#reservations!.submit(ops);
    } else {
      const nowMs = this.#clock.nowMs();
      this.#table.sweep(nowMs, ops.length * sweptPerOp);
      if (options.stopWhenOver) {
        for (const op of ops) this.#look(op, nowMs);
        stopOthersWhenOver(ops);
      } else {
        for (const op of ops) op.applied = hitsToCount(op);
      }
      for (let first = 0; first < ops.length; ) {
        const op = ops[first]!;
        if (op.lease !== undefined && this.#ledgers !== undefined)
          this.#share(op, op.lease, this.#ledgers, nowMs);
        else if (op.counter.bound === undefined) this.#apply(op, nowMs);
        else this.#admit(ops, first, nowMs);
        first += op.groupSize;
      }
      if (this.#reservations?.isEmpty === false) {
        for (const op of ops)
          if (isRejected(op)) op.hasExpired = this.#reservations.knows(op.counter.counterStem);
      }
    }
    done();
  }

  /** Copies the answer of another store into the counter of the op. A counter that is new here lives for its `ttlSeconds`. */
  learn(op: Operation): void {
    const { key, after, leased, fromLease, held, ttlSeconds } = op;
    const { bound } = op.counter;
    const nowMs = this.#clock.nowMs();
    // This limiter spends its leases before anything is counted here.
    const value = Math.min(maxTotal, after + leased);
    this.#table.sweep(nowMs, sweptPerOp);
    const counter = this.#table.find(op, nowMs);
    const inPlaceOfValue = bound === undefined || bound.holdsTotal ? undefined : held;
    if (counter !== undefined) {
      // A lease does not know of later hits.
      counter.value = fromLease ? Math.max(counter.value, value) : value;
      counter.held = inPlaceOfValue;
      // The lifetime starts at the last hit.
      if (inPlaceOfValue !== undefined)
        counter.expiresAtMs = Math.max(counter.expiresAtMs, nowMs + ttlSeconds * 1000);
    } else if (value > 0) {
      this.#table.create({ key, value, held: inPlaceOfValue, expiresAtMs: nowMs + ttlSeconds * 1000 });
    }
  }

  /** Removes counters and returns how many of them existed. */
  remove(keys: readonly string[]): number {
    let removed = 0;
    for (const key of keys) if (this.#table.remove(key)) removed += 1;
    this.#reservations?.closeAll(new Set(keys));
    return removed;
  }

  keys(): IterableIterator<string> {
    return this.#table.keys();
  }

  /** The state of the counter; for a fixed window the total and two zeros. */
  look(key: string): CounterState | undefined {
    const counter = this.#table.at(key, this.#clock.nowMs());
    return counter && (counter.held ?? [counter.value, 0, 0]);
  }

  ping(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.#closed = true;
    return Promise.resolve();
  }

  #look(op: Operation, nowMs: number): void {
    const { bound } = op.counter;
    const counter = this.#table.find(op, nowMs);
    op.error = undefined;
    if (bound === undefined) {
      op.after = counter?.value ?? 0;
    } else {
      const nowMicros = nowMs * 1000;
      op.after = used(bound, bound.stateAt(stateOf(counter, bound), nowMicros), nowMicros);
    }
  }

  #apply(op: Operation, nowMs: number): void {
    const counter = this.#table.find(op, nowMs);
    op.error = undefined;
    op.after = reportedTotal(counter?.value ?? 0, op.applied, op.verb === 'refund');
    const value = Math.min(maxTotal, op.after);
    if (counter !== undefined) {
      counter.value = value;
    } else if (op.verb !== 'refund' && op.applied > 0) {
      const created = this.#table.create({
        key: op.key,
        value,
        expiresAtMs: nowMs + op.ttlSeconds * 1000,
      });
      if (!created) failOp(op, keyTooLong(op.key, this.#table.maxBytes));
    }
  }

  /** Handles a message to the ledger alone. Hits are in separate operations. */
  #share(
    op: Operation,
    lease: LeaseTerms,
    ledgers: WeakMap<MemoryCounter, MemoryLedger>,
    nowMs: number,
  ): void {
    const { key, ttlSeconds } = op;
    const isThere = this.#table.find(op, nowMs) !== undefined;
    if (!isThere && !this.#table.create({ key, value: 0, expiresAtMs: nowMs + ttlSeconds * 1000 })) {
      failOp(op, keyTooLong(key, this.#table.maxBytes));
      return;
    }
    const counter = this.#table.find(op, nowMs)!;
    const ledger = ledgers.getOrInsertComputed(counter, () => new MemoryLedger());
    counter.value = ledger.apply(lease, counter.value, nowMs);
    op.applied = 0;
    op.after = counter.value;
    op.error = undefined;
  }

  #admit(ops: readonly Operation[], first: number, nowMs: number): void {
    const { groupSize, hits, applied } = ops[first]!;
    const counters = this.#counters;
    for (let i = 0; i < groupSize; i += 1) {
      const op = ops[first + i]!;
      const counter = this.#table.find(op, nowMs);
      counters[i] = counter;
      op.held = stateOf(counter, op.counter.bound!);
    }
    if (!admit(ops, first, nowMs * 1000, applied < hits)) return;
    for (let i = 0; i < groupSize; i += 1) {
      const op = ops[first + i]!;
      const { held } = op;
      if (held === undefined || this.#table.keep(op, op.counter.bound!, held, counters[i], nowMs)) continue;
      const error = keyTooLong(op.key, this.#table.maxBytes);
      failAll(ops.slice(first, first + groupSize), error);
    }
  }
}
