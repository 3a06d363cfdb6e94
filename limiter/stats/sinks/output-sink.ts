/**
 * Writes the statistics to standard output, a JSON object a line, in the form of the Go service: every flush the
 * differences of the counters (not those of 0), all gauges, and a line that ends it; timers when they are recorded.
 *
 * Nothing waits for whoever reads: while the stream is full, counters wait, and timers are dropped. A flush that has begun
 * goes on where it stood once there is room, so that every statistic has its turn however many there are.
 */
import { type Clock, inTime, type Timers } from '../../../process/time/clock.ts';
import type { OutputStream } from '../registry/detailed-metrics.ts';
import type { StatsSource } from '../registry/stats-registry.ts';

export interface OutputSinkOptions {
  source: StatsSource;
  output: OutputStream;
  flushIntervalMs: number;
  clock: Clock;
  timers: Timers;
}

/** Slots looked at in one turn of the event loop: a few milliseconds if all of them changed. */
const slotsPerTurn = 2048;
/** Timers are written together: after so long, or so many characters. */
const gatherMs = 1000;
const gatherLength = 64 * 1024;

export class OutputSink {
  readonly #options: OutputSinkOptions;
  #flushed = new Float64Array(0);
  #flushing: Promise<void> | undefined;
  #gathered = '';
  #linesDropped = 0;
  #isFull = false;
  #closing = false;
  #stopTimers: (() => void)[] = [];
  #wake = (): void => {};
  readonly #onDrain = (): void => {
    this.#isFull = false;
    this.#wake();
  };

  constructor(options: OutputSinkOptions) {
    this.#options = options;
    options.source.onTimer(({ name }, value) => this.#record(name, value));
    options.source.onLeave((first, count) => this.#flushLeaving(first, count));
  }

  /** Lines that found no room, so far. */
  get linesDropped(): number {
    return this.#linesDropped;
  }

  start(): void {
    const { timers, flushIntervalMs } = this.#options;
    this.#stopTimers = [
      timers.every(gatherMs, () => this.#writeGathered()),
      timers.every(flushIntervalMs, () => void this.flush()),
    ];
  }

  /** Settles when all is handed over, which waits for room between its slices; does nothing when there is none at first. */
  flush(): Promise<void> {
    this.#flushing ??= this.#flushSlices().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  /** One more flush. */
  async close(timeoutMs: number): Promise<void> {
    if (this.#closing) return;
    for (const stop of this.#stopTimers) stop();
    await inTime(this.#options.timers, timeoutMs, this.#finish(), undefined);
    this.#closing = true;
    this.#wake();
    this.#options.output.removeListener('drain', this.#onDrain);
  }

  async #finish(): Promise<void> {
    const { output } = this.#options;
    await this.#flushing;
    await output.settled();
    await this.flush();
    await output.settled();
  }

  async #flushSlices(): Promise<void> {
    const { source } = this.#options;
    await source.refreshAll();
    const { slotCount } = source;
    this.#growTo(slotCount);
    for (let slot = 0; slot < slotCount; slot += slotsPerTurn) {
      if (slot === 0 && this.#isFull) return;
      if (slot > 0) await this.#nextTurn();
      if (this.#closing) return;
      this.#write(this.#linesOf(slot, Math.min(slot + slotsPerTurn, slotCount)));
    }
    this.#writeGathered();
    this.#write(this.#line('flushing all stats', { type: 'all stats', value: decimals(0) }));
  }

  /** Also waits for room. */
  async #nextTurn(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    if (!this.#isFull || this.#closing) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }

  #linesOf(from: number, to: number): string {
    const { source } = this.#options;
    let text = '';
    for (let slot = from; slot < to; slot += 1) {
      if (source.generationOf(slot) === 0) continue;
      text += this.#lineOf(slot);
      this.#flushed[slot] = source.valueOf(slot);
    }
    return text;
  }

  /** Empty for a counter that is as it was. */
  #lineOf(slot: number): string {
    const { source } = this.#options;
    const value = source.valueOf(slot);
    const name = source.nameOf(slot);
    if (source.kindOf(slot) === 'gauge') return this.#valueLine('gauge', name, value);
    const difference = value - (this.#flushed[slot] as number);
    return difference > 0 ? this.#valueLine('counter', name, difference) : '';
  }

  #flushLeaving(first: number, count: number): void {
    this.#growTo(first + count);
    for (let slot = first; slot < first + count; slot += 1) {
      if (this.#options.source.kindOf(slot) === 'counter') this.#gather(this.#lineOf(slot));
      this.#flushed[slot] = 0;
    }
  }

  #record(name: string, value: number): void {
    this.#gather(this.#valueLine('timer', name + this.#options.source.extraTagsSuffix, value));
  }

  #gather(line: string): void {
    if (line === '') return;
    if (this.#gathered.length + line.length > gatherLength) this.#writeGathered();
    if (this.#isFull || this.#closing) this.#linesDropped += 1;
    else this.#gathered += line;
  }

  #writeGathered(): void {
    if (this.#isFull) return;
    this.#write(this.#gathered);
    this.#gathered = '';
  }

  #write(text: string): void {
    if (text === '' || this.#closing) return;
    if (this.#options.output.write(text)) return;
    if (!this.#isFull) this.#options.output.once('drain', this.#onDrain);
    this.#isFull = true;
  }

  #growTo(slotCount: number): void {
    if (this.#flushed.length >= slotCount) return;
    const grown = new Float64Array(slotCount * 2);
    grown.set(this.#flushed);
    this.#flushed = grown;
  }

  #valueLine(type: string, name: string, value: number): string {
    return this.#line(`flushing ${type}`, { name, type, value: decimals(value) });
  }

  #line(msg: string, json: Readonly<Record<string, string>>): string {
    const ts = this.#options.clock.nowMs() / 1000;
    return `${JSON.stringify({ level: 'debug', ts, logger: 'gostats.loggingsink', msg, json })}\n`;
  }
}

function decimals(value: number): string {
  return value.toFixed(6);
}
