/**
 * Writes the registry to a statsd receiver as the Go service does: every flush the differences of the counters
 * (`|c`, not those of 0) and all gauges (`|g`), timers (`|ms`) when they are recorded.
 *
 * Never waits and never blocks: while the receiver is away, differences stay in the registry and reach it later;
 * timers are kept up to a bound, then dropped and counted. By UDP nobody learns whether a receiver is there.
 */
import { inTime, type Timers } from '../../../process/time/clock.ts';
import type { StatsSource, Timer } from '../registry/stats-registry.ts';
import { datagramBytes, LineQueue } from './line-queue.ts';
import { StatsdConnection, type StatsdTransport } from './statsd-connection.ts';
import { UdpConnection } from './udp-connection.ts';

export interface StatsdSinkOptions {
  source: StatsSource;
  host: string;
  port: number;
  /** Defaults to tcp. By UDP what is sent while the receiver is away is lost. */
  protocol?: 'tcp' | 'udp';
  flushIntervalMs: number;
  timers: Timers;
  /** Bytes kept while the receiver is away. Defaults to 4 MiB, as in the Go service. */
  maxQueuedBytes?: number;
  listener?: StatsdListener;
}

export interface StatsdListener {
  up(): void;
  /** Called once an outage. */
  down(reason: string): void;
}

/** What was recorded leaves at the latest this much later. */
const sendIntervalMs = 1000;
/** Slots looked at in one turn of the event loop: a few milliseconds if all of them changed. */
const slotsPerTurn = 8192;

export class StatsdSink {
  readonly #source: StatsSource;
  readonly #options: StatsdSinkOptions;
  readonly #connection: StatsdTransport;
  readonly #queue: LineQueue;
  #flushed = new Float64Array(0);
  #flushing: Promise<void> | undefined;
  #linesDropped = 0;
  #stopTimers: (() => void)[] = [];
  #closing = false;
  #waiting: (() => void)[] = [];
  #sendAll = false;
  #outageReported = false;

  constructor(options: StatsdSinkOptions) {
    this.#source = options.source;
    this.#options = options;
    const isUdp = options.protocol === 'udp';
    const maxQueuedBytes = options.maxQueuedBytes ?? 4 * 1024 * 1024;
    this.#queue = new LineQueue(maxQueuedBytes, isUdp ? datagramBytes : undefined);
    const { host, port, timers } = options;
    const onUp = () => this.#up();
    const onLost = (reason: string) => this.#lost(reason);
    const onIdle = () => this.#idle();
    this.#connection = isUdp
      ? new UdpConnection({ host, port, timers, onUp, onLost, onChange: onIdle })
      : new StatsdConnection({ host, port, timers, onUp, onLost, onIdle });
    this.#source.onTimer((timer, value) => this.#record(timer, value));
    this.#source.onLeave((first, count) => this.#flushLeaving(first, count));
  }

  get linesDropped(): number {
    return this.#linesDropped;
  }

  get connected(): boolean {
    return this.#connection.connected;
  }

  start(): void {
    const { timers, flushIntervalMs } = this.#options;
    this.#connection.open();
    this.#stopTimers = [
      timers.every(sendIntervalMs, () => this.#startSending()),
      timers.every(flushIntervalMs, () => {
        void this.flush();
      }),
    ];
  }

  /** Sends counters and gauges, in slices. Settles when they are queued; does nothing while disconnected. */
  flush(): Promise<void> {
    this.#flushing ??= this.#flushSlices().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  /** A last flush, then the end of the connection, all within `timeoutMs`. Dials once more if not connected. */
  async close(timeoutMs: number): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    for (const stop of this.#stopTimers) stop();
    await inTime(this.#options.timers, timeoutMs, this.#finish(), undefined);
    this.#connection.close();
  }

  async #finish(): Promise<void> {
    if (!this.#connection.connected) {
      this.#connection.open();
      await this.#connectionEvent();
    }
    await this.#flushing;
    await this.flush();
    while (this.#connection.connected && (this.#queue.bytes > 0 || !this.#connection.idle)) {
      this.#startSending();
      await this.#connectionEvent();
    }
    await this.#connection.end?.();
  }

  /** Settles when the connection comes, goes, or is done with a write. */
  #connectionEvent(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  async #flushSlices(): Promise<void> {
    await this.#source.refreshAll();
    const { slotCount } = this.#source;
    this.#growTo(slotCount);
    let slot = 0;
    while (slot < slotCount && this.#connection.connected) {
      const end = Math.min(slot + slotsPerTurn, slotCount);
      slot = this.#flushSlots(slot, end);
      if (slot < end) {
        this.#startSending();
        if (!this.#connection.idle) await this.#connectionEvent();
      } else if (slot < slotCount) {
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    this.#startSending();
  }

  #growTo(slotCount: number): void {
    if (this.#flushed.length >= slotCount) return;
    const grown = new Float64Array(slotCount * 2);
    grown.set(this.#flushed);
    this.#flushed = grown;
  }

  /** The slot at which the queue was full, else `to`. */
  #flushSlots(from: number, to: number): number {
    for (let slot = from; slot < to; slot += 1) {
      const line = this.#source.generationOf(slot) === 0 ? undefined : this.#lineOf(slot);
      if (line !== undefined && !this.#append(line)) {
        if (this.#queue.bytes > 0) return slot;
        this.#linesDropped += 1;
      }
      this.#flushed[slot] = this.#source.valueOf(slot);
    }
    return to;
  }

  /** Undefined for a counter that is as it was. */
  #lineOf(slot: number): string | undefined {
    const source = this.#source;
    const value = source.valueOf(slot);
    if (source.kindOf(slot) === 'gauge') return `${source.nameOf(slot)}:${value}|g\n`;
    const difference = value - (this.#flushed[slot] as number);
    return difference > 0 ? `${source.nameOf(slot)}:${difference}|c\n` : undefined;
  }

  /** Counters that are about to go say at once what they still have to say. */
  #flushLeaving(first: number, count: number): void {
    this.#growTo(first + count);
    for (let slot = first; slot < first + count; slot += 1) {
      const line = this.#source.kindOf(slot) === 'gauge' ? undefined : this.#lineOf(slot);
      if (line !== undefined && !this.#append(line)) this.#linesDropped += 1;
      this.#flushed[slot] = 0;
    }
  }

  #record(timer: Timer, value: number): void {
    if (this.#closing && !this.#connection.connected) return;
    const text = Number.isInteger(value) ? value : value.toFixed(6);
    if (!this.#append(`${timer.name}${this.#source.extraTagsSuffix}:${text}|ms\n`)) this.#linesDropped += 1;
  }

  #append(line: string): boolean {
    const kept = this.#queue.append(line);
    if (this.#queue.hasFullChunk && this.#connection.idle) this.#send();
    return kept;
  }

  #up(): void {
    this.#outageReported = false;
    this.#options.listener?.up();
  }

  #idle(): void {
    this.#send();
    this.#wake();
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resume of waiting) resume();
  }

  #lost(reason: string): void {
    this.#wake();
    if (this.#outageReported) return;
    this.#outageReported = true;
    this.#options.listener?.down(reason);
  }

  #startSending(): void {
    this.#sendAll = true;
    this.#send();
  }

  /** Hands over one chunk; its end brings the next. Partly filled chunks leave with the next send interval. */
  #send(): void {
    if (!this.#connection.idle) return;
    const chunk = this.#sendAll || this.#queue.hasFullChunk ? this.#queue.shift() : undefined;
    if (chunk !== undefined) {
      this.#connection.send(chunk);
      return;
    }
    this.#sendAll = false;
  }
}
