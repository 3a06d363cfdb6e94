/** What a metric is called on the wire: what stands before its value, and what stands behind it. */

import type { Tags } from '../registry/metric-name.ts';
import type { Mogrifiers } from './mogrifier.ts';

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
// biome-ignore lint/suspicious/noControlCharactersInRegex: likewise
const unsafeInNames = /[:|\u0000-\u001f\u007f-\u009f\u2028\u2029]/g;

/** The tags of the metric come first, EXTRA_TAGS among them, those of the mogrifier behind them. */
export function lineParts(plainName: string, tags: Tags, type: WireType, mogrifiers: Mogrifiers): LineParts {
  const mogrified = mogrifiers.apply(plainName);
  const all = [...tags, ...mogrified.tags].map(([key, value]) => `${inTag(key)}:${inTag(value)}`);
  const tagText = all.length === 0 ? '' : `|#${all.join(',')}`;
  return { before: `${mogrified.name.replace(unsafeInNames, '_')}:`, after: `|${type}${tagText}` };
}

/** A key or value of a tag, made safe. */
function inTag(text: string): string {
  return text.replace(unsafeInTags, '_');
}

// What the sink tells of itself with every flush, under the names of Datadog's own clients.

const prefix = 'datadog.dogstatsd.client.';

export class Telemetry {
  readonly #after: string;
  #metrics = 0;
  #metricsDropped = 0;
  #totalDropped = 0;
  #packetsSent = 0;
  #packetsDropped = 0;
  #bytesSent = 0;
  #bytesDropped = 0;

  constructor(version: string, extraTags: Tags) {
    const tags = [
      ...extraTags,
      ['client', 'weir'],
      ['client_version', version],
      ['client_transport', 'udp'],
    ] as const;
    this.#after = `|c|#${tags.map(([key, value]) => `${inTag(key)}:${inTag(value)}`).join(',')}`;
  }

  /** Since the start. */
  get totalMetricsDropped(): number {
    return this.#totalDropped;
  }

  metric(isKept: boolean): void {
    this.#metrics += 1;
    if (!isKept) this.dropped(1);
  }

  /** Of those that were kept at first, too. */
  dropped(metrics: number): void {
    this.#metricsDropped += metrics;
    this.#totalDropped += metrics;
  }

  packet(bytes: number, isSent: boolean): void {
    if (isSent) {
      this.#packetsSent += 1;
      this.#bytesSent += bytes;
    } else {
      this.#packetsDropped += 1;
      this.#bytesDropped += bytes;
    }
  }

  /** A line that changes nothing where it arrives. */
  probe(): Uint8Array {
    return Buffer.from(`${prefix}metrics:0${this.#after}`);
  }

  /** Since the last call. */
  lines(): string[] {
    const values: [string, number][] = [
      ['metrics', this.#metrics],
      ['metric_dropped_on_receive', this.#metricsDropped],
      ['packets_sent', this.#packetsSent],
      ['packets_dropped', this.#packetsDropped],
      ['bytes_sent', this.#bytesSent],
      ['bytes_dropped', this.#bytesDropped],
    ];
    this.#metrics = 0;
    this.#metricsDropped = 0;
    this.#packetsSent = 0;
    this.#packetsDropped = 0;
    this.#bytesSent = 0;
    this.#bytesDropped = 0;
    return values.map(([name, value]) => `${prefix}${name}:${value}${this.#after}`);
  }
}
