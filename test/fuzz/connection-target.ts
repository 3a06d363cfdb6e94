import { Http2Connection } from '../../limiter/http2/connection.ts';
import { defaultHttp2Limits } from '../../limiter/http2/limits.ts';
import type { RequestHandler, RequestStream, Transport } from '../../limiter/http2/request-handler.ts';
import { pieces } from './cuts.ts';
import { type FuzzTarget, must } from './fuzz-target.ts';
import { writtenFrameTypes } from './written-frames.ts';

const limits = {
  ...defaultHttp2Limits,
  // Small, so that an input reaches them.
  maxConcurrentStreams: 10,
  maxContinuationFrames: 4,
  maxHeaderBlockBytes: 4096,
  maxHeaderListBytes: 8192,
  controlFrames: { burst: 60, perRequest: 4, perSecond: 10 },
  rapidResets: { burst: 10, perRequest: 1, perSecond: 10 },
  provokedResets: { burst: 10, perRequest: 0.1, perSecond: 1 },
  pauseQueuedBytes: 4096,
  maxQueuedBytes: 65_536,
};
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1');
const body = Buffer.alloc(30_000, 'b');
const headers = [':status', '200', 'content-type', 'application/grpc'];
const trailers = ['grpc-status', '0'];

/** Answers in every way that there is, by the stream's number. */
class Answers implements RequestHandler {
  readonly open = new Set<RequestStream>();
  /** What did not hold: the connection takes a handler's error for an internal one. */
  fault = '';
  requests = 0;
  aborts = 0;

  onRequest(stream: RequestStream, _fields: readonly string[], endStream: boolean): void {
    this.requests++;
    this.#must(!this.open.has(stream), `stream ${stream.id} begins twice`);
    this.open.add(stream);
    stream.receiver = {
      receive: (_, isLast) => this.#receive(stream, isLast),
      abort: () => this.#abort(stream),
    };
    if (endStream || stream.id % 7 === 0) this.#answer(stream);
  }

  #receive(stream: RequestStream, endStream: boolean): void {
    this.#must(this.open.has(stream), `DATA or trailers of stream ${stream.id}, which is over`);
    if (endStream) this.#answer(stream);
  }

  #abort(stream: RequestStream): void {
    this.#must(this.open.delete(stream), `stream ${stream.id} is aborted, but is over`);
    this.aborts++;
  }

  /** The answers that took longer. */
  answerRest(): void {
    for (const stream of this.open) this.#respond(stream);
  }

  #must(holds: boolean, message: string): void {
    if (!holds) this.fault = message;
    must(holds, message);
  }

  #respond(stream: RequestStream): void {
    this.open.delete(stream);
    stream.connection.respond(stream, headers, body.subarray(0, 20), trailers);
  }

  #answer(stream: RequestStream): void {
    const { connection } = stream;
    const way = (stream.id >> 1) % 5;
    if (way === 0) return;
    if (way === 1) {
      this.#respond(stream);
      return;
    }
    if (way === 2) {
      connection.sendHeaders(stream, headers, false);
      connection.sendData(stream, body);
      // To queue so much may end the connection, and with it this stream.
      if (this.open.delete(stream)) connection.sendTrailers(stream, trailers);
      return;
    }
    this.open.delete(stream);
    if (way === 3) connection.sendHeaders(stream, [...headers, 'grpc-status', '12'], true);
    else connection.reset(stream, 0x8);
  }
}

/** Says from time to time that it is full. */
class FullTransport implements Transport {
  readonly written: Uint8Array[] = [];
  readonly #fullEvery: number;
  ended = '';
  isFull = false;

  constructor(fullEvery: number) {
    this.#fullEvery = fullEvery;
  }

  write(bytes: Uint8Array): boolean {
    must(this.ended === '', `${bytes.length} bytes are written after ${this.ended}`);
    must(bytes.length > 0, 'nothing is written');
    this.written.push(bytes);
    this.isFull = this.#fullEvery > 0 && this.written.length % this.#fullEvery === 0;
    return !this.isFull;
  }

  end(): void {
    this.ended = 'end';
  }

  destroy(): void {
    this.ended = 'destroy';
  }

  pause(): void {}
  resume(): void {}
}

/** Plays a peer: byte 0 and 1 say how the rest is cut, how often the socket is full, and what else happens. */
function play(input: Uint8Array): string {
  const [seed, how] = [input[0] ?? 0, input[1] ?? 0];
  const [transport, handler] = [new FullTransport(how & 7), new Answers()];
  let [violation, closes, nowMs] = ['', 0, 1000];
  const connection = new Http2Connection({
    ...{ handler, transport, limits, nowMs },
    scheduleFlush: () => {},
    onViolation: (reason) => {
      must(violation === '', `${reason} is a second violation after ${violation}`);
      must(reason !== 'internal_error', `a violation is an internal_error: ${handler.fault}`);
      violation = reason;
    },
    onClose: () => closes++,
  });
  if ((how & 8) === 0) connection.receive(preface, nowMs);
  for (const piece of pieces(input.subarray(2), seed)) {
    nowMs += how & 16 ? 200 : 1;
    connection.receive(piece, nowMs);
    if ((how & 32) !== 0) connection.tick(nowMs);
    if (transport.isFull && piece.length % 2 === 0) {
      transport.isFull = false;
      connection.onDrain();
    }
    connection.flush();
  }
  if ((how & 64) !== 0) connection.drain();
  handler.answerRest();
  connection.flush();
  if ((how & 128) !== 0) connection.peerEnded();
  connection.lost();
  must(handler.fault === '', handler.fault);
  must(connection.isClosed && closes === 1, `the connection closed ${closes} times`);
  must(connection.openStreams === 0, `${connection.openStreams} streams are still open`);
  must(handler.open.size === 0, `${handler.open.size} requests were neither answered nor aborted`);
  const types = [...writtenFrameTypes(transport.written)].sort().join('');
  return `${violation} ${transport.ended} ${types} ${Math.min(2, handler.requests)} ${Math.min(1, handler.aborts)}`;
}

/** Frames and the connection, with a handler that answers. */
export const connectionTarget: FuzzTarget = { name: 'connection', run: play };
