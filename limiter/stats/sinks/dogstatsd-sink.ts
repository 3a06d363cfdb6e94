/** What the sink keeps of each slot: its name on the wire, which costs regular expressions, and what it sent last. */

import { inTime, type Timers } from '../../../process/time/clock.ts';
import type { StatsSource, Timer } from '../registry/stats-registry.ts';
import { type LineParts, lineParts, Telemetry } from './dogstatsd-telemetry.ts';
import { DatagramLines } from './line-queue.ts';
import type { Mogrifiers } from './mogrifier.ts';
import { UdpConnection } from './udp-connection.ts';

export class SlotLines {
  readonly #source: StatsSource;
  readonly #mogrifiers: Mogrifiers;
  #sent = new Float64Array(0);
  #generations = new Float64Array(0);
  readonly #parts: (LineParts | undefined)[] = [];

  constructor(source: StatsSource, mogrifiers: Mogrifiers) {
    this.#source = source;
    this.#mogrifiers = mogrifiers;
  }

  /** The line to send for a slot now; undefined where there is nothing to tell. */
  lineOf(slot: number): string | undefined {
    const generation = this.#source.generationOf(slot);
    if (generation === 0) return undefined;
    this.#grow(slot);
    if (generation !== this.#generations[slot]) this.#begin(slot, generation);
    const value = this.#source.valueOf(slot);
    if (this.#source.kindOf(slot) === 'gauge') return this.#line(slot, value);
    const difference = value - (this.#sent[slot] as number);
    return difference > 0 ? this.#line(slot, difference) : undefined;
  }

  /** What `lineOf` gave is on its way. */
  noteSent(slot: number): void {
    this.#grow(slot);
    this.#sent[slot] = this.#source.valueOf(slot);
  }

  #line(slot: number, value: number): string {
    this.#parts[slot] ??= this.#partsOf(slot);
    const { before, after } = this.#parts[slot];
    return `${before}${value}${after}`;
  }

  #partsOf(slot: number): LineParts {
    const source = this.#source;
    const type = source.kindOf(slot) === 'gauge' ? 'g' : 'c';
    return lineParts(source.plainNameOf(slot), source.tagsOf(slot), type, this.#mogrifiers);
  }

  #begin(slot: number, generation: number): void {
    this.#generations[slot] = generation;
    this.#sent[slot] = 0;
    this.#parts[slot] = undefined;
  }

  #grow(slot: number): void {
    if (slot < this.#sent.length) return;
    const length = Math.max(1024, 2 * (slot + 1));
    const sent = new Float64Array(length);
    sent.set(this.#sent);
    this.#sent = sent;
    const generations = new Float64Array(length);
    generations.set(this.#generations);
    this.#generations = generations;
  }
}

export interface DogStatsdSinkOptions {
  source: StatsSource;
  host: string;
  port: number;
  flushIntervalMs: number;
  mogrifiers: Mogrifiers;
  /** Of this program, for the tag `client_version` of what it tells of itself. */
  version: string;
  timers: Timers;
  listener?: DogStatsdListener;
}

export interface DogStatsdListener {
  up(): void;
  /** Called once an outage, as far as UDP tells. */
  down(reason: string): void;
}

/** Timers leave at the latest this much later. */
const sendIntervalMs = 1_000;
/** Slots looked at in one turn of the event loop. */
const slotsPerTurn = 4_096;
/** Of the event loop, until the refusal of a datagram by this host was read. */
const turnsToRefuse = 2;

/**
 * Sends statistics to a dogstatsd receiver as the Go service does: at every flush the differences of the counters and all
 * gauges, timers when they are recorded, each with its tags.
 *
 * Never waits and never blocks: while nobody is known to listen, differences of counters stay in the registry; timers are
 * dropped and counted.
 */
export class DogStatsdSink {
  readonly #options: DogStatsdSinkOptions;
  readonly #connection: UdpConnection;
  readonly #queue = new DatagramLines((packet) => this.#send(packet));
  readonly #slots: SlotLines;
  readonly #timerParts: (LineParts | undefined)[] = [];
  readonly #telemetry: Telemetry;
  #flushing: Promise<void> | undefined;
  #callOff: (() => void)[] = [];
  #waiting: (() => void)[] = [];
  #isDown = false;
  #closed = false;

  constructor(options: DogStatsdSinkOptions) {
    this.#options = options;
    const { source, mogrifiers, host, port, timers } = options;
    this.#slots = new SlotLines(source, mogrifiers);
    this.#telemetry = new Telemetry(options.version, source.extraTags);
    this.#connection = new UdpConnection({
      host,
      port,
      timers,
      probe: this.#telemetry.probe(),
      onUp: () => {
        this.#isDown = false;
        options.listener?.up();
      },
      onLost: (reason) => this.#trouble(reason),
      onChange: () => this.#wake(),
    });
    source.onTimer((timer, value) => this.#record(timer, value));
    source.onLeave((first, count) => this.#appendLeaving(first, first + count));
  }

  get linesDropped(): number {
    return this.#telemetry.totalMetricsDropped;
  }

  start(): void {
    const { timers, flushIntervalMs } = this.#options;
    this.#connection.open();
    this.#callOff = [
      timers.every(sendIntervalMs, () => this.#queue.flush()),
      timers.every(flushIntervalMs, () => void this.flush()),
    ];
  }

  /** Sends counters and gauges, in slices. Settles when they are handed over; sends nothing without a connection. */
  flush(): Promise<void> {
    this.#flushing ??= this.#flushSlices().finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  /** A last flush, within `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const stop of this.#callOff) stop();
    await inTime(this.#options.timers, timeoutMs, this.#finish(), undefined);
    this.#connection.close();
  }

  async #finish(): Promise<void> {
    while (this.#connection.trying) await this.#change();
    await this.#flushing;
    await this.flush();
    while (this.#connection.underWay > 0) await this.#change();
  }

  async #flushSlices(): Promise<void> {
    const { source } = this.#options;
    await source.refreshAll();
    if (!(await this.#sendTelemetry())) return;
    let slot = 0;
    while (slot < source.slotCount && this.#connection.connected) {
      if (this.#connection.isFull) {
        await this.#change();
        continue;
      }
      slot = this.#append(slot, Math.min(slot + slotsPerTurn, source.slotCount));
      if (slot < source.slotCount) await new Promise((resolve) => setImmediate(resolve));
    }
    if (this.#connection.connected) this.#queue.flush();
  }

  /** Goes first: a receiver on this host that went away refuses it before any counter is sent. False without a connection. */
  async #sendTelemetry(): Promise<boolean> {
    if (!this.#connection.connected) return false;
    for (const line of this.#telemetry.lines()) this.#queue.append(line);
    this.#queue.flush();
    for (let turns = 0; turns < turnsToRefuse; turns += 1)
      await new Promise((resolve) => setImmediate(resolve));
    return this.#connection.connected;
  }

  /** The slot at which the connection took no more, else `to`. */
  #append(from: number, to: number): number {
    for (let slot = from; slot < to; slot += 1) {
      if (this.#connection.isFull) return slot;
      const line = this.#slots.lineOf(slot);
      if (line === undefined) continue;
      this.#slots.noteSent(slot);
      this.#telemetry.metric(this.#queue.append(line));
    }
    return to;
  }

  /** The last moment of these slots: what cannot be sent now is lost. */
  #appendLeaving(from: number, to: number): void {
    const unsent = this.#connection.connected ? this.#append(from, to) : from;
    for (let slot = unsent; slot < to; slot += 1) {
      if (this.#options.source.kindOf(slot) === 'counter' && this.#slots.lineOf(slot) !== undefined)
        this.#telemetry.metric(false);
    }
  }

  #record(timer: Timer, value: number): void {
    if (!this.#connection.connected && !this.#connection.trying) {
      this.#telemetry.metric(false);
      return;
    }
    const { source, mogrifiers } = this.#options;
    this.#timerParts[timer.index] ??= lineParts(timer.name, source.extraTags, 'ms', mogrifiers);
    const { before, after } = this.#timerParts[timer.index] as LineParts;
    this.#telemetry.metric(this.#queue.append(`${before}${value.toFixed(6)}${after}`));
  }

  #send(packet: Uint8Array): void {
    this.#telemetry.packet(packet.length, this.#connection.send(packet));
  }

  #trouble(reason: string): void {
    this.#telemetry.dropped(this.#queue.clear());
    if (this.#isDown || this.#closed) return;
    this.#isDown = true;
    this.#options.listener?.down(reason);
  }

  /** Settles when datagrams went out, or the connection came or went. */
  #change(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #wake(): void {
    for (const resume of this.#waiting.splice(0)) resume();
  }
}
