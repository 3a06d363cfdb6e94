import { noTags, type Tags, tagsSuffix } from './metric-name.ts';
import { RuleMetrics } from './rule-metrics.ts';
import { type RuleMetric, type RuleStats, ruleStatNames } from './rule-stats.ts';
import {
  DomainSlots,
  type GaugeJoin,
  Role,
  type SlotKind,
  type SlotName,
  SlotTable,
  SortedNames,
} from './slot-table.ts';

/** Durations by name; what is recorded goes to the listeners at once and is kept nowhere. */
export interface Timer {
  /** Without tags. */
  readonly name: string;
  /** Counts up from 0 over all timers. */
  readonly index: number;
  record(value: number): void;
}

export type TimerListener = (timer: Timer, value: number) => void;

// All statistics of the process. A counter is a slot of one array: anyone who counts holds the slot's number, and
// adding is one array access. Sinks read the slots; names are put together only when something is written out.

export type { GaugeJoin, SlotKind, SlotName } from './slot-table.ts';

export interface StatsRegistryOptions {
  /** Of all names, none by default. */
  extraTags?: Tags;
  /** Metric keys made of values of requests that are kept at most. Defaults to 5,000. */
  maxDetailedMetrics?: number;
  /** Whether rules have the statistic of leases. False by default. */
  countsLeases?: boolean;
  /** Bound of what names of rules may occupy; further ones are counted together. Defaults to 128 MiB. */
  maxRuleNameBytes?: number;
  /** Bound for the names of unknown domains. Defaults to 4 MiB. */
  maxDomainNameBytes?: number;
  /**
   * For a registry that another thread reads: the values are kept in shared memory. Slots of metrics that leave wait
   * for `reuseSlots`.
   */
  shared?: {
    /** Called with each array that takes the place of another. */
    onValues(values: Float64Array<SharedArrayBuffer>): void;
    /** A metric is in slots that another one left. */
    onReuse(slot: number): void;
  };
}

export class StatsRegistry implements RuleStats, StatsSource {
  /** Slots of a rule: `RuleStat`, and where leases are counted `leasedHitsStat`. */
  readonly ruleStatCount: number;
  #values: Float64Array;
  readonly #table: SlotTable;
  /** Of everything but rules, by name and own tags. */
  readonly #slots = new Map<string, number>();
  readonly #domains: DomainSlots;
  readonly #rules: RuleMetrics;
  readonly #readers: { slot: number; read: () => number }[] = [];
  readonly #sorted: SortedNames;
  readonly #timers = new Map<string, Timer>();
  readonly #timerListeners: TimerListener[] = [];
  readonly #leaveListeners: ((first: number, count: number) => void)[] = [];
  readonly #shared: StatsRegistryOptions['shared'];
  #readOthers: () => Promise<void> = () => Promise.resolve();

