/** The parts of a dogstatsd line around its value, and the sink's own lines. */
import type { Tags } from '../registry/tags.ts';
import type { Mogrifiers } from './mogrifier.ts';

/** The text before and after the value of a metric on the wire. */
export interface LineParts {
  /** `name:` */
  before: string;
  /** `|c|#key:value,key2:value2` */
  after: string;
}

export type WireType = 'c' | 'g' | 'ms';

// A comma would begin a tag, the others end a name, a value or a line.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const unsafeInTags = /[,|\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the same
const unsafeInNames = /[:|\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/** The tags of the metric, including EXTRA_TAGS, come before those of the mogrifier. */
export function lineParts(plainName: string, tags: Tags, type: WireType, mogrifiers: Mogrifiers): LineParts {
  const mogrified = mogrifiers.apply(plainName);
  const all = [...tags, ...mogrified.tags].map(([key, value]) => `${inTag(key)}:${inTag(value)}`);
  const tagText = all.length === 0 ? '' : `|#${all.join(',')}`;
  return { before: `${mogrified.name.replace(unsafeInNames, '_')}:`, after: `|${type}${tagText}` };
}

/** Makes a key or value of a tag safe. */
function inTag(text: string): string {
  return text.replace(unsafeInTags, '_');
}

const prefix = 'datadog.dogstatsd.client.';

function noCounts() {
  return {
    metrics: 0,
    metric_dropped_on_receive: 0,
    packets_sent: 0,
    packets_dropped: 0,
    bytes_sent: 0,
    bytes_dropped: 0,
  };
}

/** The metrics about the sink itself, sent with every flush under the names of Datadog's own clients. */
export class DogStatsdTelemetry {
  readonly #after: string;
  /** Counts since the last lines. */
  #counts = noCounts();
  #totalDropped = 0;

  constructor(version: string, extraTags: Tags) {
    const tags = [
      ...extraTags,
      ['client', 'weir'],
      ['client_version', version],
      ['client_transport', 'udp'],
    ] as const;
    this.#after = `|c|#${tags.map(([key, value]) => `${inTag(key)}:${inTag(value)}`).join(',')}`;
  }

  /** The number since the start. */
  get totalMetricsDropped(): number {
    return this.#totalDropped;
  }

  metric(isKept: boolean): void {
    this.#counts.metrics += 1;
    if (!isKept) this.dropped(1);
  }

  /** Counts dropped metrics, including those that were queued at first. */
  dropped(metrics: number): void {
    this.#counts.metric_dropped_on_receive += metrics;
    this.#totalDropped += metrics;
  }

  packet(bytes: number, isSent: boolean): void {
    const outcome = isSent ? 'sent' : 'dropped';
    this.#counts[`packets_${outcome}`] += 1;
    this.#counts[`bytes_${outcome}`] += bytes;
  }

  /** Returns a line without effect on the receiver. */
  probe(): Uint8Array {
    return Buffer.from(`${prefix}metrics:0${this.#after}`);
  }

  /** Returns the lines with the counts since the last call. */
  lines(): string[] {
    const counts = this.#counts;
    this.#counts = noCounts();
    return Object.entries(counts).map(([name, value]) => `${prefix}${name}:${value}${this.#after}`);
  }
}
