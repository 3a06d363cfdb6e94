/**
 * The heaviest keys of a stream in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi, 2005), with weights.
 * While there is room every key is counted exactly. After that a new key takes the place of the lightest one and
 * inherits its count, which is then how much its own may be too high. With capacity k and a stream of the weight N:
 *
 *   - the counts add up to N, so the lightest one is at most N / k;
 *   - a key's true weight lies between count - error and count, and a key that is not held weighs at most the lightest;
 *   - hence every key that weighs more than N / k is held.
 *
 * The lightest is the top of a binary heap, so a hit costs one look into a map and a few steps.
 */
import { Heap } from '../../process/queues/heap.ts';

export interface HeavyKey {
  readonly key: string;
  /** The upper bound of its true weight. */
  readonly count: number;
  /** The amount by which the true weight can be lower, at most. */
  readonly error: number;
  /** The rule by which it was over limit last. */
  readonly rule: string;
  /** Whether that rule is in shadow mode. */
  readonly shadowMode: boolean;
}

class CountedKey implements HeavyKey {
  key: string;
  count: number;
  error: number;
  rule: string;
  shadowMode: boolean;
  /** The place in the heap. */
  place = 0;

  constructor(key: string, rule: string) {
    this.key = key;
    this.count = 0;
    this.error = 0;
    this.rule = rule;
    this.shadowMode = false;
  }
}

/** The size of an entry besides its two texts: 111 bytes measured, and the rest for a key that is a slice of a longer text. */
const entryBytes = 192;

export class SpaceSaving {
  readonly #capacity: number;
  readonly #places = new Map<string, CountedKey>();
  readonly #lightest = new Heap<CountedKey>(
    (one, other) => one.count < other.count,
    (counted, place) => {
      counted.place = place;
    },
  );
  #total = 0;
  #bytes = 0;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** The exact total, including keys that are not held. */
  get total(): number {
    return this.#total;
  }

  /** The maximum weight of a key that is not held. */
  get missed(): number {
    return this.#lightest.size < this.#capacity ? 0 : this.#lightest.first!.count;
  }

  /** The approximate size, with two bytes for each character of a text. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Returns the keys in no order. */
  keys(): Iterable<HeavyKey> {
    return this.#lightest.members;
  }

  add(key: string, weight: number, rule: string, shadowMode: boolean): void {
    this.#total += weight;
    const place = this.#places.get(key) ?? this.#placeFor(key, rule);
    place.count += weight;
    if (place.rule !== rule) this.#rename(place, rule);
    place.shadowMode = shadowMode;
    this.#lightest.moved(place.place);
  }

  #placeFor(key: string, rule: string): CountedKey {
    if (this.#lightest.size === this.#capacity) return this.#replaceLightest(key);
    const place = new CountedKey(key, rule);
    this.#lightest.add(place);
    this.#places.set(key, place);
    this.#bytes += entryBytes + 2 * (key.length + rule.length);
    return place;
  }

  #replaceLightest(key: string): CountedKey {
    const place = this.#lightest.first!;
    this.#places.delete(place.key);
    this.#bytes += 2 * (key.length - place.key.length);
    place.key = key;
    place.error = place.count;
    this.#places.set(key, place);
    return place;
  }

  #rename(place: CountedKey, rule: string): void {
    this.#bytes += 2 * (rule.length - place.rule.length);
    place.rule = rule;
  }
}

// The combined summary of sketches of different times and threads. Their bounds add up, and the sum stays true.

/** A sketch as plain data, which threads can hand to each other. */
export interface TopSummary {
  /** The start of the observation, in milliseconds since 1970. */
  sinceMs: number;
  /** The exact total of all keys. */
  total: number;
  /** The maximum weight of a key that is not among `keys`. */
  missed: number;
  keys: HeavyKey[];
}

export function summaryOf(sketch: SpaceSaving, sinceMs: number): TopSummary {
  const keys = Array.from(sketch.keys(), ({ key, count, error, rule, shadowMode }) => {
    return { key, count, error, rule, shadowMode };
  });
  return { sinceMs, total: sketch.total, missed: sketch.missed, keys };
}

/**
 * Joins summaries, of which there is at least one; the newest is last. The heaviest key comes first, and equal keys are sorted by
 * name. A summary without a key may hide up to its `missed` of that key.
 */
export function joinedSummaries(summaries: readonly TopSummary[]): TopSummary {
  const missed = sumOf(summaries, 'missed');
  const sums = new Map<string, HeavyKey>();
  for (const summary of summaries) {
    for (const entry of summary.keys) {
      const sum = sums.get(entry.key) ?? { count: missed, error: missed };
      const count = sum.count + entry.count - summary.missed;
      const error = sum.error + entry.error - summary.missed;
      sums.set(entry.key, { ...entry, count, error });
    }
  }
  const keys = [...sums.values()].sort((a, b) => b.count - a.count || (a.key < b.key ? -1 : 1));
  const sinceMs = Math.min(...summaries.map((summary) => summary.sinceMs));
  return { sinceMs, total: sumOf(summaries, 'total'), missed, keys };
}

function sumOf(summaries: readonly TopSummary[], what: 'total' | 'missed'): number {
  return summaries.reduce((sum, summary) => sum + summary[what], 0);
}
