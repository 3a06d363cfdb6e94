/** One line of a counter or gauge: the sum of the statistics that were mapped to it. */
import { valueText } from './exposition-text.ts';

export interface ValueSource {
  valueOf(slot: number): number;
}

export interface ValueSeriesOptions {
  /** Name and labels. */
  head: string;
  isCounter: boolean;
  /** Left out at 0, as nothing has happened yet. */
  hidesZero: boolean;
  /** 0 for never; gauges are set again and again, and stay. */
  ttlMs: number;
}

interface Member {
  readonly slot: number;
  readonly scale: number;
  /** What of the slot's value does not count. */
  from: number;
}

export class ValueSeries {
  readonly #options: ValueSeriesOptions;
  readonly #members: Member[] = [];
  /** Counted by members that left: a sum that went back would look like a restart. */
  #retained = 0;
  #seen = 0;
  #changedMs = 0;

  constructor(options: ValueSeriesOptions) {
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#members.length === 0;
  }

  get expires(): boolean {
    return this.#options.ttlMs > 0 && this.#options.isCounter;
  }

  add(slot: number, scale: number): void {
    this.#members.push({ slot, scale, from: 0 });
  }

  /** While the slot still has its value. */
  remove(slot: number, source: ValueSource): void {
    const at = this.#members.findIndex((member) => member.slot === slot);
    const member = this.#members[at];
    if (member === undefined) return;
    if (this.#options.isCounter) this.#retained += (source.valueOf(slot) - member.from) * member.scale;
    this.#members.splice(at, 1);
  }

  value(source: ValueSource): number {
    let value = this.#retained;
    for (const { slot, scale, from } of this.#members) value += (source.valueOf(slot) - from) * scale;
    return value;
  }

  /** Begins at 0 again, and out of sight, when it did not change for its time. */
  expire(source: ValueSource, nowMs: number): void {
    const value = this.value(source);
    if (value !== this.#seen) {
      this.#seen = value;
      this.#changedMs = nowMs;
    } else if (value !== 0 && nowMs - this.#changedMs >= this.#options.ttlMs) {
      for (const member of this.#members) member.from = source.valueOf(member.slot);
      this.#retained = 0;
      this.#seen = 0;
    }
  }

  /** The line, or nothing. */
  line(source: ValueSource): string {
    const value = this.value(source);
    if (value === 0 && this.#options.hidesZero) return '';
    return `${this.#options.head} ${valueText(value)}\n`;
  }
}