  constructor(options: StatsRegistryOptions = {}) {
    this.ruleStatCount = ruleStatNames.length + (options.countsLeases === true ? 1 : 0);
    this.#shared = options.shared;
    this.#table = new SlotTable(options.extraTags ?? noTags);
    this.#sorted = new SortedNames(this.#table);
    this.#domains = new DomainSlots(
      options.maxDomainNameBytes ?? 4 * 1024 * 1024,
      (name) => this.#slots.get(name) ?? this.#addSlot(name, Role.domain, noTags),
    );
    this.#values = this.#moved(new Float64Array(0), 1024);
    this.#rules = new RuleMetrics({
      maxDetailed: options.maxDetailedMetrics ?? 5_000,
      maxNameBytes: options.maxRuleNameBytes ?? 128 * 1024 * 1024,
      reuseAtOnce: options.shared === undefined,
      addSlots: (name) => this.#addRule(name),
      leaveSlots: (first) => this.#leave(first, this.ruleStatCount),
      reuseSlots: (first, name) => this.#reuseRule(first, name),
    });
  }

  get slotCount(): number {
    return this.#table.count;
  }

  get extraTags(): Tags {
    return this.#table.extraTags;
  }

  get extraTagsSuffix(): string {
    return this.#table.extraTagsSuffix;
  }

  /** Metrics made of values of requests: how many there are, and how many left for others. */
  get detailed(): { readonly size: number; readonly left: number } {
    return this.#rules;
  }

  /** Each time that such a metric finds no room and is counted in the overflow. */
  onRefused(listener: () => void): void {
    this.#rules.onRefused = listener;
  }

  /** Slot of the counter of this name, which is made at the first call. The name is used as it is. */
  counter(name: string, tags: Tags = noTags): number {
    return this.#slots.get(name + tagsSuffix(tags)) ?? this.#addSlot(name, Role.counter, tags);
  }

  /** The value of a counter or gauge, as of the last `refresh`; undefined where there is none of this name. */
  valueNamed(name: string, tags: Tags = noTags): number | undefined {
    const slot = this.#slots.get(name + tagsSuffix(tags));
    return slot === undefined ? undefined : this.valueOf(slot);
  }

  /** The first slot of a metric key, of rules alone; undefined where nothing was counted for it yet. */
  slotOfRule(metricKey: string): number | undefined {
    return this.#rules.find(metricKey)?.slot;
  }

  /** Metrics made of values of requests that are kept now. */
  detailedMetrics(): Iterable<RuleMetric> {
    return this.#rules.detailed.all();
  }

  /** A counter that something else keeps: `read` gives its total so far. */
  counterFrom(name: string, read: () => number): void {
    this.#readers.push({ slot: this.counter(name), read });
  }

  /** `join`: what becomes of it where several threads have it. */
  gauge(name: string, read: () => number, join: GaugeJoin = 'sum'): void {
    const slot = this.#gaugeSlot(name, noTags);
    this.#readers.push({ slot, read });
    if (join !== 'sum') this.#table.joins.set(slot, join);
  }

  /** A gauge of which other threads may have their parts: the sum is shown. */
  gaugePart(name: string, read: () => number): void {
    const slot = this.#gaugeSlot(name, noTags);
    let last = 0;
    this.#readers.push({
      slot,
      read: () => {
        const before = last;
        last = read();
        return (this.#values[slot] as number) + last - before;
      },
    });
  }

  /** A gauge that is always 1, for what its tags say. Returns what changes them. */
  info(name: string, tags: Tags): (tags: Tags) => void {
    const slot = this.#addSlot(name, Role.gauge, tags);
    this.#values[slot] = 1;
    return (changed) => {
      this.#leave(slot, 1);
      this.#table.enter(slot, name, changed);
      this.#sorted.add(slot);
      this.#values[slot] = 1;
    };
  }

  /** Made at the first call. */
  timer(name: string): Timer {
    const known = this.#timers.get(name);
    if (known !== undefined) return known;
    const listeners = this.#timerListeners;
    const timer: Timer = {
      name,
      index: this.#timers.size,
      record(value) {
        for (let i = 0; i < listeners.length; i += 1) (listeners[i] as TimerListener)(timer, value);
      },
    };
    this.#timers.set(name, timer);
    return timer;
  }

  /** By index, from `first` on. */
  timerNames(first: number): string[] {
    return [...this.#timers.keys()].slice(first);
  }

  onTimer(listener: TimerListener): void {
    this.#timerListeners.push(listener);
  }

  onLeave(listener: (first: number, count: number) => void): void {
    this.#leaveListeners.push(listener);
  }

  add(slot: number, amount: number): void {
    this.#values[slot]! += amount;
  }

  ruleMetric(metricKey: string, perValue: boolean): RuleMetric {
    return this.#rules.metric(metricKey, perValue);
  }

  slotOf(metric: RuleMetric): number {
    return metric.lastUse < this.#rules.detailed.period ? this.#rules.slotInUse(metric) : metric.slot;
  }

  /** Metrics made of values of requests that were not used since the call before are idle: their place may be needed. */
  nextPeriod(): void {
    this.#rules.detailed.period += 1;
  }

  domainNotFound(domain: string): void {
    this.add(this.#domains.slotOf(domain), 1);
  }

  nameOf(slot: number): string {
    return this.#table.nameOf(slot);
  }

  plainNameOf(slot: number): string {
    return this.#table.plainNameOf(slot);
  }

  tagsOf(slot: number): Tags {
    return this.#table.tagsOf(slot);
  }

  kindOf(slot: number): SlotKind {
    return this.#table.kindOf(slot);
  }

  generationOf(slot: number): number {
    return this.#table.generationOf(slot);
  }

  /** Of the slots from `first` on, which begins a name, in their order. */
  slotNames(first: number): SlotName[] {
    const names: SlotName[] = [];
    for (let slot = first; slot < this.slotCount; slot += 1) {
      const name = this.slotNameAt(slot);
      if (name !== undefined) names.push(name);
    }
    return names;
  }

  /** Undefined behind the first slot of a metric key. */
  slotNameAt(slot: number): SlotName | undefined {
    const role = this.#table.roleOf(slot);
    const name = this.#table.givenNameOf(slot);
    const tags = this.#table.ownTagsOf(slot);
    if (role === Role.gauge) return { kind: 'gauge', name, tags, join: this.#table.joins.get(slot) };
    if (role === Role.counter) return { kind: 'counter', name, tags };
    if (role === Role.domain) return { kind: 'domain', name };
    if (role > 0) return undefined;
    return { kind: this.#rules.isDetailed(slot) ? 'detailed' : 'rule', name };
  }

  /** The slot of what another registry has under this name; made here, within the bounds of names, if need be. */
  slotNamed({ kind, name, tags = noTags }: Exclude<SlotName, { kind: 'rule' | 'detailed' }>): number {
    if (kind === 'counter') return this.counter(name, tags);
    if (kind === 'gauge') return this.#gaugeSlot(name, tags);
    return this.#slots.get(name) ?? this.#domains.slotNamed(name);
  }

  /** As `ruleMetric`, for a name that is sanitised already. */
  metricNamed({ kind, name }: SlotName): RuleMetric {
    return this.#rules.metricNamed(name, kind === 'detailed');
  }

  /** Another thread has read the last values of the oldest `count` of the metrics that left, and forgot their slots. */
  reuseSlots(count: number): void {
    this.#rules.reuse(count);
  }

  /** The value as of the last `refresh` for what is read from elsewhere; always current for the rest. */
  valueOf(slot: number): number {
    return this.#values[slot] as number;
  }

  /** Reads the gauges and the counters that are kept elsewhere. */
  refresh(): void {
    for (const { slot, read } of this.#readers) this.#values[slot] = read();
  }

  /** `read` adds what other threads counted; it must not reject. */
  readOthersBy(read: () => Promise<void>): void {
    this.#readOthers = read;
  }

  async refreshAll(): Promise<void> {
    await this.#readOthers();
    this.refresh();
  }

  /** `<name>: <value>` for every counter and gauge, by name. Lazy, so that a writer can pause between lines. */
  *statsLines(): Generator<string> {
    this.refresh();
    for (const slot of this.#sorted.slots()) yield `${this.nameOf(slot)}: ${this.valueOf(slot)}`;
  }

  #gaugeSlot(name: string, tags: Tags): number {
    return this.#slots.get(name + tagsSuffix(tags)) ?? this.#addSlot(name, Role.gauge, tags);
  }

  #addSlot(name: string, role: number, tags: Tags): number {
    const slot = this.#push(name, role, tags);
    this.#slots.set(name + tagsSuffix(tags), slot);
    this.#sorted.add(slot);
    return slot;
  }

  #addRule(name: string): number {
    const first = this.slotCount;
    for (let role = 0; role < this.ruleStatCount; role += 1) this.#push(role === 0 ? name : '', role, noTags);
    for (let slot = first; slot < this.slotCount; slot += 1) this.#sorted.add(slot);
    return first;
  }

  #leave(first: number, count: number): void {
    for (const listener of this.#leaveListeners) listener(first, count);
    for (let slot = first; slot < first + count; slot += 1) {
      this.#table.leave(slot);
      this.#sorted.remove();
    }
  }

  #reuseRule(first: number, name: string): void {
    for (let role = 0; role < this.ruleStatCount; role += 1) {
      this.#values[first + role] = 0;
      this.#table.enter(first + role, role === 0 ? name : '');
      this.#sorted.add(first + role);
    }
    this.#shared?.onReuse(first);
  }

  #push(name: string, role: number, tags: Tags): number {
    const slot = this.#table.push(name, role, tags);
    if (slot === this.#values.length) this.#values = this.#moved(this.#values, slot * 2);
    return slot;
  }

  #moved(from: Float64Array, length: number): Float64Array {
    if (this.#shared === undefined) {
      const values = new Float64Array(length);
      values.set(from);
      return values;
    }
    const values = new Float64Array(new SharedArrayBuffer(length * Float64Array.BYTES_PER_ELEMENT));
    values.set(from);
    this.#shared.onValues(values);
    return values;
  }
}

