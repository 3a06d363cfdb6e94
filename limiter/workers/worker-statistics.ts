/**
 * One worker's statistics as a part of those of the process. Counters and most gauges are sums over all workers: changes since the last
 * merge are added to the slot of the same name in the process's registry. The other gauges are joined.
 */
import type { RuleMetric } from '../stats/registry/rule-stats.ts';
import type { GaugeJoin, SlotName } from '../stats/registry/slot-table.ts';
import type { StatsRegistry, Timer } from '../stats/registry/stats-registry.ts';

export class WorkerStatistics {
  readonly #registry: StatsRegistry;
  readonly #joined: JoinedGauges;
  #values: Float64Array = new Float64Array(0);
  /** The process's slots by the worker's slot; for a metric, -1 minus the offset in it. */
  #slots = new Int32Array(1024);
  /** Metrics by the worker's first slot. A slot that a metric left has none. */
  readonly #metrics = new Map<number, RuleMetric>();
  /** Gauges that are not sums, by the worker's slot. */
  readonly #joins = new Map<number, GaugeJoin>();
  #slotCount = 0;
  /** The values that were added already, by the worker's slot. */
  #added = new Float64Array(1024);
  readonly #timers: Timer[] = [];

  /** `joined` is shared by all workers. */
  constructor(registry: StatsRegistry, joined: JoinedGauges) {
    this.#registry = registry;
    this.#joined = joined;
  }

  /** Sets the memory in which the worker counts from now on. */
  useValues(values: Float64Array): void {
    this.#values = values;
  }

  addNames(names: readonly SlotName[]): void {
    for (const name of names) {
      const { kind } = name;
      if (kind === 'rule' || kind === 'detailed') {
        this.#metrics.set(this.#slotCount, this.#registry.metricNamed(name));
        for (let offset = 0; offset < this.#registry.ruleStatCount; offset += 1) this.#push(-1 - offset);
      } else {
        if (name.join !== undefined) this.#joins.set(this.#slotCount, name.join);
        this.#push(this.#registry.slotNamed({ ...name, kind }));
      }
    }
  }

  /** Called when metrics have taken slots that others left. */
  reuse(slots: readonly { slot: number; name: SlotName }[]): void {
    for (const { slot, name } of slots) {
      this.#added.fill(0, slot, slot + this.#registry.ruleStatCount);
      this.#metrics.set(slot, this.#registry.metricNamed(name));
    }
  }

  /** Called when metrics have left these first slots, with their last values. */
  leave(slots: readonly number[]): void {
    for (const slot of slots) {
      for (let offset = 0; offset < this.#registry.ruleStatCount; offset += 1) this.#mergeSlot(slot + offset);
      this.#metrics.delete(slot);
    }
  }

  record(names: readonly string[], pairs: Float64Array): void {
    for (const name of names) this.#timers.push(this.#registry.timer(name));
    for (let at = 0; at < pairs.length; at += 2) this.#timers[pairs[at]!]!.record(pairs[at + 1]!);
    this.#registry.passDurations();
  }

  merge(): void {
    for (let slot = 0; slot < this.#slotCount; slot += 1) this.#mergeSlot(slot);
  }

  #mergeSlot(slot: number): void {
    const value = this.#values[slot]!;
    const join = this.#joins.get(slot);
    if (join !== undefined) {
      this.#joined.set(this.#slots[slot]!, join, this, value);
      return;
    }
    const change = value - this.#added[slot]!;
    if (change === 0) return;
    const ours = this.#slotFor(slot);
    if (ours === undefined) return;
    this.#registry.add(ours, change);
    this.#added[slot] = value;
  }

  #slotFor(slot: number): number | undefined {
    const ours = this.#slots[slot]!;
    if (ours >= 0) return ours;
    const offset = -1 - ours;
    const metric = this.#metrics.get(slot - offset);
    return metric === undefined ? undefined : this.#registry.slotOf(metric) + offset;
  }

  /** Called when the worker has ended: its counts stay, and its gauges are removed. */
  end(): void {
    this.merge();
    for (let slot = 0; slot < this.#slotCount; slot += 1) {
      const ours = this.#slots[slot]!;
      const join = this.#joins.get(slot);
      if (join !== undefined) this.#joined.remove(ours, join, this);
      else if (ours >= 0 && this.#registry.kindOf(ours) === 'gauge')
        this.#registry.add(ours, -this.#added[slot]!);
    }
    this.#slotCount = 0;
  }

  #push(slot: number): void {
    if (this.#slotCount === this.#slots.length) this.#grow();
    this.#slots[this.#slotCount++] = slot;
  }

  #grow(): void {
    const slots = new Int32Array(this.#slots.length * 2);
    slots.set(this.#slots);
    this.#slots = slots;
    const added = new Float64Array(slots.length);
    added.set(this.#added);
    this.#added = added;
  }
}

/** Gauges of the process that are the largest or the smallest of the workers' current values, not the sum. */
export class JoinedGauges {
  readonly #registry: StatsRegistry;
  /** Values by slot, then by worker. */
  readonly #parts = new Map<number, Map<object, number>>();

  constructor(registry: StatsRegistry) {
    this.#registry = registry;
  }

  /** Sets the current value of `worker`. */
  set(slot: number, join: GaugeJoin, worker: object, value: number): void {
    let parts = this.#parts.get(slot);
    if (parts === undefined) {
      parts = new Map();
      this.#parts.set(slot, parts);
    }
    parts.set(worker, value);
    this.#show(slot, join, parts);
  }

  /** Removes the value of `worker`. */
  remove(slot: number, join: GaugeJoin, worker: object): void {
    const parts = this.#parts.get(slot);
    if (parts?.delete(worker)) this.#show(slot, join, parts);
  }

  #show(slot: number, join: GaugeJoin, parts: ReadonlyMap<object, number>): void {
    const values = [...parts.values()];
    const joined = values.length === 0 ? 0 : join === 'max' ? Math.max(...values) : Math.min(...values);
    this.#registry.add(slot, joined - this.#registry.valueOf(slot));
  }
}
