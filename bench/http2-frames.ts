/** The HTTP/2 frames that a load generator sends. RFC 9113, section 4.1. */
import { HpackEncoder, Indexing, maxEncodedBytes } from '../limiter/hpack/encoder.ts';

export const FrameType = {
  DATA: 0,
  HEADERS: 1,
  RST_STREAM: 3,
  SETTINGS: 4,
  PING: 6,
  GOAWAY: 7,
  WINDOW_UPDATE: 8,
} as const;

export const END_STREAM = 0x1;
export const ACK = 0x1;
const END_HEADERS = 0x4;

export const clientPreface: Buffer = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');

export function frame(type: number, flags: number, streamId: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.alloc(9 + payload.length);
  bytes.writeUIntBE(payload.length, 0, 3);
  bytes[3] = type;
  bytes[4] = flags;
  bytes.writeUInt32BE(streamId, 5);
  bytes.set(payload, 9);
  return bytes;
}

/** Returns SETTINGS with these pairs of identifier and value. RFC 9113, section 6.5. */
export function settingsFrame(pairs: readonly (readonly [number, number])[]): Buffer {
  const payload = Buffer.alloc(6 * pairs.length);
  pairs.forEach(([identifier, value], index) => {
    payload.writeUInt16BE(identifier, 6 * index);
    payload.writeUInt32BE(value, 6 * index + 2);
  });
  return frame(FrameType.SETTINGS, 0, 0, payload);
}

export function windowUpdateFrame(streamId: number, increment: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(increment);
  return frame(FrameType.WINDOW_UPDATE, 0, streamId, payload);
}

/** HEADERS and DATA of one gRPC call in one buffer. `streamIdOffsets` are the offsets of the stream identifier. */
export interface CallTemplate {
  bytes: Buffer;
  streamIdOffsets: readonly [number, number];
}

/** Creates a call whose header fields are literals without indexing (RFC 7541, section 6.2.2), so that it can be sent at any time. */
export function callTemplate(path: string, message: Uint8Array): CallTemplate {
  const fields = [':method', 'POST', ':scheme', 'http', ':path', path, ':authority', 'localhost'];
  const literals = new HpackEncoder({ maxTableBytes: 4096, indexing: () => Indexing.NONE });
  return templateOf(
    encoded(literals, [...fields, 'te', 'trailers', 'content-type', 'application/grpc']),
    message,
  );
}

/** The calls of one client. `opening` is the first call on each connection, and `calls` follow in any order. */
export interface ClientCalls {
  opening: CallTemplate;
  calls: readonly CallTemplate[];
}

/**
 * Creates the calls that Envoy sends to its rate limit service. Envoy's log at debug level shows the fields in this order, and nghttp2
 * indexes all of them except the path and secrets. `metadata`: additional fields, alternating names and values. `timeout`: Envoy's
 * default.
 */
export function envoyCalls(
  path: string,
  messages: readonly Uint8Array[],
  metadata: readonly string[] = [],
  timeout = '20m',
): ClientCalls {
  const fields = [
    ...[':method', 'POST', ':path', path, ':authority', 'ratelimit', ':scheme', 'http', 'te', 'trailers'],
    ...['grpc-timeout', timeout, 'content-type', 'application/grpc', 'x-envoy-internal', 'true'],
    ...['x-forwarded-for', '10.0.0.1', 'x-envoy-expected-rq-timeout-ms', '20', ...metadata],
  ];
  const encoder = new HpackEncoder({ maxTableBytes: 4096, indexing });
  const opening = templateOf(encoded(encoder, fields), messages[0] as Uint8Array);
  const block = encoded(encoder, fields);
  return { opening, calls: messages.map((message) => templateOf(block, message)) };
}

function indexing(name: string): Indexing {
  if (name === 'authorization') return Indexing.NEVER;
  return name === ':path' ? Indexing.NONE : Indexing.INCREMENTAL;
}

function encoded(encoder: HpackEncoder, fields: readonly string[]): Buffer {
  const target = Buffer.alloc(maxEncodedBytes(fields));
  return target.subarray(0, encoder.encode(fields, target, 0));
}

function templateOf(block: Buffer, message: Uint8Array): CallTemplate {
  const body = Buffer.alloc(5 + message.length);
  body.writeUInt32BE(message.length, 1);
  body.set(message, 5);
  const headers = frame(FrameType.HEADERS, END_HEADERS, 0, block);
  return {
    bytes: Buffer.concat([headers, frame(FrameType.DATA, END_STREAM, 0, body)]),
    streamIdOffsets: [5, headers.length + 5],
  };
}