/**
 * The statistics of the whole process as sinks read them: those of worker threads are in it. A sink walks the slots
 * from 0 to `slotCount`; what it keeps of a slot it keeps together with the slot's generation.
 */
export interface StatsSource {
  /** Brings every value up to date, those of other threads too; settles within about a second, never rejects. */
  refreshAll(): Promise<void>;
  /** Only grows. */
  readonly slotCount: number;
  /** 0 while the slot stands for nothing; another number than before when it stands for another name. */
  generationOf(slot: number): number;
  kindOf(slot: number): SlotKind;
  /** A counter's total so far, or a gauge. */
  valueOf(slot: number): number;
  /** The name with all tags in it, as statsd and /stats have them. */
  nameOf(slot: number): string;
  /** The name alone. */
  plainNameOf(slot: number): string;
  /** Its own tags and EXTRA_TAGS, by key. */
  tagsOf(slot: number): Tags;
  /** EXTRA_TAGS, which all timers have. */
  readonly extraTags: Tags;
  /** The same as a name has them at its end: `.__a=1.__b=2`, or nothing. */
  readonly extraTagsSuffix: string;
  /** Everything timed from now on, in bulk where other threads timed it. */
  onTimer(listener: TimerListener): void;
  /**
   * Called before `count` slots from `first` on stand for nothing: the last moment to read them. Their metric was idle,
   * and its place is needed.
   */
  onLeave(listener: (first: number, count: number) => void): void;
}
