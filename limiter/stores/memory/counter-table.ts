import type { AlgorithmBound, CounterState } from '../../algorithms/algorithm-bound.ts';
import { keyBytes } from '../folded-run.ts';
import type { Operation } from '../operation.ts';
import { StoreError } from '../store-error.ts';
import { ExpiryQueue } from './expiry-queue.ts';

/** One counter. */
export interface MemoryCounter {
  readonly key: string;
  readonly bytes: number;
  /** Set when the counter is created. For a sliding window or a bucket, hits move it to a later time. */
  expiresAtMs: number;
  queuedTick: number;
  value: number;
  /** The state of a sliding window or a token bucket, instead of the value. */
  held: CounterState | undefined;
  /** Its position. Undefined after it was removed; the expiry queue or a reader may still refer to it. */
  table: CounterTable | undefined;
  nextInTick: MemoryCounter | undefined;
}

/** The fields of an operation that a new counter needs. */
type CounterToStore = Pick<Operation, 'key' | 'ttlSeconds'>;

/** The memory of a counter in addition to the characters of its key: measured with a million counters on Node 26, rounded up. */
const counterOverheadBytes = 176;
/** The additional memory of a state instead of a value. */
const bufferedBytes = 64;

/**
 * The maximum number of counters whose end has moved that are queued again for each new counter. Beyond this number, any of them is
 * removed.
 */
const maxRequeued = 100;
/** How long to store a token bucket that is full again at once, in milliseconds. Creating it for each hit would cost more. */
const minLifeMs = 1000;

export function stateOf(counter: MemoryCounter | undefined, bound: AlgorithmBound): CounterState | undefined {
  if (counter === undefined || !bound.holdsTotal) return counter?.held;
  return [counter.value, 0, 0];
}

function hasMoved({ expiresAtMs, queuedTick }: MemoryCounter): boolean {
  return Math.ceil(expiresAtMs / 1000) > queuedTick;
}

/** Counters by key, bounded in number and in bytes. When full, it removes one of those that end soonest. */
export class CounterTable {
  readonly maxBytes: number;
  readonly #maxCounters: number;
  readonly #counters = new Map<string, MemoryCounter>();
  readonly #queue = new ExpiryQueue<MemoryCounter>();
  #bytes = 0;
  #otherBytes = 0;
  #evicted = 0;

  constructor(options: { maxCounters: number; maxBytes: number }) {
    this.#maxCounters = options.maxCounters;
    this.maxBytes = options.maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get size(): number {
    return this.#counters.size;
  }

  /** The number of counters that were removed before their end to make room. */
  get evicted(): number {
    return this.#evicted;
  }

  /** The operation's counter remembers the result, so that the map is not read again. */
  find({ key, counter }: Pick<Operation, 'key' | 'counter'>, nowMs: number): MemoryCounter | undefined {
    let found = counter.place as MemoryCounter | undefined;
    if (found === undefined || found.table !== this || found.key !== key) {
      found = this.#counters.get(key);
      counter.place = found;
    }
    if (found === undefined || found.expiresAtMs > nowMs) return found;
    this.#drop(found);
    return undefined;
  }

  /** Counters that exist throughout are visited once, even if other counters come and go. */
  keys(): IterableIterator<string> {
    return this.#counters.keys();
  }

  /** Returns undefined if there is no counter, or if it has ended. */
  at(key: string, nowMs: number): MemoryCounter | undefined {
    const counter = this.#counters.get(key);
    return counter !== undefined && counter.expiresAtMs > nowMs ? counter : undefined;
  }

  /** Call it only for a key that `find` does not know. Returns false if the key is too long even for an empty table. */
  create(options: {
    key: string;
    value: number;
    held?: CounterState | undefined;
    expiresAtMs: number;
  }): boolean {
    const { key, value, held, expiresAtMs } = options;
    const bytes = keyBytes(key) + counterOverheadBytes + (held === undefined ? 0 : bufferedBytes);
    if (bytes > this.maxBytes) return false;
    this.#makeRoom(1, bytes);
    const counter: MemoryCounter = {
      key,
      bytes,
      expiresAtMs,
      queuedTick: 0,
      value,
      held,
      table: this,
      nextInTick: undefined,
    };
    this.#counters.set(key, counter);
    this.#bytes += bytes;
    this.#queue.add(counter);
    return true;
  }

  /**
   * Writes the state of a counter with a bound, or creates the counter if `find` returned none. Returns false if the key does not fit. If
   * a counter must live longer, its lifetime is twice the required time, so that not every hit moves its end.
   */
  keep(
    kept: CounterToStore,
    bound: AlgorithmBound,
    held: CounterState,
    counter: MemoryCounter | undefined,
    nowMs: number,
  ): boolean {
    const { key, ttlSeconds } = kept;
    const { holdsTotal } = bound;
    const untilUnusedMs = holdsTotal ? 0 : bound.untilUnusedMicros(held, nowMs * 1000) / 1000;
    const lifeMs = holdsTotal ? ttlSeconds * 1000 : Math.max(minLifeMs, 2 * untilUnusedMs);
    // Another operation of the group may have removed it to make room.
    if (counter === undefined || counter.table === undefined) {
      const inPlaceOfValue = holdsTotal ? undefined : held;
      const value = holdsTotal ? held[0] : 0;
      return this.create({ key, value, held: inPlaceOfValue, expiresAtMs: nowMs + lifeMs });
    }
    if (holdsTotal) counter.value = held[0];
    else counter.held = held;
    if (counter.expiresAtMs < nowMs + untilUnusedMs) counter.expiresAtMs = nowMs + lifeMs;
    return true;
  }

  /** Sets how much of the memory others use. Counters are removed if that leaves no room. */
  occupy(bytes: number): void {
    this.#otherBytes = bytes;
    this.#makeRoom(0, 0);
  }

  /** Whether a counter of this key fits into an empty table. */
  fits(key: string): boolean {
    return keyBytes(key) + counterOverheadBytes + bufferedBytes <= this.maxBytes;
  }

  /** Returns false if there is no such counter. */
  remove(key: string): boolean {
    const counter = this.#counters.get(key);
    if (counter !== undefined) this.#drop(counter);
    return counter !== undefined;
  }

  /** Drops ended counters, at most `limit` of them, so that no call takes long. */
  sweep(nowMs: number, limit: number): void {
    for (let left = limit; left > 0; left -= 1) {
      const ended = this.#queue.takeEndedBy(nowMs);
      if (ended === undefined) return;
      if (ended.table === undefined) continue;
      if (ended.expiresAtMs > nowMs && hasMoved(ended)) this.#queue.add(ended);
      else this.#drop(ended);
    }
  }

  #makeRoom(counters: number, bytes: number): void {
    let requeued = 0;
    const maxBytes = this.maxBytes - bytes;
    while (this.#counters.size + counters > this.#maxCounters || this.#bytes + this.#otherBytes > maxBytes) {
      const soonest = this.#queue.take();
      if (soonest === undefined) break;
      if (soonest.table === undefined) continue;
      if (hasMoved(soonest) && requeued < maxRequeued) {
        requeued += 1;
        this.#queue.add(soonest);
        continue;
      }
      this.#drop(soonest);
      this.#evicted += 1;
    }
  }

  #drop(counter: MemoryCounter): void {
    counter.table = undefined;
    this.#bytes -= counter.bytes;
    this.#counters.delete(counter.key);
  }
}

export function keyTooLong(key: string, maxBytes: number): StoreError {
  return new StoreError(
    `a counter key of ${key.length} characters does not fit into the ${maxBytes} bytes of the memory store`,
    { transient: false },
  );
}
