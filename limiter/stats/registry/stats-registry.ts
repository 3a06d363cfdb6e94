import { RuleMetrics } from './rule-metrics.ts';
import { type RuleMetric, type RuleStats, ruleStatNames } from './rule-stats.ts';
import { DomainSlots, type GaugeJoin, Role, type SlotName, SlotTable, SortedNames } from './slot-table.ts';
import { noTags, type Tags, tagsSuffix } from './tags.ts';

/** Durations by name. */
export interface Timer {
  /** The name without tags. */
  readonly name: string;
  /** The number of the timer, from 0 over all timers. */
  readonly index: number;
  record(value: number): void;
}

interface OpenTimer extends Timer {
  readonly shown: ((value: number) => number) | undefined;
}

export interface TimerOptions {
  /** The slot of a counter of the durations. Defaults to none. */
  counter?: number;
  /** Called for each duration before the listeners, which get its result. Defaults to none: they get the duration. */
  shown?: (value: number) => number;
}

/** `pairs`: the index of a timer, and a value; valid until this returns. */
export type DurationsListener = (pairs: Float64Array) => void;

/** Chosen: the most durations that are gathered. Sinks write so many in a fraction of a millisecond. */
const maxDurations = 256;

// All statistics of the process. A counter is a slot of one array: code that counts holds the slot's number, and adding is one array
// access. Sinks read the slots; names are built only for output.

export interface StatsRegistryOptions {
  /** Tags of all names, none by default. */
  extraTags?: Tags;
  /** The most metrics made of values of requests. Defaults to 5,000. */
  maxDetailedMetrics?: number;
  /** Whether rules have the statistic of leases. Defaults to false. */
  countsLeases?: boolean;
  /** The memory for names of rules. Further ones are counted together. Defaults to 128 MiB. */
  maxRuleNameBytes?: number;
  /** The memory for names of unknown domains. Defaults to 4 MiB. */
  maxDomainNameBytes?: number;
  /** For a registry that another thread reads: values are in shared memory, and slots of metrics that left wait for `reuseSlots`. */
  shared?: {
    /** Called with each array that replaces another. */
    onValues(values: Float64Array<SharedArrayBuffer>): void;
    /** Called when a metric got slots that another one left. */
    onReuse(slot: number): void;
  };
}

export class StatsRegistry extends SlotTable implements RuleStats {
  /** The slots of a rule: those of `RuleStat`, and `leasedHitsStat` if leases are counted. */
  readonly ruleStatCount: number;
  #values: Float64Array;
  /** Slots of everything except rules, by name and own tags. */
  readonly #slots = new Map<string, number>();
  readonly #domains: DomainSlots;
  readonly #rules: RuleMetrics;
  readonly #readers: { slot: number; read: () => number }[] = [];
  readonly #sorted = new SortedNames(this);
  readonly #timers = new Map<string, OpenTimer>();
  readonly #durationsListeners: DurationsListener[] = [];
  /** Pairs of the index of a timer and a value, which the listeners do not have yet. */
  readonly #durations = new Float64Array(2 * maxDurations);
  #durationWords = 0;
  readonly #leaveListeners: ((first: number, count: number) => void)[] = [];
  readonly #shared: StatsRegistryOptions['shared'];
  #readOthers: () => Promise<void> = () => Promise.resolve();

