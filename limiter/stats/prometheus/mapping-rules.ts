/** A metric's name and labels, and how its values are kept. */
export interface MappedMetric {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  /** False for what no rule matched. */
  readonly isMapped: boolean;
  readonly honorLabels: boolean;
  readonly help: string | undefined;
  readonly scale: number;
  readonly ttlMs: number;
  readonly observer: ObserverOptions;
}

// A mapping from statistics to metrics of Prometheus, in the language of statsd_exporter, once it is read.

export type StatKind = 'counter' | 'gauge' | 'observer';

export interface HistogramOptions {
  readonly type: 'histogram';
  /** Upper bounds, ascending, without that of +Inf. */
  readonly buckets: readonly number[];
}

export interface SummaryOptions {
  readonly type: 'summary';
  readonly quantiles: readonly number[];
  /** Observations count for quantiles so long. */
  readonly maxAgeMs: number;
  /** In so many steps they are forgotten. */
  readonly ageBuckets: number;
}

export type ObserverOptions = HistogramOptions | SummaryOptions;

export interface MappingRule {
  readonly matchType: 'glob' | 'regex';
  readonly match: string;
  /** Any kind where it is undefined. */
  readonly kind: StatKind | undefined;
  readonly action: 'map' | 'drop';
  /** May refer to what was matched, as may the values of labels. */
  readonly name: string;
  readonly labels: readonly (readonly [name: string, value: string])[];
  /** EXTRA_TAGS of the same name win over `labels`. */
  readonly honorLabels: boolean;
  readonly help: string | undefined;
  readonly scale: number;
  /** A series that does not change is left out after so long; 0 for never. */
  readonly ttlMs: number;
  /** Of timers. */
  readonly observer: ObserverOptions;
}

export interface Mapping {
  readonly rules: readonly MappingRule[];
  /** The most specific glob wins, rather than the first one. */
  readonly globDisableOrdering: boolean;
  /** Of what no rule matches. */
  readonly unmapped: { readonly observer: ObserverOptions; readonly ttlMs: number };
}

export const defaultBuckets: readonly number[] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export const defaultSummary: SummaryOptions = {
  type: 'summary',
  quantiles: [0.5, 0.9, 0.99],
  maxAgeMs: 10 * 60_000,
  ageBuckets: 5,
};

// Text that refers to what a pattern matched: `$1`, `${1}`, `${name}`; `$$` is a dollar sign.

/** What stands for a number or a name; undefined for what was not matched or does not exist. */
export type Captured = (reference: string) => string | undefined;

// As in Go the longest name is meant: `$1_total` refers to `1_total`, which is never there.
const reference = /\$(?:\{(\w+)\}|(\w+)|(\$))/g;

export class Template {
  /** Texts and references in turn. */
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

  /** A reference to nothing gives no text. */
  expand(captured: Captured): string {
    return this.#parts.map((part, index) => (index % 2 === 0 ? part : (captured(part) ?? ''))).join('');
  }
}
