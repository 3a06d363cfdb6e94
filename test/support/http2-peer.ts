/** Plays the client of an Http2Connection in memory: frames in, and what comes back reported in words. */
import { HpackDecoder } from '../../limiter/hpack/decoder.ts';
import { HpackEncoder, maxEncodedBytes } from '../../limiter/hpack/encoder.ts';
import { Http2Connection } from '../../limiter/http2/connection.ts';
import { clientPreface, ErrorCode, Flag, FrameType } from '../../limiter/http2/constants.ts';
import { defaultHttp2Limits, type Http2Limits } from '../../limiter/http2/limits.ts';
import type {
  HeaderFields,
  RequestHandler,
  RequestStream,
  Transport,
} from '../../limiter/http2/request-handler.ts';
import { frame, settings, settingsAck } from './http2-frame-script.ts';

/** The fields that every request of a gRPC client has. */
export const requestFields: HeaderFields = [
  ...[':method', 'POST', ':scheme', 'http', ':path', '/a.B/C', ':authority', 'localhost'],
  ...['te', 'trailers', 'content-type', 'application/grpc'],
];
export const responseFields: HeaderFields = [':status', '200', 'content-type', 'application/grpc'];
export const trailerFields: HeaderFields = ['grpc-status', '0'];

/** Takes what is written; `full` makes it a socket whose peer does not read. */
export class MemoryTransport implements Transport {
  readonly written: Buffer[] = [];
  readonly calls: string[] = [];
  full = false;

  write(bytes: Uint8Array): boolean {
    this.written.push(Buffer.from(bytes));
    return !this.full;
  }
  end(): void {
    this.calls.push('end');
  }
  destroy(): void {
    this.calls.push('destroy');
  }
  pause(): void {
    this.calls.push('pause');
  }
  resume(): void {
    this.calls.push('resume');
  }
}

/** Says what it sees, and answers complete requests with their own body unless `silent`. */
export class EchoHandler implements RequestHandler {
  readonly seen: string[] = [];
  readonly streams = new Map<number, RequestStream>();
  readonly #bodies = new Map<RequestStream, Buffer>();
  silent: boolean;

  constructor(silent = false) {
    this.silent = silent;
  }

  onRequest(stream: RequestStream, fields: HeaderFields, endStream: boolean): void {
    stream.receiver = {
      receive: (bytes, isLast) => this.onData(stream, bytes, isLast),
      abort: (code) => this.onAbort(stream, code),
    };
    this.streams.set(stream.id, stream);
    this.seen.push(`request ${stream.id} ${fields[fields.indexOf(':path') + 1]}${endStream ? ' end' : ''}`);
    if (endStream) this.#answer(stream);
  }
  onData(stream: RequestStream, bytes: Uint8Array, endStream: boolean): void {
    this.#bodies.set(stream, Buffer.concat([this.#bodies.get(stream) ?? Buffer.alloc(0), bytes]));
    this.seen.push(`data ${stream.id} ${bytes.length}${endStream ? ' end' : ''}`);
    if (endStream) this.#answer(stream);
  }
  onAbort(stream: RequestStream, code: ErrorCode): void {
    this.seen.push(`abort ${stream.id} ${codeName(code)}`);
  }

  #answer(stream: RequestStream): void {
    if (this.silent) return;
    const body = this.#bodies.get(stream) ?? Buffer.alloc(0);
    stream.connection.respond(stream, responseFields, body, trailerFields);
  }
}

/** Sends on a stream, if there is one. */
export function writerOf(stream: RequestStream | undefined) {
  const connection = stream?.connection;
  return {
    respond: (fields: HeaderFields, body: Uint8Array, trailers: HeaderFields, lead?: Uint8Array) =>
      connection?.respond(stream!, fields, body, trailers, lead),
    sendHeaders: (fields: HeaderFields, endStream: boolean) =>
      connection?.sendHeaders(stream!, fields, endStream),
    sendData: (body: Uint8Array) => connection?.sendData(stream!, body),
    sendTrailers: (fields: HeaderFields) => connection?.sendTrailers(stream!, fields),
    hold: (bytes: number) => connection?.hold(stream!, bytes),
    reset: (code: ErrorCode) => connection?.reset(stream!, code),
    probe: (onAnswer: () => void) => connection?.probe(stream!, onAnswer),
  };
}

export interface PeerOptions {
  limits?: Partial<Http2Limits>;
  handler?: RequestHandler;
}

export class Http2Peer {
  readonly transport = new MemoryTransport();
  readonly handler: EchoHandler;
  readonly violations: string[] = [];
  /** What was thrown where one was `internal_error`. */
  readonly thrown: unknown[] = [];
  unfinishedRequests = 0;
  sheds = 0;
  /** What the connection said last that it holds. */
  bufferedBytes = 0;
  readonly connection: Http2Connection;
  nowMs = 1000;
  closes = 0;
  /** Of the last GOAWAY. */
  debugData = '';
  flushes = 0;
  readonly #encoder = new HpackEncoder({ maxTableBytes: 4096 });
  readonly #decoder = new HpackDecoder({ maxTableBytes: 4096, maxListBytes: 1_000_000 });
  #unread: Buffer = Buffer.alloc(0);

