/** What sinks that send the differences of counters have in common: what they sent last, and when they flush. */
import { inTime, type Timers } from '../../../process/time/clock.ts';
import type { StatsSource } from '../registry/stats-registry.ts';

/** How a sink writes a value of a slot: all of a gauge, the difference of a counter. */
interface LineForm {
  line(slot: number, value: number): string;
  /** The slot stands for something else than before. */
  begin?(slot: number): void;
}

/** What there is to report each slot since its last line. */
export class SlotLines {
  readonly #source: StatsSource;
  readonly #form: LineForm;
  #sent = new Float64Array(0);
  #generations = new Float64Array(0);

  constructor(source: StatsSource, form: LineForm) {
    this.#source = source;
    this.#form = form;
  }

  /** The line to send for a slot now; undefined where there is nothing to report, as of a counter that is as it was. */
  lineOf(slot: number): string | undefined {
    const generation = this.#source.generationOf(slot);
    if (generation === 0) return undefined;
    this.#grow(slot);
    if (generation !== this.#generations[slot]) {
      this.#generations[slot] = generation;
      this.#sent[slot] = 0;
      this.#form.begin?.(slot);
    }
    const value = this.#source.valueOf(slot);
    if (this.#source.kindOf(slot) === 'gauge') return this.#form.line(slot, value);
    const difference = value - (this.#sent[slot] as number);
    return difference > 0 ? this.#form.line(slot, difference) : undefined;
  }

  /** What `lineOf` gave is on its way. */
  noteSent(slot: number): void {
    this.#grow(slot);
    this.#sent[slot] = this.#source.valueOf(slot);
  }

  #grow(slot: number): void {
    if (slot < this.#sent.length) return;
    const bytes = Math.max(1024, 2 * (slot + 1)) * Float64Array.BYTES_PER_ELEMENT;
    this.#sent = new Float64Array(this.#sent.buffer.transfer(bytes));
    this.#generations = new Float64Array(this.#generations.buffer.transfer(bytes));
  }
}

/** What was recorded leaves at the latest this much later. */
const sendIntervalMs = 1000;

export interface FlushingSinkOptions {
  source: StatsSource;
  flushIntervalMs: number;
  timers: Timers;
}

/** Options of a sink that sends to another process. */
export interface ReceiverSinkOptions extends FlushingSinkOptions {
  host: string;
  port: number;
  listener?: {
    up(): void;
    /** Called once an outage, by UDP as far as that reports. */
    down(reason: string): void;
  };
}

export abstract class FlushingSink {
  readonly #timers: Timers;
  readonly #flushIntervalMs: number;
  #flushing: Promise<void> | undefined;
  #stopTimers: (() => void)[] = [];
  #waiting: (() => void)[] = [];
  #isClosing = false;

  constructor(options: FlushingSinkOptions) {
    this.#timers = options.timers;
    this.#flushIntervalMs = options.flushIntervalMs;
  }

  /** Lines that found no room, so far. */
  abstract get linesDropped(): number;

  start(): void {
    this.open();
    this.#stopTimers = [
      this.#timers.every(sendIntervalMs, () => this.sendGathered()),
      this.#timers.every(this.#flushIntervalMs, () => void this.flush()),
    ];
  }

  /** Sends counters and gauges, in slices. Settles when they are handed over; does nothing while nobody takes them. */
  flush(): Promise<void> {
    this.#flushing ??= this.flushSlices().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  /** A last flush, then the end, all within `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    for (const stop of this.#stopTimers) stop();
    await inTime(this.#timers, timeoutMs, this.#finish(), undefined);
    this.end();
  }

  async #finish(): Promise<void> {
    await this.#flushing;
    await this.flushLast();
  }

  protected get isClosing(): boolean {
    return this.#isClosing;
  }

  /** Settles when the receiver takes more, comes or goes. */
  protected change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  protected wake(): void {
    for (const resume of this.#waiting.splice(0)) resume();
  }

  protected abstract open(): void;
  protected abstract sendGathered(): void;
  protected abstract flushSlices(): Promise<void>;
  /** Settles when all of one more flush is with the system. */
  protected abstract flushLast(): Promise<void>;
  protected abstract end(): void;
}

/** So that nothing else waits for a whole flush. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
