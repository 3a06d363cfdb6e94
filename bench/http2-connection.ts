/**
 * Measures the CPU time of a request in limiter/http2 and limiter/hpack alone: `node bench/http2-connection.ts`. It passes prepared
 * frames to a connection, and discards the answers. A request is HEADERS and DATA of 60 bytes. An answer is HEADERS, DATA of 40 bytes and
 * trailers. All header fields of the client are in its dynamic table, as with grpc-go, except the ones that a case names.
 */
import { HpackEncoder, Indexing, maxEncodedBytes } from '../limiter/hpack/encoder.ts';
import { Http2Connection } from '../limiter/http2/connection.ts';
import { clientPreface, Flag, FrameType } from '../limiter/http2/constants.ts';
import { defaultHttp2Limits } from '../limiter/http2/limits.ts';
import type { RequestHandler, RequestReceiver, RequestStream } from '../limiter/http2/request-handler.ts';
import { frame, settings, settingsAck, windowUpdate } from '../test/support/http2-frame-script.ts';

const rounds = 9;
const requestsPerRound = 400_000;
const requestBody = Buffer.alloc(60, 1);
const answerBody = Buffer.alloc(40, 2);
const responseFields = [':status', '200', 'content-type', 'application/grpc'];
const trailers = ['grpc-status', '0'];
const largestWindow = 2 ** 31 - 1;

function fieldsOf(timeout: string | undefined): string[] {
  return [
    ...[':method', 'POST', ':scheme', 'http', ':path'],
    ...['/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit', ':authority', 'limiter.weir:8081'],
    ...['te', 'trailers', 'content-type', 'application/grpc', 'user-agent', 'grpc-go/1.80.0'],
    ...(timeout === undefined ? [] : ['grpc-timeout', timeout]),
  ];
}

function answer(stream: RequestStream): void {
  stream.connection.respond(stream, responseFields, answerBody, trailers);
}

class BenchReceiver implements RequestReceiver {
  readonly #stream: RequestStream;
  readonly #waiting: RequestStream[] | undefined;

  constructor(stream: RequestStream, waiting: RequestStream[] | undefined) {
    this.#stream = stream;
    this.#waiting = waiting;
  }

  receive(_data: Uint8Array, endStream: boolean): void {
    if (!endStream) return;
    if (this.#waiting === undefined) answer(this.#stream);
    else this.#waiting.push(this.#stream);
  }
  abort(): void {}
}

/** Answers calls immediately, or together when `answerAll` is called, as after a reply of a store. */
class BenchHandler implements RequestHandler {
  readonly #waiting: RequestStream[] = [];
  readonly #atOnce: boolean;

  constructor(atOnce: boolean) {
    this.#atOnce = atOnce;
  }

  onRequest(stream: RequestStream): void {
    stream.receiver = new BenchReceiver(stream, this.#atOnce ? undefined : this.#waiting);
  }

  answerAll(): void {
    for (const stream of this.#waiting) answer(stream);
    this.#waiting.length = 0;
  }
}

/** Requests that arrive in one chunk. `advance` gives them the next stream identifiers. */
class RequestPiece {
  readonly bytes: Buffer;
  readonly #idOffsets: number[] = [];
  #nextId = 3;

  constructor(block: Buffer, count: number) {
    const frames: Buffer[] = [];
    let length = 0;
    for (let i = 0; i < count; i++) {
      for (const bytes of [
        frame(FrameType.HEADERS, Flag.END_HEADERS, 0, block),
        frame(FrameType.DATA, Flag.END_STREAM, 0, requestBody),
      ]) {
        this.#idOffsets.push(length + 5);
        length += bytes.length;
        frames.push(bytes);
      }
    }
    this.bytes = Buffer.concat(frames);
  }

  advance(): void {
    for (let i = 0; i < this.#idOffsets.length; i += 2) {
      this.bytes.writeUInt32BE(this.#nextId, this.#idOffsets[i] as number);
      this.bytes.writeUInt32BE(this.#nextId, this.#idOffsets[i + 1] as number);
      this.#nextId += 2;
    }
  }
}

function encoded(encoder: HpackEncoder, fields: string[]): Buffer {
  const target = Buffer.alloc(maxEncodedBytes(fields));
  return target.subarray(0, encoder.encode(fields, target, 0));
}

function microsecondsPerRequest(options: {
  perPiece: number;
  atOnce: boolean;
  timeout?: string;
  literal?: string;
}): number {
  const handler = new BenchHandler(options.atOnce);
  let written = 0;
  const connection = new Http2Connection({
    handler,
    transport: {
      write: (bytes) => {
        written += bytes.length;
        return true;
      },
      end: () => {},
      destroy: () => {},
      pause: () => {},
      resume: () => {},
    },
    limits: defaultHttp2Limits,
    nowMs: 0,
    scheduleFlush: () => {},
    onViolation: (reason) => {
      throw new Error(`the server ended the connection: ${reason}`);
    },
  });
  const encoder = new HpackEncoder({
    maxTableBytes: 4096,
    indexing: (name) => (name === options.literal ? Indexing.NONE : Indexing.INCREMENTAL),
  });
  const first = frame(
    FrameType.HEADERS,
    Flag.END_HEADERS | Flag.END_STREAM,
    1,
    encoded(encoder, fieldsOf(options.timeout)),
  );
  const opening = [clientPreface, settings([4, largestWindow]), settingsAck, windowUpdate(0, 2 ** 30)];
  connection.receive(Buffer.concat([...opening, first]), 0);
  const piece = new RequestPiece(encoded(encoder, fieldsOf(options.timeout)), options.perPiece);
  const turns = Math.floor(requestsPerRound / options.perPiece);
  const start = process.cpuUsage();
  for (let turn = 1; turn <= turns; turn++) {
    piece.advance();
    connection.receive(piece.bytes, turn);
    if (!options.atOnce) {
      handler.answerAll();
      connection.flush();
    }
  }
  const { user, system } = process.cpuUsage(start);
  if (written < turns * options.perPiece * answerBody.length) throw new Error('answers are missing');
  return (user + system) / (turns * options.perPiece);
}

const cases = {
  '1 a piece, answered at once': { perPiece: 1, atOnce: true },
  '1 a piece, answered later': { perPiece: 1, atOnce: false },
  '50 a piece, answered at once': { perPiece: 50, atOnce: true },
  '50 a piece, answered later': { perPiece: 50, atOnce: false },
  '50 a piece, :path Huffman-coded': { perPiece: 50, atOnce: false, literal: ':path' },
  '50 a piece, grpc-timeout as well': {
    perPiece: 50,
    atOnce: false,
    timeout: '20m',
    literal: 'grpc-timeout',
  },
};
for (const [name, options] of Object.entries(cases)) {
  const results = Array.from({ length: rounds }, () => microsecondsPerRequest(options)).sort((a, b) => a - b);
  const median = results[Math.floor(rounds / 2)] as number;
  console.log(`${name.padEnd(32)} ${median.toFixed(3)} µs a request (best ${results[0]?.toFixed(3)})`);
}
