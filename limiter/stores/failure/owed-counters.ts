/** What a store that could not be asked is owed: of one counter, and of all of them by key. Pure. */
import { beyondTotal, keyBytes, maxTotal } from '../folded-run.ts';

/**
 * What is to be added to one counter: a run of additions and of subtractions that stop at 0, kept as
 * x -> max(low, x + shift). Such a run is the same as one subtraction and then one addition.
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

  /** Takes over what came after it. */
  follow(later: OwedHits): void {
    this.takeBack(later.toTakeBack);
    this.add(later.toAdd);
  }

  /** First subtract this ... */
  get toTakeBack(): number {
    return Math.min(maxTotal, this.#low - this.#shift);
  }

  /** ... then add this. */
  get toAdd(): number {
    return this.#low;
  }

  /** The total with what is owed, as it is reported. */
  appliedTo(total: number): number {
    return Math.min(beyondTotal, Math.max(this.#low, total + this.#shift));
  }
}

/** What is owed to one key, until its counter would have ended anyway. */
export interface OwedCounter {
  readonly key: string;
  readonly perSecond: boolean;
  readonly endMs: number;
  readonly hits: OwedHits;
}

/** Hits that one op could not bring to the store. */
export interface OwedOp {
  readonly key: string;
  readonly hits: number;
  readonly negative: boolean;
  readonly perSecond: boolean;
  readonly endMs: number;
}

/** Ended ones are looked through without being given: so many a call, which holds the thread for a few ms at most. */
const passedPerTake = 10_000;

/** What a key occupies besides its characters, rounded up. */
const keyOverheadBytes = 200;

/** Hits owed to a store by key, bounded in number and in bytes. What finds no room is counted as dropped. */
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

  /** Keys that hits are owed to. */
  get size(): number {
    return this.#byKey.size;
  }

  /** Ops for which there was no room, since the start. */
  get dropped(): number {
    return this.#dropped;
  }

  get(key: string): OwedHits | undefined {
    return this.#byKey.get(key)?.hits;
  }

  /** Nothing is owed to it any more. */
  forgive(key: string): void {
    if (this.#byKey.delete(key)) this.#bytes -= bytesOf(key);
  }

  /** `endMs` holds for a key that is new here. */
  owe(op: OwedOp): void {
    const counter = this.#byKey.get(op.key) ?? this.#create(op);
    if (counter === undefined) this.#dropped += 1;
    else if (op.negative) counter.hits.takeBack(op.hits);
    else counter.hits.add(op.hits);
  }

  /** Those that have waited longest, at most `limit`; without those that have ended. */
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

  /** What was taken and could not be delivered; what came meanwhile comes after it. */
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
