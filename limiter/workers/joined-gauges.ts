/** Gauges of the process that are not the sum of those of its workers: the largest or the smallest of what they have now. */
import type { GaugeJoin } from '../stats/registry/slot-table.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';

export class JoinedGauges {
  readonly #registry: StatsRegistry;
  /** By slot, then by worker. */
  readonly #parts = new Map<number, Map<object, number>>();

  constructor(registry: StatsRegistry) {
    this.#registry = registry;
  }

  /** What `worker` has now. */
  set(slot: number, join: GaugeJoin, worker: object, value: number): void {
    let parts = this.#parts.get(slot);
    if (parts === undefined) {
      parts = new Map();
      this.#parts.set(slot, parts);
    }
    parts.set(worker, value);
    this.#show(slot, join, parts);
  }

  /** `worker` has nothing any more. */
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
