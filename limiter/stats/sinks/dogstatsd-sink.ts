import type { StatsSource, Timer } from '../registry/stats-registry.ts';
import { DogStatsdTelemetry, type LineParts, lineParts } from './dogstatsd-telemetry.ts';
import { FlushingSink, nextTurn, type ReceiverSinkOptions, SlotLines } from './flushing-sink.ts';
import { DatagramLines } from './line-queue.ts';
import type { Mogrifiers } from './mogrifier.ts';
import { UdpConnection } from './udp-connection.ts';

/** Lines of slots. Names on the wire require regular expressions, so they are stored as long as a slot has the same name. */
export function dogStatsdSlots(source: StatsSource, mogrifiers: Mogrifiers): SlotLines {
  const parts: (LineParts | undefined)[] = [];
  const partsOf = (slot: number): LineParts => {
    const type = source.kindOf(slot) === 'gauge' ? 'g' : 'c';
    return lineParts(source.plainNameOf(slot), source.tagsOf(slot), type, mogrifiers);
  };
  return new SlotLines(source, {
    begin: (slot) => {
      parts[slot] = undefined;
    },
    line: (slot, value) => {
      parts[slot] ??= partsOf(slot);
      return `${parts[slot].before}${value}${parts[slot].after}`;
    },
  });
}

export interface DogStatsdSinkOptions extends ReceiverSinkOptions {
  mogrifiers: Mogrifiers;
  /** The version of this program, for the tag `client_version` of the sink's own metrics. */
  version: string;
}

/** The slots that are read in one turn of the event loop. */
const slotsPerTurn = 4_096;
/** The cost of mogrifying new names in one turn, roughly in nanoseconds. */
const mogrifyingPerTurn = 2_000_000;
/** The turns of the event loop after which this host's rejection of a datagram has been read. */
const turnsToReject = 2;

/**
 * Sends statistics to a dogstatsd receiver as the Go service does: at every flush the differences of the counters and all gauges, and
 * timers within a second, each with its tags. It never waits or blocks. While no receiver is known to listen, differences of
 * counters stay in the registry, and timers are dropped and counted.
 */
export class DogStatsdSink extends FlushingSink {
  readonly #options: DogStatsdSinkOptions;
  readonly #connection: UdpConnection;
  readonly #queue = new DatagramLines((packet) => this.#send(packet));
  readonly #slots: SlotLines;
  readonly #timerParts: (LineParts | undefined)[] = [];
  readonly #telemetry: DogStatsdTelemetry;
  #isDown = false;

  constructor(options: DogStatsdSinkOptions) {
    super(options);
    this.#options = options;
    const { source, mogrifiers, host, port, timers } = options;
    this.#slots = dogStatsdSlots(source, mogrifiers);
    this.#telemetry = new DogStatsdTelemetry(options.version, source.extraTags);
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
      onChange: () => this.wake(),
    });
    source.onTimer((timer, value) => this.#record(timer, value));
    source.onLeave((first, count) => this.#appendLeaving(first, first + count));
  }

  override get linesDropped(): number {
    return this.#telemetry.totalMetricsDropped;
  }

  protected override open(): void {
    this.#connection.open();
  }

  protected override end(): void {
    this.#connection.close();
  }

  protected override sendGathered(): void {
    this.#queue.flush();
  }

  protected override async flushLast(): Promise<void> {
    while (this.#connection.trying) await this.change();
    await this.flush();
    while (this.#connection.underWay > 0) await this.change();
  }

  protected override async flushSlices(): Promise<void> {
    const { source } = this;
    await source.refreshAll();
    if (!(await this.#sendTelemetry())) return;
    let slot = 0;
    while (slot < source.slotCount && this.#connection.connected) {
      if (this.#connection.isFull) {
        await this.change();
        continue;
      }
      slot = this.#append(slot, Math.min(slot + slotsPerTurn, source.slotCount), mogrifyingPerTurn);
      if (slot < source.slotCount) await nextTurn();
    }
    if (this.#connection.connected) this.#queue.flush();
  }

  /**
   * Sends telemetry first, because a receiver on this host that has ended rejects it before any counter is sent. Returns false without a
   * connection.
   */
  async #sendTelemetry(): Promise<boolean> {
    if (!this.#connection.connected) return false;
    for (const line of this.#telemetry.lines()) this.#queue.append(line);
    this.#queue.flush();
    for (let turns = 0; turns < turnsToReject; turns += 1) await nextTurn();
    return this.#connection.connected;
  }

  /** Returns the slot at which the connection was full, or mogrifying cost more than `maxCost`; otherwise `to`. */
  #append(from: number, to: number, maxCost = Number.POSITIVE_INFINITY): number {
    const { mogrifiers } = this.#options;
    const endCost = mogrifiers.cost + maxCost;
    for (let slot = from; slot < to; slot += 1) {
      if (this.#connection.isFull || mogrifiers.cost > endCost) return slot;
      const line = this.#slots.lineOf(slot);
      if (line === undefined) continue;
      this.#slots.noteSent(slot);
      this.#telemetry.metric(this.#queue.append(line));
    }
    return to;
  }

  /** Sends the last values of these slots. Values that cannot be sent now are lost. */
  #appendLeaving(from: number, to: number): void {
    const unsent = this.#connection.connected ? this.#append(from, to) : from;
    for (let slot = unsent; slot < to; slot += 1) {
      if (this.source.kindOf(slot) === 'counter' && this.#slots.lineOf(slot) !== undefined)
        this.#telemetry.metric(false);
    }
  }

  #record(timer: Timer, value: number): void {
    if (!this.#connection.connected && !this.#connection.trying) {
      this.#telemetry.metric(false);
      return;
    }
    const { mogrifiers } = this.#options;
    this.#timerParts[timer.index] ??= lineParts(timer.name, this.source.extraTags, 'ms', mogrifiers);
    const { before, after } = this.#timerParts[timer.index] as LineParts;
    this.#telemetry.metric(this.#queue.append(`${before}${value.toFixed(6)}${after}`));
  }

  #send(packet: Uint8Array): void {
    this.#telemetry.packet(packet.length, this.#connection.send(packet));
  }

  #trouble(reason: string): void {
    this.#telemetry.dropped(this.#queue.clear());
    if (this.#isDown || this.isClosing) return;
    this.#isDown = true;
    this.#options.listener?.down(reason);
  }
}
