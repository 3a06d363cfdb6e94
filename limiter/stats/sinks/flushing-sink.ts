/** Shared by sinks that send the differences of counters: the last values sent, and the times of flushes. */
import { inTime, type Timers } from '../../../process/time/clock.ts';
import type { StatsSource } from '../registry/stats-registry.ts';

/** How a sink writes a slot: the value of a gauge, or the difference of a counter. */
interface LineForm {
  line(slot: number, value: number): string;
  /** Called when the slot's name has changed. */
  begin?(slot: number): void;
}

/** The changes of each slot since its last line. */
export class SlotLines {
  readonly #source: StatsSource;
  readonly #form: LineForm;
  #sent = new Float64Array(0);
  #generations = new Float64Array(0);

  constructor(source: StatsSource, form: LineForm) {
    this.#source = source;
    this.#form = form;
  }

  /** Returns the line to send for a slot now. Returns undefined if there is nothing to report, for example for an unchanged counter. */
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

  /** Called when the line from `lineOf` was sent. */
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

/** The longest delay of a recorded duration. */
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
    /** Called once per outage. With UDP, outages are noticed only in part. */
    down(reason: string): void;
  };
}

export abstract class FlushingSink {
  protected readonly source: StatsSource;
  readonly #timers: Timers;
  readonly #flushIntervalMs: number;
  #flushing: Promise<void> | undefined;
  #stopTimers: (() => void)[] = [];
  #waiting: (() => void)[] = [];
  #isClosing = false;

  constructor(options: FlushingSinkOptions) {
    this.source = options.source;
    this.#timers = options.timers;
    this.#flushIntervalMs = options.flushIntervalMs;
  }

  /** The number of lines dropped for lack of room so far. */
  abstract get linesDropped(): number;

  start(): void {
    this.open();
    this.#stopTimers = [
      this.#timers.every(sendIntervalMs, () => {
        this.source.passDurations();
        this.sendGathered();
      }),
      this.#timers.every(this.#flushIntervalMs, () => void this.flush()),
    ];
  }

  /** Sends counters and gauges in slices. Resolves when they were handed over. Does nothing while there is no receiver. */
  flush(): Promise<void> {
    this.#flushing ??= this.flushSlices().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  /** Flushes a last time, then ends, within `timeoutMs`. */
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

  /** Resolves when the receiver takes more, or its state changes. */
  protected change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  protected wake(): void {
    for (const resume of this.#waiting.splice(0)) resume();
  }

  protected abstract open(): void;
  protected abstract sendGathered(): void;
  protected abstract flushSlices(): Promise<void>;
  /** Resolves when all of one more flush has been handed to the system. */
  protected abstract flushLast(): Promise<void>;
  protected abstract end(): void;
}

/** Lets other work run between the slices of a flush. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
