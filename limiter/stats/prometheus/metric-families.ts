/**
 * The metrics that are served, by name. A name has one type, whoever comes first: what would give it another one, or
 * would look like a part of a histogram or summary, is left out, as Prometheus would refuse the whole answer.
 */
import type { Observer } from './observer.ts';
import type { ValueSeries } from './value-series.ts';

export type MetricType = 'counter' | 'gauge' | 'histogram' | 'summary';

export interface ObserverSeries {
  readonly labels: string;
  readonly observer: Observer;
  readonly ttlMs: number;
  observedMs: number;
}

export interface MetricFamily {
  readonly name: string;
  readonly type: MetricType;
  readonly help: string;
  /** By the text of their labels. A family has one of the two. */
  readonly values: Map<string, ValueSeries>;
  readonly observers: Map<string, ObserverSeries>;
}

const partSuffixes = ['_bucket', '_sum', '_count'];

export class MetricFamilies {
  readonly #families = new Map<string, MetricFamily>();
  readonly #reserved: ReadonlySet<string>;

  /** `reserved` names are served by somebody else. */
  constructor(reserved: ReadonlySet<string> = new Set()) {
    this.#reserved = reserved;
  }

  all(): Iterable<MetricFamily> {
    return this.#families.values();
  }

  /** Undefined where the name is taken for something else. */
  claim(name: string, type: MetricType, help: string): MetricFamily | undefined {
    const known = this.#families.get(name);
    if (known !== undefined) return known.type === type ? known : undefined;
    if (this.#isTaken(name, type)) return undefined;
    const family: MetricFamily = { name, type, help, values: new Map(), observers: new Map() };
    this.#families.set(name, family);
    return family;
  }

  /** Forgets a name that nothing is served under any more. Not while an answer is written. */
  release(family: MetricFamily): void {
    if (family.values.size === 0 && family.observers.size === 0) this.#families.delete(family.name);
  }

  #isTaken(name: string, type: MetricType): boolean {
    if (this.#reserved.has(name)) return true;
    const hasParts = type === 'histogram' || type === 'summary';
    if (hasParts && partSuffixes.some((suffix) => this.#families.has(name + suffix))) return true;
    return partSuffixes.some((suffix) => {
      const whole = name.endsWith(suffix) ? this.#families.get(name.slice(0, -suffix.length)) : undefined;
      return whole?.type === 'histogram' || whole?.type === 'summary';
    });
  }
}
