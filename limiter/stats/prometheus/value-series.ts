/** The series of a scrape: each kind of line with its state. */

import type { HistogramOptions, ObserverOptions, SummaryOptions } from './mapping-rules.ts';
import { valueText } from './metric-text.ts';

export interface ValueSource {
  valueOf(slot: number): number;
}

export interface ValueSeriesOptions {
  /** The name and the labels. */
  head: string;
  isCounter: boolean;
  /** Whether the line is left out at 0, because nothing has happened yet. */
  hidesZero: boolean;
  /** The time without change after which a counter is left out. 0: never. Gauges are set repeatedly, so they stay. */
  ttlMs: number;
}

interface Member {
  readonly slot: number;
  readonly scale: number;
  /** The part of the slot's value that does not count. */
  from: number;
}

/** One line of a counter or gauge: the sum of the statistics that were mapped to it. */
export class ValueSeries {
  readonly #options: ValueSeriesOptions;
  readonly #members: Member[] = [];
  /** The counts of members that left, because a decreasing sum would look like a restart. */
  #retained = 0;
  #seen = 0;
  #changedMs = 0;

  constructor(options: ValueSeriesOptions) {
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#members.length === 0;
  }

  get expires(): boolean {
    return this.#options.ttlMs > 0 && this.#options.isCounter;
  }

  add(slot: number, scale: number): void {
    this.#members.push({ slot, scale, from: 0 });
  }

  /** Call it while the slot still has its value. */
  remove(slot: number, source: ValueSource): void {
    const at = this.#members.findIndex((member) => member.slot === slot);
    const member = this.#members[at];
    if (member === undefined) return;
    if (this.#options.isCounter) this.#retained += (source.valueOf(slot) - member.from) * member.scale;
    this.#members.splice(at, 1);
  }

  value(source: ValueSource): number {
    let value = this.#retained;
    for (const { slot, scale, from } of this.#members) value += (source.valueOf(slot) - from) * scale;
    return value;
  }

  /** Starts at 0 again, and is hidden, after it has not changed for its time. */
  expire(source: ValueSource, nowMs: number): void {
    const value = this.value(source);
    if (value !== this.#seen) {
      this.#seen = value;
      this.#changedMs = nowMs;
    } else if (value !== 0 && nowMs - this.#changedMs >= this.#options.ttlMs) {
      for (const member of this.#members) member.from = source.valueOf(member.slot);
      this.#retained = 0;
      this.#seen = 0;
    }
  }

  /** Returns the line, or nothing. */
  line(source: ValueSource): string {
    const value = this.value(source);
    if (value === 0 && this.#options.hidesZero) return '';
    return `${this.#options.head} ${valueText(value)}\n`;
  }
}

/**
 * Quantiles of observations in bounded memory: values are in bins 1% wide, each with its sum. A quantile is the mean of its bin. It is
 * exact if the values of a bin are equal, as most whole milliseconds are, and otherwise off by less than 1%.
 */
const logWidth = Math.log(1.01);
/** Smaller values count as 0. */
const smallest = 1e-9;
const largest = 1e12;
const zeroBin = Number.NEGATIVE_INFINITY;

interface Bin {
  count: number;
  sum: number;
}

export class ValueSketch {
  readonly #bins = new Map<number, Bin>();

  add(value: number): void {
    const bin = value < smallest ? zeroBin : Math.ceil(Math.log(Math.min(value, largest)) / logWidth);
    const known = this.#bins.get(bin);
    if (known === undefined) this.#bins.set(bin, { count: 1, sum: value });
    else {
      known.count += 1;
      known.sum += value;
    }
  }

  clear(): void {
    this.#bins.clear();
  }

  /** Returns quantiles in the order of `quantiles`, which must ascend; NaN if there are no observations. */
  static quantiles(sketches: readonly ValueSketch[], quantiles: readonly number[]): number[] {
    const merged = new Map<number, Bin>();
    let total = 0;
    for (const sketch of sketches) {
      for (const [index, { count, sum }] of sketch.#bins) {
        const bin = merged.get(index);
        merged.set(
          index,
          bin === undefined ? { count, sum } : { count: bin.count + count, sum: bin.sum + sum },
        );
        total += count;
      }
    }
    const bins = [...merged].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, bin]) => bin);
    let at = 0;
    let seen = 0;
    return quantiles.map((quantile) => {
      const rank = Math.max(1, Math.ceil(quantile * total));
      while (at < bins.length && seen + (bins[at] as Bin).count < rank) seen += (bins[at++] as Bin).count;
      const bin = bins[at];
      return bin === undefined ? Number.NaN : bin.sum / bin.count;
    });
  }
}

// The stored durations of one series: a histogram, or a summary over a sliding time.

/** One line of a series: the end of its name, its own label, and its value. */
export type Sample = readonly [suffix: string, label: string, value: number];

export interface Observer {
  observe(value: number, nowMs: number): void;
  samples(nowMs: number): Sample[];
}

export function createObserver(options: ObserverOptions, nowMs: number): Observer {
  return options.type === 'histogram' ? new Histogram(options) : new Summary(options, nowMs);
}

class Histogram implements Observer {
  readonly #bounds: readonly number[];
  /** Counts by bucket, +Inf last; not cumulative. */
  readonly #counts: Float64Array;
  readonly #labels: readonly string[];
  #sum = 0;

  constructor({ buckets }: HistogramOptions) {
    this.#bounds = buckets.filter((bound) => bound !== Number.POSITIVE_INFINITY);
    this.#counts = new Float64Array(this.#bounds.length + 1);
    this.#labels = [...this.#bounds, Number.POSITIVE_INFINITY].map((bound) => `le="${valueText(bound)}"`);
  }

  observe(value: number): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] as number)) bucket += 1;
    this.#counts[bucket]! += 1;
    this.#sum += value;
  }

  samples(): Sample[] {
    let count = 0;
    const samples = this.#labels.map((label, bucket): Sample => {
      count += this.#counts[bucket] as number;
      return ['_bucket', label, count];
    });
    return [...samples, ['_sum', '', this.#sum], ['_count', '', count]];
  }
}

class Summary implements Observer {
  readonly #options: SummaryOptions;
  /** Sketches, the newest first. */
  readonly #ages: ValueSketch[];
  #newestBeganMs: number;
  #sum = 0;
  #count = 0;

  constructor(options: SummaryOptions, nowMs: number) {
    this.#options = options;
    this.#ages = Array.from({ length: options.ageBuckets }, () => new ValueSketch());
    this.#newestBeganMs = nowMs;
  }

  observe(value: number, nowMs: number): void {
    this.#age(nowMs);
    (this.#ages[0] as ValueSketch).add(value);
    this.#sum += value;
    this.#count += 1;
  }

  samples(nowMs: number): Sample[] {
    this.#age(nowMs);
    const { quantiles } = this.#options;
    const values = ValueSketch.quantiles(this.#ages, quantiles);
    return [
      ...quantiles.map((quantile, i): Sample => ['', `quantile="${quantile}"`, values[i] as number]),
      ['_sum', '', this.#sum],
      ['_count', '', this.#count],
    ];
  }

  #age(nowMs: number): void {
    const stepMs = this.#options.maxAgeMs / this.#ages.length;
    const steps = Math.floor((nowMs - this.#newestBeganMs) / stepMs);
    if (steps <= 0) return;
    for (let step = 0; step < Math.min(steps, this.#ages.length); step += 1) {
      const oldest = this.#ages.pop() as ValueSketch;
      oldest.clear();
      this.#ages.unshift(oldest);
    }
    this.#newestBeganMs += steps * stepMs;
  }
}
