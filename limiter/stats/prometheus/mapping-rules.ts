/** A metric's name and labels, and the storage of its values. */
export interface MappedMetric {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  /** False if no rule matched. */
  readonly isMapped: boolean;
  readonly honorLabels: boolean;
  readonly help: string | undefined;
  readonly scale: number;
  readonly ttlMs: number;
  readonly observer: ObserverOptions;
}

// A parsed mapping from statistics to Prometheus metrics, in the language of statsd_exporter.

export type StatKind = 'counter' | 'gauge' | 'observer';

export interface HistogramOptions {
  readonly type: 'histogram';
  /** Upper bounds, ascending, without +Inf. */
  readonly buckets: readonly number[];
}

export interface SummaryOptions {
  readonly type: 'summary';
  readonly quantiles: readonly number[];
  /** The time for which observations count for quantiles. */
  readonly maxAgeMs: number;
  /** The number of steps in which observations are forgotten. */
  readonly ageBuckets: number;
}

export type ObserverOptions = HistogramOptions | SummaryOptions;

export interface MappingRule {
  readonly matchType: 'glob' | 'regex';
  readonly match: string;
  /** Undefined: any kind. */
  readonly kind: StatKind | undefined;
  readonly action: 'map' | 'drop';
  /** A template that may refer to the match, like the values of labels. */
  readonly name: string;
  readonly labels: readonly (readonly [name: string, value: string])[];
  /** Whether EXTRA_TAGS take precedence over `labels` of the same name. */
  readonly honorLabels: boolean;
  readonly help: string | undefined;
  readonly scale: number;
  /** A series that does not change for this time is omitted; 0: never. */
  readonly ttlMs: number;
  /** The storage of timers. */
  readonly observer: ObserverOptions;
}

export interface Mapping {
  readonly rules: readonly MappingRule[];
  /** Whether the most specific glob wins instead of the first one. */
  readonly globDisableOrdering: boolean;
  /** The storage of statistics that no rule matches. */
  readonly unmapped: { readonly observer: ObserverOptions; readonly ttlMs: number };
}

export const defaultBuckets: readonly number[] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export const defaultSummary: SummaryOptions = {
  type: 'summary',
  quantiles: [0.5, 0.9, 0.99],
  maxAgeMs: 10 * 60_000,
  ageBuckets: 5,
};

// A template that refers to a match: `$1`, `${1}`, `${name}`; `$$` is a dollar sign.

/** Returns the text for a number or a name; undefined if it matched nothing or does not exist. */
export type Captured = (reference: string) => string | undefined;

// As in Go, the longest name counts: `$1_total` refers to `1_total`, which never exists.
const reference = /\$(?:\{(\w+)\}|(\w+)|(\$))/g;

export class Template {
  /** Texts and references, alternating. */
  readonly #parts: string[] = [];

  constructor(text: string) {
    let end = 0;
    let before = '';
    for (const match of text.matchAll(reference)) {
      before += text.slice(end, match.index);
      end = match.index + match[0].length;
      if (match[3] !== undefined) {
        before += '$';
        continue;
      }
      this.#parts.push(before, (match[1] ?? match[2]) as string);
      before = '';
    }
    this.#parts.push(before + text.slice(end));
  }

  get references(): string[] {
    return this.#parts.filter((_, index) => index % 2 === 1);
  }

  /** Replaces references. A reference to nothing becomes an empty text. */
  expand(captured: Captured): string {
    return this.#parts.map((part, index) => (index % 2 === 0 ? part : (captured(part) ?? ''))).join('');
  }
}
