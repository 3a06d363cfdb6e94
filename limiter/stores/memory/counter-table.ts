import type { Held } from '../bound.ts';
import type { CounterOp } from '../counter-store.ts';
import { keyBytes } from '../folded-run.ts';
import { ExpiryQueue } from './expiry-queue.ts';

/** One counter. */
export interface Counter {
  readonly key: string;
  readonly bytes: number;
  /** Set when it is created. That of a sliding window or a bucket moves later with its hits. */
  expiresAtMs: number;
  queuedSecond: number;
  value: number;
  /** Of a sliding window or a bucket, in place of the value. */
  held: Held | undefined;
  /** Where it is; undefined once it left, though the expiry queue, or who found it, may still hold it. */
  table: CounterTable | undefined;
  nextInSecond: Counter | undefined;
}

/** What a counter occupies besides its key's characters: measured with a million of them on Node 26, rounded up. */
const counterOverheadBytes = 176;
/** And what it holds in place of a value. */
const heldBytes = 64;

/** Counters whose end moved are queued anew, at most so many for one that is new: then any of them goes. */
const mostRequeued = 100;

function hasMoved({ expiresAtMs, queuedSecond }: Counter): boolean {
  return Math.ceil(expiresAtMs / 1000) > queuedSecond;
}

/** Counters by key, bounded in number and in bytes: when full, one of those that end soonest goes. */
export class CounterTable {
  readonly maxBytes: number;
  readonly #maxCounters: number;
  readonly #counters = new Map<string, Counter>();
  readonly #queue = new ExpiryQueue<Counter>();
  #bytes = 0;
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

  /** Counters that went before their end, to make room. */
  get evicted(): number {
    return this.#evicted;
  }

  /** Of an op, whose plan keeps what was found: the map need not be asked again. */
  find({ key, plan }: CounterOp, nowMs: number): Counter | undefined {
    let counter = plan?.counter as Counter | undefined;
    if (counter === undefined || counter.table !== this || counter.key !== key) {
      counter = this.#counters.get(key);
      if (plan !== undefined) plan.counter = counter;
    }
    if (counter === undefined || counter.expiresAtMs > nowMs) return counter;
    this.#drop(counter);
    return undefined;
  }

  /** As counters come and go, those that are there all the while come once. */
  keys(): IterableIterator<string> {
    return this.#counters.keys();
  }

  /** Undefined where there is none, or it has ended. */
  at(key: string, nowMs: number): Counter | undefined {
    const counter = this.#counters.get(key);
    return counter !== undefined && counter.expiresAtMs > nowMs ? counter : undefined;
  }

  /** Only for a key that `find` does not know. False when it is too long for the table, even an empty one. */
  create(options: { key: string; value: number; held?: Held | undefined; expiresAtMs: number }): boolean {
    const { key, value, held, expiresAtMs } = options;
    const bytes = keyBytes(key) + counterOverheadBytes + (held === undefined ? 0 : heldBytes);
    if (bytes > this.maxBytes) return false;
    let requeued = 0;
    while (this.#counters.size >= this.#maxCounters || this.#bytes + bytes > this.maxBytes) {
      const soonest = this.#queue.take();
      if (soonest === undefined) break;
      if (soonest.table === undefined) continue;
      if (hasMoved(soonest) && requeued < mostRequeued) {
        requeued += 1;
        this.#queue.add(soonest);
        continue;
      }
      this.#drop(soonest);
      this.#evicted += 1;
    }
    const counter: Counter = {
      key,
      bytes,
      expiresAtMs,
      queuedSecond: 0,
      value,
      held,
      table: this,
      nextInSecond: undefined,
    };
    this.#counters.set(key, counter);
    this.#bytes += bytes;
    this.#queue.add(counter);
    return true;
  }

  /** False where there is none. */
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

  #drop(counter: Counter): void {
    counter.table = undefined;
    this.#bytes -= counter.bytes;
    this.#counters.delete(counter.key);
  }
}
