/** Statistics on standard output: the sink, and its file descriptor. */
import { EventEmitter } from 'node:events';
import { write } from 'node:fs';
import type { Clock } from '../../../process/time/clock.ts';
import { FlushingSink, type FlushingSinkOptions, nextTurn, SlotLines } from './flushing-sink.ts';

export interface OutputSinkOptions extends FlushingSinkOptions {
  output: OutputStream;
  clock: Clock;
}

/** The slots that are read in one turn of the event loop: a few milliseconds if all of them changed. */
const slotsPerTurn = 2048;
/** Timers are written together: at the next send interval, or after this number of characters. */
const gatherLength = 64 * 1024;

/**
 * Writes the statistics to standard output, one JSON object a line, in the form of the Go service: at every flush the differences of the
 * counters (except 0), all gauges, and a final line; timers within a second. Nothing waits for a reader: while the stream is
 * full, counters wait and timers are dropped. An interrupted flush continues where it stopped once there is room, so that every
 * statistic gets its turn.
 */
export class OutputSink extends FlushingSink {
  readonly #output: OutputStream;
  readonly #clock: Clock;
  readonly #slots: SlotLines;
  #gathered = '';
  #linesDropped = 0;
  #isFull = false;
  #isEnded = false;
  readonly #onDrain = (): void => {
    this.#isFull = false;
    this.wake();
  };

  constructor(options: OutputSinkOptions) {
    super(options);
    const { source, output, clock } = options;
    this.#output = output;
    this.#clock = clock;
    this.#slots = new SlotLines(source, {
      line: (slot, value) => this.#valueLine(source.kindOf(slot), source.nameOf(slot), value),
    });
    source.onTimer(({ name }, value) =>
      this.#gather(this.#valueLine('timer', name + source.extraTagsSuffix, value)),
    );
    source.onLeave((first, count) => this.#flushLeaving(first, count));
  }

  override get linesDropped(): number {
    return this.#linesDropped;
  }

  protected override open(): void {}

  protected override sendGathered(): void {
    if (this.#isFull) return;
    this.#write(this.#gathered);
    this.#gathered = '';
  }

  protected override async flushLast(): Promise<void> {
    await this.#output.settled();
    await this.flush();
    await this.#output.settled();
  }

  protected override end(): void {
    this.#isEnded = true;
    this.wake();
    this.#output.removeListener('drain', this.#onDrain);
  }

  /** Waits for room between its slices. If there is no room at first, it does nothing. */
  protected override async flushSlices(): Promise<void> {
    const source = this.source;
    await source.refreshAll();
    const { slotCount } = source;
    for (let slot = 0; slot < slotCount; slot += slotsPerTurn) {
      if (slot === 0 && this.#isFull) return;
      if (slot > 0) await nextTurn();
      if (slot > 0 && this.#isFull && !this.#isEnded) await this.change();
      if (this.#isEnded) return;
      this.#write(this.#linesOf(slot, Math.min(slot + slotsPerTurn, slotCount)));
    }
    this.sendGathered();
    this.#write(this.#line('flushing all stats', { type: 'all stats', value: decimals(0) }));
  }

  #linesOf(from: number, to: number): string {
    let text = '';
    for (let slot = from; slot < to; slot += 1) {
      const line = this.#slots.lineOf(slot);
      if (line === undefined) continue;
      text += line;
      this.#slots.noteSent(slot);
    }
    return text;
  }

  #flushLeaving(first: number, count: number): void {
    for (let slot = first; slot < first + count; slot += 1) {
      const line = this.source.kindOf(slot) === 'counter' ? this.#slots.lineOf(slot) : undefined;
      if (line !== undefined) this.#gather(line);
    }
  }

  #gather(line: string): void {
    if (this.#gathered.length + line.length > gatherLength) this.sendGathered();
    if (this.#isFull || this.#isEnded) this.#linesDropped += 1;
    else this.#gathered += line;
  }

  #write(text: string): void {
    if (text === '' || this.#isEnded) return;
    if (this.#output.write(text)) return;
    if (!this.#isFull) this.#output.once('drain', this.#onDrain);
    this.#isFull = true;
  }

  #valueLine(type: string, name: string, value: number): string {
    return this.#line(`flushing ${type}`, { name, type, value: decimals(value) });
  }

  #line(msg: string, json: Readonly<Record<string, string>>): string {
    const ts = this.#clock.nowMs() / 1000;
    return `${JSON.stringify({ level: 'debug', ts, logger: 'gostats.loggingsink', msg, json })}\n`;
  }
}

function decimals(value: number): string {
  return value.toFixed(6);
}

// Writes to a file descriptor outside of the event loop, one piece at a time. process.stdout would block the whole process while the pipe
// behind it is full.

/** The part of a stream that the sink needs. It emits `drain` when it can accept more. */
export interface OutputStream extends EventEmitter {
  /** Returns false if the stream should get no more for now. */
  write(text: string): boolean;
  /** Resolves when everything is written, or cannot be written. */
  settled(): Promise<void>;
}

/** The characters that may wait before `write` returns false. */
const waitingLength = 64 * 1024;
/** The pause after a reader was not ready. */
const retryMs = 50;

export class DescriptorOutput extends EventEmitter implements OutputStream {
  readonly #descriptor: number;
  #waiting = '';
  #isWriting = false;
  #isBroken = false;
  #settle: (() => void)[] = [];

  constructor(descriptor: number) {
    super();
    this.#descriptor = descriptor;
  }

  write(text: string): boolean {
    if (this.#isBroken) return true;
    this.#waiting += text;
    if (!this.#isWriting) this.#writeWaiting();
    return this.#waiting.length <= waitingLength;
  }

  settled(): Promise<void> {
    if (!this.#isWriting) return Promise.resolve();
    return new Promise((resolve) => this.#settle.push(resolve));
  }

  #writeWaiting(): void {
    if (this.#waiting === '') {
      this.#isWriting = false;
      this.emit('drain');
      for (const settle of this.#settle.splice(0)) settle();
      return;
    }
    this.#isWriting = true;
    const bytes = Buffer.from(this.#waiting);
    this.#waiting = '';
    this.#writeBytes(bytes);
  }

  #writeBytes(bytes: Buffer): void {
    write(this.#descriptor, bytes, (error, written) => {
      if (error?.code === 'EAGAIN') {
        setTimeout(() => this.#writeBytes(bytes), retryMs);
        return;
      }
      // No later output will ever be read.
      if (error) this.#isBroken = true;
      if (this.#isBroken) this.#waiting = '';
      if (error || written === bytes.length) this.#writeWaiting();
      else this.#writeBytes(bytes.subarray(written));
    });
  }
}
