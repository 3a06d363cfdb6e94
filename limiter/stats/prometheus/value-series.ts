/** The series of a scrape: what a line of each kind keeps, and which statistic is shown as part of which. */
import type { Clock } from '../../../process/time/clock.ts';
import type { Tags } from '../registry/metric-name.ts';
import { rulePrefix } from '../registry/slot-table.ts';
import type { StatsSource, Timer } from '../registry/stats-registry.ts';
import {
  helpOf,
  labelText,
  type MetricFamilies,
  type MetricFamily,
  metricName,
  type ObserverSeries,
  valueText,
} from './exposition.ts';
import type { Mapper } from './mapper.ts';
import type { HistogramOptions, MappedMetric, ObserverOptions, SummaryOptions } from './mapping-rules.ts';

export interface ValueSource {
  valueOf(slot: number): number;
}

export interface ValueSeriesOptions {
  /** Name and labels. */
  head: string;
  isCounter: boolean;
  /** Left out at 0, as nothing has happened yet. */
  hidesZero: boolean;
  /** 0 for never; gauges are set again and again, and stay. */
  ttlMs: number;
}

interface Member {
  readonly slot: number;
  readonly scale: number;
  /** What of the slot's value does not count. */
  from: number;
}

/** One line of a counter or gauge: the sum of the statistics that were mapped to it. */
export class ValueSeries {
  readonly #options: ValueSeriesOptions;
  readonly #members: Member[] = [];
  /** Counted by members that left: a sum that went back would look like a restart. */
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

  /** While the slot still has its value. */
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

  /** Begins at 0 again, and out of sight, when it did not change for its time. */
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

  /** The line, or nothing. */
  line(source: ValueSource): string {
    const value = this.value(source);
    if (value === 0 && this.#options.hidesZero) return '';
    return `${this.#options.head} ${valueText(value)}\n`;
  }
}

/**
 * Quantiles of what was observed, in bounded memory: values stand in bins 1 % wide, each with its sum. A quantile is
 * the mean of its bin, so it is exact where the values of a bin are equal, as those of whole milliseconds mostly are, and
 * off by less than 1 % otherwise.
 */
const logWidth = Math.log(1.01);
/** What is smaller counts as 0. */
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

  /** In the order of `quantiles`, which ascends; NaN where nothing was observed. */
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

// What is kept of the durations of one series: a histogram, or a summary over a sliding time.

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

export interface SeriesIndexOptions {
  source: StatsSource;
  mapper: Mapper;
  families: MetricFamilies;
  clock: Pick<Clock, 'monotonicMs'>;
  /** A statistic is left out, as its metric's name is taken for something else. */
  onConflict(stat: string, metric: string): void;
}

interface Shown {
  readonly family: MetricFamily;
  readonly labels: string;
  readonly series: ValueSeries;
}

interface ShownTimer {
  readonly series: ObserverSeries;
  readonly scale: number;
}

/** The Go service's, of what a mapping names without a help of its own. */
const defaultHelp = 'Metric autogenerated by statsd_exporter.';
/** Time for mapping names, and slots looked at, in one turn of the event loop. */
const turnMs = 1;
const slotsPerTurn = 32_768;

/**
 * Which statistic is shown as part of which series. A name is mapped once, when it is first seen; after that a scrape
 * reads numbers. What a detailed metric leaves behind goes with it.
 */
export class SeriesIndex {
  readonly #options: SeriesIndexOptions;
  #generations = new Uint32Array(1024);
  /** By slot. */
  readonly #shown: (Shown | undefined)[] = [];
  /** By timer; undefined for one that is not shown. */
  readonly #timers: (ShownTimer | undefined | 'unknown')[] = [];
  readonly #expiring = new Set<ValueSeries>();
  readonly #expiringObservers = new Map<ObserverSeries, MetricFamily>();
  readonly #emptied = new Set<MetricFamily>();
  #conflicts = 0;

  constructor(options: SeriesIndexOptions) {
    this.#options = options;
    options.source.onLeave((first, count) => {
      for (let slot = first; slot < first + count; slot += 1) this.#leave(slot);
    });
    options.source.onTimer((timer, value) => {
      const nowMs = options.clock.monotonicMs();
      const shown = this.#timers[timer.index] ?? this.#enterTimer(timer, nowMs);
      if (shown === 'unknown') return;
      shown.series.observer.observe(value * shown.scale, nowMs);
      shown.series.observedMs = nowMs;
    });
  }

  /** Statistics left out so far because the names of their metrics are taken. */
  get conflicts(): number {
    return this.#conflicts;
  }

