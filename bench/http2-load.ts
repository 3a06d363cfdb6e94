/**
 * A load generator: gRPC unary calls over HTTP/2 connections that it frames itself, because a general client costs
 * more CPU than the server under test. It never reads header blocks (whose table has the usual size, as a proxy's has),
 * so a call is answered well when DATA arrived before its stream ended.
 */
import { connect, type Socket } from 'node:net';

import {
  ACK,
  type CallTemplate,
  type ClientCalls,
  clientPreface,
  END_STREAM,
  FrameType,
  frame,
  settingsFrame,
  windowUpdateFrame,
} from './http2-frames.ts';
import { LatencyHistogram } from './latency-histogram.ts';
import { startTicks } from './ticks.ts';

/** Says which call comes next on a stream: first, and with the message of each answer; a failed call has none. */
export type Talk = (answer: Buffer | undefined) => CallTemplate;

export interface LoadOptions extends ClientCalls {
  port: number;
  /** One for each call that is kept under way, in place of `calls` in their order. Not with `perSecond`. */
  newTalk?: () => Talk;
  /** Which of `calls` comes next, over and over. */
  sequence: Uint32Array;
  connections: number;
  /** Calls under way per connection; with `perSecond` a bound, else kept up all the time. */
  streams: number;
  /** Sends on a schedule instead of after an answer: the time an answer is late counts from when it was due. */
  perSecond?: number;
  /**
   * Each call is a write of its own, as proxies send them; on a schedule all are evenly apart. Otherwise what
   * one read sets free goes out in one write, and so does what is due in the same millisecond.
   */
  oneWriteACall?: boolean;
  /** With `perSecond` and `oneWriteACall`: all connections send a call at the same time, then wait for their next time. */
  allAtOnce?: boolean;
  durationMs: number;
}

export interface LoadResult {
  answered: number;
  failed: number;
  seconds: number;
  latency: LatencyHistogram;
}

const SETTINGS_INITIAL_WINDOW_SIZE = 4;
const largestWindow = 2 ** 31 - 1;
const refillBytes = 2 ** 30;
/** Of a message: a flag and its length. */
const grpcPrefixBytes = 5;
/** The stream of the opening call, which is not measured. */
const firstStreamId = 1;

/** Runs the load to its end, once all connections answered a call, and closes them. Rejects when one fails. */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const run = new LoadRun(options);
  await Promise.all(run.connections.map(({ opened, failed }) => Promise.race([opened, failed])));
  return run.finished();
}

class LoadRun {
  readonly connections: LoadConnection[] = [];
  readonly latency = new LatencyHistogram();
  readonly #options: LoadOptions;
  #next = 0;
  #answered = 0;
  #failed = 0;
  #running = true;

  constructor(options: LoadOptions) {
    this.#options = options;
    for (let i = 0; i < options.connections; i++) this.connections.push(new LoadConnection(options, this));
  }

  async finished(): Promise<LoadResult> {
    const { perSecond, durationMs } = this.#options;
    const stop = await (perSecond === undefined ? this.#fill() : this.#schedule(perSecond));
    const startedMs = performance.now();
    await Promise.race([
      new Promise((resolve) => setTimeout(resolve, durationMs)),
      ...this.connections.map((connection) => connection.failed),
    ]);
    const result = {
      answered: this.#answered,
      failed: this.#failed,
      seconds: (performance.now() - startedMs) / 1000,
      latency: this.latency,
    };
    this.#running = false;
    stop();
    for (const connection of this.connections) connection.close();
    return result;
  }

  /** As `#schedule`, returns what ends it. */
  #fill(): () => void {
    for (const connection of this.connections) {
      for (let i = 0; i < this.#options.streams; i++) {
        const talk = this.#options.newTalk?.() ?? this.#nextCall;
        connection.call(talk, undefined, performance.now());
      }
      connection.flush();
    }
    return () => {};
  }

  #schedule(perSecond: number): (() => void) | Promise<() => void> {
    const { oneWriteACall, allAtOnce, streams } = this.#options;
    const together = allAtOnce === true ? this.connections.length : 1;
    const everyMs = (1000 * together) / perSecond;
    let startMs: number | undefined;
    let groups = 0;
    const sendDue = (): void => {
      startMs ??= performance.now();
      const due = Math.floor((performance.now() - startMs) / everyMs);
      for (; groups < due; groups++) {
        for (let i = 0; i < together; i++) {
          const connection = this.connections[(groups * together + i) % this.connections.length];
          if (connection === undefined || connection.underWay >= streams) this.#failed += 1;
          else connection.call(this.#nextCall, undefined, startMs + groups * everyMs);
        }
      }
      for (const connection of this.connections) connection.flush();
    };
    if (oneWriteACall === true) return startTicks(everyMs, sendDue);
    const timer = setInterval(sendDue, 1);
    return () => clearInterval(timer);
  }

