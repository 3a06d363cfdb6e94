/** What is kept of the durations of one series: a histogram, or a summary over a sliding time. */

import { valueText } from './exposition-text.ts';
import type { HistogramOptions, ObserverOptions, SummaryOptions } from './mapping-rule.ts';
import { ValueSketch } from './value-sketch.ts';

/** One line of a series: what its name ends with, its own label, and its value. */
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
  /** By bucket, that of +Inf last; not yet added up. */
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
  /** The newest one first. */
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
