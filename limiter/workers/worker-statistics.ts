/**
 * One worker's statistics as a part of those of the process. Counters and gauges are sums over all workers: what
 * changed since the last look is added to the slot of the same name in the process's registry.
 */
import { ruleStatNames } from '../stats/rule-stats.ts';
import type { SlotName, StatsRegistry, Timer } from '../stats/stats-registry.ts';

export class WorkerStatistics {
  readonly #registry: StatsRegistry;
  #values: Float64Array = new Float64Array(0);
  /** By the worker's slot. */
  #slots = new Int32Array(1024);
  #slotCount = 0;
  /** What was added already, by the worker's slot. */
  #added = new Float64Array(1024);
  readonly #timers: Timer[] = [];

  constructor(registry: StatsRegistry) {
    this.#registry = registry;
  }

  /** Where the worker counts from now on. */
  useValues(values: Float64Array): void {
    this.#values = values;
  }

  addNames(names: readonly SlotName[]): void {
    for (const name of names) {
      const first = this.#registry.slotOf(name);
      const slots = name.kind === 'rule' ? ruleStatNames.length : 1;
      for (let offset = 0; offset < slots; offset += 1) this.#push(first + offset);
    }
  }

  record(names: readonly string[], pairs: Float64Array): void {
    for (const name of names) this.#timers.push(this.#registry.timer(name));
    for (let at = 0; at < pairs.length; at += 2) this.#timers[pairs[at]!]!.record(pairs[at + 1]!);
  }

  merge(): void {
    for (let slot = 0; slot < this.#slotCount; slot += 1) {
      const value = this.#values[slot]!;
      const change = value - this.#added[slot]!;
      if (change === 0) continue;
      this.#registry.add(this.#slots[slot]!, change);
      this.#added[slot] = value;
    }
  }

  /** The worker is no more: what it counted stays counted, what it had is gone. */
  end(): void {
    this.merge();
    for (let slot = 0; slot < this.#slotCount; slot += 1) {
      const ours = this.#slots[slot]!;
      if (this.#registry.kindOf(ours) === 'gauge') this.#registry.add(ours, -this.#added[slot]!);
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