  constructor(options: StatsRegistryOptions = {}) {
    super(options.extraTags ?? noTags);
    this.ruleStatCount = ruleStatNames.length + (options.countsLeases === true ? 1 : 0);
    this.#shared = options.shared;
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

  /** Metrics made of values of requests: their number, and how many were replaced. */
  get detailed(): { readonly size: number; readonly left: number } {
    return this.#rules;
  }

  /** Calls `listener` each time such a metric finds no room and is counted in the overflow. */
  onRejected(listener: () => void): void {
    this.#rules.onRejected = listener;
  }

  /** Returns the slot of the counter of this name, which the first call creates. The name is used unchanged. */
  counter(name: string, tags: Tags = noTags): number {
    return this.#slots.get(name + tagsSuffix(tags)) ?? this.#addSlot(name, Role.counter, tags);
  }

  /** Returns a function that adds to the counter of this name, by default 1. The counter exists from now on. */
  counting(name: string, tags: Tags = noTags): (amount?: number) => void {
    const slot = this.counter(name, tags);
    return (amount = 1) => this.add(slot, amount);
  }

  /** The same for the counters of each value of a tag, with further tags. */
  countingBy<Value extends string>(
    name: string,
    tag: string,
    values: readonly Value[],
    further: Tags = noTags,
  ): (value: Value, amount?: number) => void {
    const slots = new Map(values.map((value) => [value, this.counter(name, [...further, [tag, value]])]));
    return (value, amount = 1) => this.add(slots.get(value)!, amount);
  }

  /** The value of a counter or gauge at the last `refresh`; undefined if the name does not exist. */
  valueNamed(name: string, tags: Tags = noTags): number | undefined {
    const slot = this.#slots.get(name + tagsSuffix(tags));
    return slot === undefined ? undefined : this.valueOf(slot);
  }

  /** The first slot of a metric key of a rule; undefined if nothing was counted for it yet. */
  slotOfRule(metricKey: string): number | undefined {
    return this.#rules.find(metricKey)?.slot;
  }

  /** The current metrics made of values of requests. */
  detailedMetrics(): Iterable<RuleMetric> {
    return this.#rules.detailed.all();
  }

  /** Adds a counter whose value is stored elsewhere: `read` returns its current total. */
  counterFrom(name: string, read: () => number): void {
    this.#readers.push({ slot: this.counter(name), read });
  }

  /** `join`: how the gauges of several threads are joined. */
  gauge(name: string, read: () => number, join: GaugeJoin = 'sum'): void {
    const slot = this.#gaugeSlot(name, noTags);
    this.#readers.push({ slot, read });
    if (join !== 'sum') this.joins.set(slot, join);
  }

  /** Adds a gauge that is the sum of parts, some of which other threads may have. */
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

  /** Adds a gauge that is always 1 and carries information in its tags. Returns a function that changes them. */
  info(name: string, tags: Tags): (tags: Tags) => void {
    const slot = this.#addSlot(name, Role.gauge, tags);
    this.#values[slot] = 1;
    return (changed) => {
      this.#leave(slot, 1);
      this.enter(slot, name, changed);
      this.#sorted.add(slot);
      this.#values[slot] = 1;
    };
  }

  /** Returns the timer of this name, which the first call creates with these options. */
  timer(name: string, { counter, shown }: TimerOptions = {}): Timer {
    const known = this.#timers.get(name);
    if (known !== undefined) return known;
    const index = this.#timers.size;
    const durations = this.#durations;
    const timer: OpenTimer = {
      name,
      index,
      shown,
      record: (value) => {
        if (counter !== undefined) this.#values[counter]! += 1;
        durations[this.#durationWords] = index;
        durations[this.#durationWords + 1] = value;
        this.#durationWords += 2;
        if (this.#durationWords === durations.length) this.passDurations();
      },
    };
    this.#timers.set(name, timer);
    return timer;
  }

  /** The names of timers by index, from `first` on. */
  timerNames(first: number): string[] {
    return [...this.#timers.keys()].slice(first);
  }

  /** Calls `listener` for the durations that were recorded until `passDurations`, and whenever there are many. */
  onDurations(listener: DurationsListener): void {
    this.#durationsListeners.push(listener);
  }

  /** Does the same for each duration. */
  onTimer(listener: (timer: Timer, value: number) => void): void {
    this.onDurations((pairs) => {
      const timers = [...this.#timers.values()];
      for (let at = 0; at < pairs.length; at += 2) listener(timers[pairs[at]!]!, pairs[at + 1]!);
    });
  }

  /** Passes the recorded durations to the listeners. Sinks call it every second, and `refresh` does. */
  passDurations(): void {
    if (this.#durationWords === 0) return;
    const pairs = this.#durations.subarray(0, this.#durationWords);
    this.#durationWords = 0;
    const timers = [...this.#timers.values()];
    for (let at = 0; at < pairs.length; at += 2) {
      const { shown } = timers[pairs[at]!]!;
      if (shown !== undefined) pairs[at + 1] = shown(pairs[at + 1]!);
    }
    for (const listener of this.#durationsListeners) listener(pairs);
  }

  /**
   * Calls `listener` before the `count` slots from `first` on lose their name, so that their values can still be read. Their metric was
   * idle, and its slots are needed.
   */
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

  /** Starts a period. Metrics made of values of requests that were not used since the last call are idle and may be replaced. */
  nextPeriod(): void {
    this.#rules.detailed.period += 1;
  }

  domainNotFound(domain: string): void {
    this.add(this.#domains.slotOf(domain), 1);
  }

  /** The names of the slots from `first` on, which must be the first slot of a name. */
  slotNames(first: number): SlotName[] {
    const names: SlotName[] = [];
    for (let slot = first; slot < this.slotCount; slot += 1) {
      const name = this.slotNameAt(slot);
      if (name !== undefined) names.push(name);
    }
    return names;
  }

  /** Undefined for slots after the first of a metric key. */
  slotNameAt(slot: number): SlotName | undefined {
    const role = this.roleOf(slot);
    const name = this.givenNameOf(slot);
    const tags = this.ownTagsOf(slot);
    if (role === Role.gauge) return { kind: 'gauge', name, tags, join: this.joins.get(slot) };
    if (role === Role.counter) return { kind: 'counter', name, tags };
    if (role === Role.domain) return { kind: 'domain', name };
    if (role > 0) return undefined;
    return { kind: this.#rules.isDetailed(slot) ? 'detailed' : 'rule', name };
  }

  /** Returns the slot of a name from another registry, which is added here if needed, within the bounds of names. */
  slotNamed({ kind, name, tags = noTags }: Exclude<SlotName, { kind: 'rule' | 'detailed' }>): number {
    if (kind === 'counter') return this.counter(name, tags);
    if (kind === 'gauge') return this.#gaugeSlot(name, tags);
    return this.#slots.get(name) ?? this.#domains.slotNamed(name);
  }

  /** The same as `ruleMetric`, for a name that is already sanitized. */
  metricNamed({ kind, name }: SlotName): RuleMetric {
    return this.#rules.metricNamed(name, kind === 'detailed');
  }

  /**
   * Called when another thread has read the last values of the oldest `count` of the metrics that left, and has forgotten their slots.
   */
  reuseSlots(count: number): void {
    this.#rules.reuse(count);
  }

  /**
   * The total of a counter so far, or the value of a gauge. For statistics that are stored elsewhere, it is that of the last `refresh`.
   */
  override valueOf(slot: number): number {
    return this.#values[slot] as number;
  }

  /** Reads the gauges, and the counters that are stored elsewhere, and passes on the durations. */
  refresh(): void {
    this.passDurations();
    for (const { slot, read } of this.#readers) this.#values[slot] = read();
  }

  /** `read` adds the counts of other threads; it must not reject. */
  readOthersBy(read: () => Promise<void>): void {
    this.#readOthers = read;
  }

  /** Updates every value, including those of other threads. Resolves within about a second and never rejects. */
  async refreshAll(): Promise<void> {
    await this.#readOthers();
    this.refresh();
  }

  /** Returns `<name>: <value>` for every counter and gauge, by name. It is lazy, so that a writer can pause between lines. */
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
      this.leave(slot);
      this.#sorted.remove();
    }
  }

  #reuseRule(first: number, name: string): void {
    for (let role = 0; role < this.ruleStatCount; role += 1) {
      this.#values[first + role] = 0;
      this.enter(first + role, role === 0 ? name : '');
      this.#sorted.add(first + role);
    }
    this.#shared?.onReuse(first);
  }

  #push(name: string, role: number, tags: Tags): number {
    const slot = this.push(name, role, tags);
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
 * The statistics of the whole process for sinks, including those of worker threads. A sink iterates over the slots from 0 to
 * `slotCount`, and stores its data of a slot together with the slot's generation.
 */
export type StatsSource = Pick<
  StatsRegistry,
  | 'refreshAll'
  | 'slotCount'
  | 'generationOf'
  | 'kindOf'
  | 'valueOf'
  | 'nameOf'
  | 'plainNameOf'
  | 'tagsOf'
  | 'extraTags'
  | 'extraTagsSuffix'
  | 'onTimer'
  | 'passDurations'
  | 'onLeave'
>;
