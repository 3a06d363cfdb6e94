import { ExpiryQueue } from './expiry-queue.ts';

/** One counter. Its end is set when it is created and never moves. */
export interface Counter {
  readonly key: string;
  readonly expiresAtMs: number;
  value: number;
  /** False once it left the table, though the expiry queue may still hold it. */
  live: boolean;
  nextInSecond: Counter | undefined;
}

/** Counters by key, at most `maxCounters` of them: when full, one of those that end soonest goes. */
export class CounterTable {
  readonly #maxCounters: number;
  readonly #counters = new Map<string, Counter>();
  readonly #queue = new ExpiryQueue<Counter>();
  #evicted = 0;

  constructor(options: { maxCounters: number }) {
    this.#maxCounters = options.maxCounters;
  }

  get size(): number {
    return this.#counters.size;
  }

  /** Counters that went before their end, to make room. */
  get evicted(): number {
    return this.#evicted;
  }

  get(key: string, nowMs: number): Counter | undefined {
    const counter = this.#counters.get(key);
    if (counter === undefined || counter.expiresAtMs > nowMs) return counter;
    this.#drop(counter);
    return undefined;
  }

  /** Only for a key that `get` does not know. */
  create(options: { key: string; value: number; expiresAtMs: number }): void {
    while (this.#counters.size >= this.#maxCounters) {
      const soonest = this.#queue.take();
      if (soonest === undefined) break;
      if (!soonest.live) continue;
      this.#drop(soonest);
      this.#evicted += 1;
    }
    const { key, value, expiresAtMs } = options;
    const counter: Counter = { key, expiresAtMs, value, live: true, nextInSecond: undefined };
    this.#counters.set(key, counter);
    this.#queue.add(counter);
  }

  /** Drops ended counters, at most `limit` of them, so that no call takes long. */
  sweep(nowMs: number, limit: number): void {
    for (let left = limit; left > 0; left -= 1) {
      const ended = this.#queue.takeEndedBy(nowMs);
      if (ended === undefined) return;
      if (ended.live) this.#drop(ended);
    }
  }

  #drop(counter: Counter): void {
    counter.live = false;
    this.#counters.delete(counter.key);
  }
}
