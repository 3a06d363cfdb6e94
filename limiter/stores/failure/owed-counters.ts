/** The hits that a store could not count: those of one counter, and those of all counters by key. Pure. */
import { beyondTotal, keyBytes, maxTotal } from '../folded-run.ts';

/**
 * The hits to add to one counter: a run of additions and of subtractions that stop at 0, stored as x -> max(low, x + shift). Such a run
 * equals one subtraction and then one addition.
 */
export class OwedHits {
  #shift = 0;
  #low = 0;

  add(hits: number): void {
    this.#shift = Math.min(maxTotal, this.#shift + hits);
    this.#low = Math.min(maxTotal, this.#low + hits);
  }

  takeBack(hits: number): void {
    this.#shift = Math.max(-maxTotal, this.#shift - hits);
    this.#low = Math.max(0, this.#low - hits);
  }

  /** Appends a later run. */
  follow(later: OwedHits): void {
    this.takeBack(later.toTakeBack);
    this.add(later.toAdd);
  }

  /** The amount to subtract first. */
  get toTakeBack(): number {
    return Math.min(maxTotal, this.#low - this.#shift);
  }

  /** The amount to add afterward. */
  get toAdd(): number {
    return this.#low;
  }

  /** Returns the total to report, which includes these hits. */
  appliedTo(total: number): number {
    return Math.min(beyondTotal, Math.max(this.#low, total + this.#shift));
  }
}

/** The hits of one key, stored until its counter would have ended. */
export interface OwedCounter {
  readonly key: string;
  readonly perSecond: boolean;
  readonly endMs: number;
  readonly hits: OwedHits;
}

/** Hits of an op that did not reach the store. */
export interface OwedOp {
  readonly key: string;
  readonly hits: number;
  readonly negative: boolean;
  readonly perSecond: boolean;
  readonly endMs: number;
}

/** The maximum number of ended entries that one call skips. Skipping them blocks the thread for a few ms at most. */
const passedPerTake = 10_000;

/** The memory of an entry in addition to the characters of its key, rounded up. */
const keyOverheadBytes = 200;

/** Hits that a store does not have yet, by key, bounded in number and in bytes. Hits without room are counted as dropped. */
export class OwedCounters {
  readonly #maxKeys: number;
  readonly #maxBytes: number;
  readonly #byKey = new Map<string, OwedCounter>();
  #bytes = 0;
  #dropped = 0;

  constructor(options: { maxKeys: number; maxBytes: number }) {
    this.#maxKeys = options.maxKeys;
    this.#maxBytes = options.maxBytes;
  }

  /** The number of keys. */
  get size(): number {
    return this.#byKey.size;
  }

  /** The ops for which there was no room, since the start. */
  get dropped(): number {
    return this.#dropped;
  }

  get(key: string): OwedHits | undefined {
    return this.#byKey.get(key)?.hits;
  }

  /** Drops the hits of a key. */
  forgive(key: string): void {
    if (this.#byKey.delete(key)) this.#bytes -= bytesOf(key);
  }

  /** `endMs` is only used for a key that is new here. */
  owe(op: OwedOp): void {
    const counter = this.#byKey.get(op.key) ?? this.#create(op);
    if (counter === undefined) this.#dropped += 1;
    else if (op.negative) counter.hits.takeBack(op.hits);
    else counter.hits.add(op.hits);
  }

  /** Removes and returns at most `limit` entries that have waited longest, without those that have ended. */
  take(limit: number, nowMs: number): OwedCounter[] {
    const taken: OwedCounter[] = [];
    let passed = 0;
    for (const counter of this.#byKey.values()) {
      if (taken.length >= limit || passed >= passedPerTake) break;
      passed += 1;
      this.#byKey.delete(counter.key);
      this.#bytes -= bytesOf(counter.key);
      if (counter.endMs > nowMs) taken.push(counter);
    }
    return taken;
  }

  /** Puts back an entry that could not be delivered. Hits that were added meanwhile follow it. */
  putBack(counter: OwedCounter): void {
    const later = this.#byKey.get(counter.key);
    if (later !== undefined) counter.hits.follow(later.hits);
    else this.#bytes += bytesOf(counter.key);
    this.#byKey.set(counter.key, counter);
  }

  #create({ key, perSecond, endMs }: OwedOp): OwedCounter | undefined {
    if (this.#byKey.size >= this.#maxKeys || this.#bytes + bytesOf(key) > this.#maxBytes) return undefined;
    const counter = { key, perSecond, endMs, hits: new OwedHits() };
    this.#byKey.set(key, counter);
    this.#bytes += bytesOf(key);
    return counter;
  }
}

function bytesOf(key: string): number {
  return keyBytes(key) + keyOverheadBytes;
}