  /** Maps what is new, pausing between its steps; not while an answer is written. */
  *update(): Generator<void> {
    const { source, families, clock } = this.#options;
    for (const family of this.#emptied) families.release(family);
    this.#emptied.clear();
    let turnBeganMs = clock.monotonicMs();
    for (let slot = 0; slot < source.slotCount; slot += 1) {
      const isNew = this.#isNew(slot);
      if (isNew) this.#enter(slot);
      const isTurnOver = isNew
        ? clock.monotonicMs() - turnBeganMs >= turnMs
        : slot % slotsPerTurn === slotsPerTurn - 1;
      if (!isTurnOver) continue;
      yield;
      turnBeganMs = clock.monotonicMs();
    }
    this.#expire();
  }

  #isNew(slot: number): boolean {
    if (slot >= this.#generations.length) {
      const bytes = slot * 2 * Uint32Array.BYTES_PER_ELEMENT;
      this.#generations = new Uint32Array(this.#generations.buffer.transfer(bytes));
    }
    const generation = this.#options.source.generationOf(slot);
    if (this.#generations[slot] === generation) return false;
    this.#generations[slot] = generation;
    return generation !== 0;
  }

  #enter(slot: number): void {
    const { source, mapper } = this.#options;
    const kind = source.kindOf(slot);
    const stat = source.plainNameOf(slot);
    const metric = mapper.map(stat, kind);
    if (metric === undefined || (kind === 'counter' && metric.scale < 0)) return;
    const family = this.#claim(stat, metric, kind);
    if (family === undefined) return;
    const labels = labelText(joined(source.tagsOf(slot), metric));
    let series = family.values.get(labels);
    if (series === undefined) {
      series = new ValueSeries({
        head: labels === '' ? metric.name : `${metric.name}{${labels}}`,
        isCounter: kind === 'counter',
        // As many metrics as keys: only those that count something.
        hidesZero:
          kind === 'counter' && (metric.ttlMs > 0 || (!metric.isMapped && stat.startsWith(rulePrefix))),
        ttlMs: metric.ttlMs,
      });
      family.values.set(labels, series);
      if (series.expires) this.#expiring.add(series);
    }
    series.add(slot, metric.scale);
    this.#shown[slot] = { family, labels, series };
  }

  #claim(stat: string, metric: MappedMetric, type: MetricFamily['type']): MetricFamily | undefined {
    const isKnown = !metric.isMapped || stat.startsWith(rulePrefix);
    const help = metric.help ?? (isKnown ? helpOf(stat) : undefined) ?? defaultHelp;
    const family = this.#options.families.claim(metric.name, type, help);
    if (family === undefined) {
      this.#conflicts += 1;
      this.#options.onConflict(stat, metric.name);
    }
    return family;
  }

  #leave(slot: number): void {
    const shown = this.#shown[slot];
    if (shown === undefined) return;
    this.#shown[slot] = undefined;
    const { family, labels, series } = shown;
    series.remove(slot, this.#options.source);
    if (!series.isEmpty) return;
    family.values.delete(labels);
    this.#expiring.delete(series);
    this.#emptied.add(family);
  }

  #enterTimer({ name, index }: Timer, nowMs: number): ShownTimer | 'unknown' {
    const shown = this.#newTimer(name, nowMs) ?? 'unknown';
    this.#timers[index] = shown;
    return shown;
  }

  #newTimer(name: string, nowMs: number): ShownTimer | undefined {
    const { mapper, source } = this.#options;
    const metric = mapper.map(name, 'observer');
    if (metric === undefined) return undefined;
    const family = this.#claim(name, metric, metric.observer.type);
    if (family === undefined) return undefined;
    const own = metric.observer.type === 'histogram' ? 'le' : 'quantile';
    const labels = labelText(withoutOwn(joined(source.extraTags, metric), own));
    let series = family.observers.get(labels);
    if (series === undefined) {
      const observer = createObserver(metric.observer, nowMs);
      series = { labels, observer, ttlMs: metric.ttlMs, observedMs: nowMs };
      family.observers.set(labels, series);
      if (metric.ttlMs > 0) this.#expiringObservers.set(series, family);
    }
    return { series, scale: metric.scale };
  }

  #expire(): void {
    const nowMs = this.#options.clock.monotonicMs();
    for (const series of this.#expiring) series.expire(this.#options.source, nowMs);
    for (const [series, family] of this.#expiringObservers) {
      if (nowMs - series.observedMs < series.ttlMs) continue;
      this.#expiringObservers.delete(series);
      family.observers.delete(series.labels);
      this.#emptied.add(family);
      for (const [index, shown] of this.#timers.entries()) {
        if (shown !== 'unknown' && shown?.series === series) this.#timers[index] = undefined;
      }
    }
  }
}

function joined(tags: Tags, { labels, honorLabels }: MappedMetric): Map<string, string> {
  const own = tags.map(([key, value]) => [metricName(key), value] as const);
  return new Map(honorLabels ? [...labels, ...own] : [...own, ...labels]);
}

/** The label that a histogram or summary has itself gives way, as when Prometheus scrapes one that it sets. */
function withoutOwn(labels: Map<string, string>, own: string): Map<string, string> {
  return new Map([...labels].map(([name, value]) => [name === own ? `exported_${name}` : name, value]));
}
