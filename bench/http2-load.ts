/**
 * A load generator: gRPC unary calls over HTTP/2 connections whose frames it writes itself, because a general client uses more CPU than
 * the server under test. It does not read header blocks, so a call counts as answered if DATA arrived before its stream ended. The header
 * table has the default size, as with proxies.
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

/**
 * Returns the next call on a stream. It is first called without an answer, then with the message of each answer. A failed call has no
 * message.
 */
export type Talk = (answer: Buffer | undefined) => CallTemplate;

export interface LoadOptions extends ClientCalls {
  port: number;
  /** Creates the `Talk` of each concurrent call. It replaces `calls` and `sequence`. Not with `perSecond`. */
  newTalk?: () => Talk;
  /** Indexes of `calls` in the order in which they are sent, repeatedly. */
  sequence: Uint32Array;
  connections: number;
  /** The number of concurrent calls per connection; with `perSecond`, the maximum. */
  streams: number;
  /** Sends calls on a schedule instead of after an answer. Latencies then start when a call is due. */
  perSecond?: number;
  /**
   * Writes each call separately, as proxies do, and on a schedule at equal intervals. Otherwise, one write contains all calls that follow
   * the answers of one read, or that are due in the same millisecond.
   */
  oneWriteACall?: boolean;
  /** With `perSecond` and `oneWriteACall`: all connections send a call at the same time, and then wait for the next time. */
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
/** The prefix of a message: a flag and its length. */
const grpcPrefixBytes = 5;
/** The stream of the opening call, which is not measured. */
const firstStreamId = 1;

/** Waits until all connections have answered a call, runs the load, and closes the connections. Rejects if a connection fails. */
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

  /** Starts the load without a schedule. Returns a function that stops it, as `#schedule` does. */
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
  /** Undefined until DATA arrives. */
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

  /** Sends the next call of a talk. `answered` is the answer to its previous call. */
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