  readonly #nextCall = (): CallTemplate => {
    const { calls, sequence } = this.#options;
    this.#next = (this.#next + 1) % sequence.length;
    return calls[sequence[this.#next] as number] as CallTemplate;
  };

  ended(connection: LoadConnection, { talk, dueMs, answer }: OpenStream, well: boolean): void {
    if (well) this.#answered += 1;
    else this.#failed += 1;
    const nowMs = performance.now();
    this.latency.record(nowMs - dueMs);
    if (this.#running && this.#options.perSecond === undefined)
      connection.call(talk, well ? answer : undefined, nowMs);
  }
}

interface OpenStream {
  talk: Talk;
  dueMs: number;
  /** Undefined before DATA came. */
  answer: Buffer | undefined;
}

class LoadConnection {
  readonly opened: Promise<void>;
  readonly failed: Promise<never>;
  readonly #socket: Socket;
  readonly #run: LoadRun;
  readonly #oneWriteACall: boolean;
  readonly #open = new Map<number, OpenStream>();
  #nextStreamId = firstStreamId;
  #output: Buffer[] = [];
  #whenOpen: () => void = () => {};
  #rest: Buffer = Buffer.alloc(0);
  #received = 0;

  constructor({ port, opening, oneWriteACall = false }: LoadOptions, run: LoadRun) {
    this.#run = run;
    this.#oneWriteACall = oneWriteACall;
    this.#socket = connect({ host: '127.0.0.1', port, noDelay: true });
    this.opened = new Promise((resolve) => {
      this.#whenOpen = resolve;
    });
    this.failed = new Promise((_, reject) => {
      this.#socket.on('error', reject);
      this.#socket.on('close', () => reject(new Error('the server closed a connection')));
    });
    this.failed.catch(() => {});
    this.#socket.on('data', (chunk: Buffer) => this.#read(chunk));
    const settings = settingsFrame([[SETTINGS_INITIAL_WINDOW_SIZE, largestWindow]]);
    this.#output.push(clientPreface, settings, windowUpdateFrame(0, largestWindow - 65_535));
    this.#send(opening);
    this.flush();
  }

  get underWay(): number {
    return this.#open.size;
  }

  /** `answered`: what the last call of this talk was answered with. */
  call(talk: Talk, answered: Buffer | undefined, dueMs: number): void {
    this.#open.set(this.#nextStreamId, { talk, dueMs, answer: undefined });
    this.#send(talk(answered));
    if (this.#oneWriteACall) this.flush();
  }

  #send(template: CallTemplate): void {
    const bytes = Buffer.from(template.bytes);
    for (const offset of template.streamIdOffsets) bytes.writeUInt32BE(this.#nextStreamId, offset);
    this.#nextStreamId += 2;
    this.#output.push(bytes);
  }

  flush(): void {
    if (this.#output.length === 0) return;
    this.#socket.write(this.#output.length === 1 ? (this.#output[0] as Buffer) : Buffer.concat(this.#output));
    this.#output = [];
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    while (at + 9 <= bytes.length) {
      const length = bytes.readUIntBE(at, 3);
      if (at + 9 + length > bytes.length) break;
      this.#frame(
        bytes[at + 3] as number,
        bytes[at + 4] as number,
        bytes.readUInt32BE(at + 5),
        bytes,
        at + 9,
        length,
      );
      at += 9 + length;
    }
    this.#rest = bytes.subarray(at);
    this.flush();
  }

  #frame(type: number, flags: number, streamId: number, bytes: Buffer, at: number, length: number): void {
    if (type === FrameType.DATA || type === FrameType.HEADERS)
      this.#streamFrame(type, flags, streamId, bytes.subarray(at, at + length));
    else if (type === FrameType.RST_STREAM) this.#end(streamId, false);
    else if (type === FrameType.SETTINGS && (flags & ACK) === 0) {
      this.#output.push(frame(FrameType.SETTINGS, ACK, 0, Buffer.alloc(0)));
    } else if (type === FrameType.PING && (flags & ACK) === 0) {
      this.#output.push(frame(FrameType.PING, ACK, 0, bytes.subarray(at, at + length)));
    }
  }

  #streamFrame(type: number, flags: number, streamId: number, payload: Buffer): void {
    const stream = this.#open.get(streamId);
    if (type === FrameType.DATA) {
      this.#received += payload.length;
      if (this.#received >= refillBytes) {
        this.#output.push(windowUpdateFrame(0, this.#received));
        this.#received = 0;
      }
      if (stream !== undefined) stream.answer = payload.subarray(grpcPrefixBytes);
    }
    if ((flags & END_STREAM) !== 0) this.#end(streamId, stream?.answer !== undefined);
  }

  #end(streamId: number, well: boolean): void {
    if (streamId === firstStreamId) this.#whenOpen();
    const stream = this.#open.get(streamId);
    if (stream === undefined) return;
    this.#open.delete(streamId);
    this.#run.ended(this, stream, well);
  }
}
