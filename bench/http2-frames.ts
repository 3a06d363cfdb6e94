/**
 * As much of HTTP/2 as a load generator needs to say (RFC 9113, section 4.1; RFC 7541, section 6.2.2): it sends
 * header fields as literals that enter no table, so that one block serves every request.
 */
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

/** SETTINGS from pairs of identifier and value. RFC 9113, section 6.5. */
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

/** HEADERS and DATA of one gRPC call in one piece; `streamIdOffsets` are where the stream's number goes. */
export interface CallTemplate {
  bytes: Buffer;
  streamIdOffsets: readonly [number, number];
}

/** `metadata`: further fields, name and value. */
export function callTemplate(
  path: string,
  message: Uint8Array,
  metadata: readonly (readonly [name: string, value: string])[] = [],
): CallTemplate {
  const block = Buffer.concat(
    [
      [':method', 'POST'],
      [':scheme', 'http'],
      [':path', path],
      [':authority', 'localhost'],
      ['te', 'trailers'],
      ['content-type', 'application/grpc'],
      ...metadata,
    ].flatMap(([name, value]) => [literalField(name as string, value as string)]),
  );
  const body = Buffer.alloc(5 + message.length);
  body.writeUInt32BE(message.length, 1);
  body.set(message, 5);
  const headers = frame(FrameType.HEADERS, END_HEADERS, 0, block);
  return {
    bytes: Buffer.concat([headers, frame(FrameType.DATA, END_STREAM, 0, body)]),
    streamIdOffsets: [5, headers.length + 5],
  };
}

function literalField(name: string, value: string): Buffer {
  if (name.length > 126 || value.length > 126) throw new RangeError('a header of more than 126 bytes');
  return Buffer.from(
    `\0${String.fromCharCode(name.length)}${name}${String.fromCharCode(value.length)}${value}`,
    'latin1',
  );
}