  constructor(options: PeerOptions = {}) {
    this.handler = (options.handler as EchoHandler | undefined) ?? new EchoHandler();
    this.connection = new Http2Connection({
      handler: this.handler,
      transport: this.transport,
      limits: { ...defaultHttp2Limits, ...options.limits },
      nowMs: this.nowMs,
      scheduleFlush: () => {
        this.flushes += 1;
      },
      onViolation: (reason, error) => {
        this.violations.push(reason);
        if (error !== undefined) this.thrown.push(error);
      },
      onUnfinishedRequest: () => {
        this.unfinishedRequests += 1;
      },
      onShed: () => {
        this.sheds += 1;
      },
      onBufferedBytes: (bytes) => {
        this.bufferedBytes = bytes;
      },
      onClose: () => {
        this.closes += 1;
      },
    });
  }

  /** A peer whose preface, SETTINGS and acknowledgement went over. */
  static opened(options: PeerOptions = {}): Http2Peer {
    const peer = new Http2Peer(options);
    peer.send(clientPreface, settings(), settingsAck);
    peer.frames();
    return peer;
  }

  send(...pieces: Uint8Array[]): void {
    this.connection.receive(Buffer.concat(pieces), this.nowMs);
  }

  /** Lets time pass, with ticks of 500 ms. */
  pass(ms: number): void {
    for (let left = ms; left > 0; left -= 500) {
      this.nowMs += Math.min(500, left);
      this.connection.tick(this.nowMs);
    }
  }

  block(fields: HeaderFields): Buffer {
    const target = Buffer.alloc(maxEncodedBytes(fields));
    return target.subarray(0, this.#encoder.encode(fields, target, 0));
  }

  headers(streamId: number, fields: HeaderFields = requestFields, flags = 0): Buffer {
    return frame(FrameType.HEADERS, Flag.END_HEADERS | flags, streamId, this.block(fields));
  }

  /** One whole call. */
  call(streamId: number, body = 'hello'): Buffer {
    const bytes = Buffer.from(body);
    return Buffer.concat([this.headers(streamId), frame(FrameType.DATA, Flag.END_STREAM, streamId, bytes)]);
  }

  /** What the server wrote since the last time, flushed or not, in words. */
  frames(): string[] {
    this.connection.flush();
    const bytes = Buffer.concat([this.#unread, ...this.transport.written.splice(0)]);
    const reported: string[] = [];
    let at = 0;
    while (at + 9 <= bytes.length) {
      const end = at + 9 + bytes.readUIntBE(at, 3);
      if (end > bytes.length) break;
      reported.push(
        this.#report(
          bytes[at + 3] as number,
          bytes[at + 4] as number,
          bytes.readUInt32BE(at + 5),
          bytes.subarray(at + 9, end),
        ),
      );
      at = end;
    }
    this.#unread = bytes.subarray(at);
    return reported;
  }

  #report(type: number, flags: number, id: number, payload: Buffer): string {
    const end = (flags & Flag.END_STREAM) !== 0 ? ' end' : '';
    switch (type) {
      case FrameType.HEADERS: {
        if ((flags & Flag.END_HEADERS) === 0) return `HEADERS ${id} goes on${end}`;
        const fields: string[] = [];
        this.#decoder.decode(payload, 0, payload.length, fields);
        return `HEADERS ${id} ${fields.join(' ')}${end}`;
      }
      case FrameType.CONTINUATION:
        return `CONTINUATION ${id}${(flags & Flag.END_HEADERS) !== 0 ? ' last' : ''}`;
      case FrameType.DATA:
        return `DATA ${id} ${payload.length > 32 ? payload.length : payload.toString()}${end}`;
      case FrameType.RST_STREAM:
        return `RST_STREAM ${id} ${codeName(payload.readUInt32BE(0))}`;
      case FrameType.GOAWAY:
        this.debugData = payload.toString('utf8', 8);
        return `GOAWAY ${payload.readUInt32BE(0)} ${codeName(payload.readUInt32BE(4))}`;
      case FrameType.WINDOW_UPDATE:
        return `WINDOW_UPDATE ${id} ${payload.readUInt32BE(0)}`;
      case FrameType.PING:
        return `PING${(flags & Flag.ACK) !== 0 ? ' ACK' : ''} ${payload.toString('latin1')}`;
      case FrameType.SETTINGS:
        return (flags & Flag.ACK) !== 0 ? 'SETTINGS ACK' : `SETTINGS ${reportSettings(payload)}`;
      default:
        return `type ${type}`;
    }
  }
}

function reportSettings(payload: Buffer): string {
  const reported: string[] = [];
  for (let at = 0; at < payload.length; at += 6) {
    reported.push(`${payload.readUInt16BE(at)}=${payload.readUInt32BE(at + 2)}`);
  }
  return reported.join(' ');
}

function codeName(code: number): string {
  return Object.entries(ErrorCode).find(([, value]) => value === code)?.[0] ?? `code ${code}`;
}
