/**
 * Sends the registry to a statsd receiver as the Go service does: at every flush the differences of the counters (`|c`, except 0) and all
 * gauges (`|g`), and timers (`|ms`) within a second. It never waits or blocks. While the receiver is unavailable, differences stay
 * in the registry and are sent later; timers are kept up to a bound, then dropped and counted. With UDP, a missing receiver is not
 * noticed.
 */
import type { Timer } from '../registry/stats-registry.ts';
import { FlushingSink, nextTurn, type ReceiverSinkOptions, SlotLines } from './flushing-sink.ts';
import { datagramBytes, LineQueue } from './line-queue.ts';
import { StatsdConnection, type StatsdTransport } from './statsd-connection.ts';
import { UdpConnection } from './udp-connection.ts';

export interface StatsdSinkOptions extends ReceiverSinkOptions {
  /** Defaults to tcp. With UDP, data that is sent while the receiver is unavailable is lost. */
  protocol?: 'tcp' | 'udp';
  /** The number of bytes that are stored while the receiver is unavailable. Defaults to 4 MiB, as in the Go service. */
  maxQueuedBytes?: number;
}

/** The slots that are read in one turn of the event loop: a few milliseconds if all of them changed. */
const slotsPerTurn = 8192;

export class StatsdSink extends FlushingSink {
  readonly #listener: StatsdSinkOptions['listener'];
  readonly #connection: StatsdTransport;
  readonly #queue: LineQueue;
  readonly #slots: SlotLines;
  #linesDropped = 0;
  #sendAll = false;
  #outageReported = false;

  constructor(options: StatsdSinkOptions) {
    super(options);
    const { source, host, port, timers, protocol, maxQueuedBytes = 4 * 1024 * 1024 } = options;
    this.#listener = options.listener;
    const isUdp = protocol === 'udp';
    this.#queue = new LineQueue(maxQueuedBytes, isUdp ? datagramBytes : undefined);
    const onUp = () => this.#up();
    const onLost = (reason: string) => this.#lost(reason);
    const onIdle = () => this.#idle();
    this.#connection = isUdp
      ? new UdpConnection({ host, port, timers, onUp, onLost, onChange: onIdle })
      : new StatsdConnection({ host, port, timers, onUp, onLost, onIdle });
    this.#slots = new SlotLines(source, {
      line: (slot, value) =>
        `${source.nameOf(slot)}:${value}|${source.kindOf(slot) === 'gauge' ? 'g' : 'c'}\n`,
    });
    source.onTimer((timer, value) => this.#record(timer, value));
    source.onLeave((first, count) => this.#flushLeaving(first, count));
  }

  override get linesDropped(): number {
    return this.#linesDropped;
  }

  get connected(): boolean {
    return this.#connection.connected;
  }

  protected override open(): void {
    this.#connection.open();
  }

  protected override end(): void {
    this.#connection.close();
  }

  protected override sendGathered(): void {
    this.#sendAll = true;
    this.#send();
  }

  /** Dials once more if it is not connected. */
  protected override async flushLast(): Promise<void> {
    if (!this.#connection.connected) {
      this.#connection.open();
      await this.change();
    }
    await this.flush();
    while (this.#connection.connected && (this.#queue.bytes > 0 || !this.#connection.idle)) {
      this.sendGathered();
      await this.change();
    }
    await this.#connection.end?.();
  }

  protected override async flushSlices(): Promise<void> {
    await this.source.refreshAll();
    const { slotCount } = this.source;
    let slot = 0;
    while (slot < slotCount && this.#connection.connected) {
      const end = Math.min(slot + slotsPerTurn, slotCount);
      slot = this.#flushSlots(slot, end);
      if (slot < end) {
        this.sendGathered();
        if (!this.#connection.idle) await this.change();
      } else if (slot < slotCount) {
        await nextTurn();
      }
    }
    this.sendGathered();
  }

  /** Returns the slot at which the queue was full; otherwise `to`. */
  #flushSlots(from: number, to: number): number {
    for (let slot = from; slot < to; slot += 1) {
      const line = this.#slots.lineOf(slot);
      if (line === undefined) continue;
      if (!this.#append(line)) {
        if (this.#queue.bytes > 0) return slot;
        this.#linesDropped += 1;
      }
      this.#slots.noteSent(slot);
    }
    return to;
  }

  /** Sends the last differences of counters that are about to leave. */
  #flushLeaving(first: number, count: number): void {
    for (let slot = first; slot < first + count; slot += 1) {
      const line = this.source.kindOf(slot) === 'gauge' ? undefined : this.#slots.lineOf(slot);
      if (line !== undefined && !this.#append(line)) this.#linesDropped += 1;
    }
  }

  #record(timer: Timer, value: number): void {
    if (this.isClosing && !this.#connection.connected) return;
    const text = Number.isInteger(value) ? value : value.toFixed(6);
    if (!this.#append(`${timer.name}${this.source.extraTagsSuffix}:${text}|ms\n`)) this.#linesDropped += 1;
  }

  #append(line: string): boolean {
    const kept = this.#queue.append(line);
    if (this.#queue.hasFullChunk && this.#connection.idle) this.#send();
    return kept;
  }

  #up(): void {
    this.#outageReported = false;
    this.#listener?.up();
  }

  #idle(): void {
    this.#send();
    this.wake();
  }

  #lost(reason: string): void {
    this.wake();
    if (this.#outageReported) return;
    this.#outageReported = true;
    this.#listener?.down(reason);
  }

  /** Hands over one chunk, and the next one when it is done. A chunk that is not full leaves at the next send interval. */
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
