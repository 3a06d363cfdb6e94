/** Frames as a client writes them, faults included: RFC 9113, sections 4.1 and 6. */
import { Flag, FrameType } from '../../limiter/http2/constants.ts';

export function frame(
  type: number,
  flags: number,
  streamId: number,
  payload: Uint8Array | number[] = [],
): Buffer {
  const body = Buffer.from(payload);
  const bytes = Buffer.alloc(9 + body.length);
  bytes.writeUIntBE(body.length, 0, 3);
  bytes[3] = type;
  bytes[4] = flags;
  bytes.writeUInt32BE(streamId, 5);
  bytes.set(body, 9);
  return bytes;
}

export function settings(...pairs: [identifier: number, value: number][]): Buffer {
  const payload = Buffer.alloc(6 * pairs.length);
  pairs.forEach(([identifier, value], index) => {
    payload.writeUInt16BE(identifier, 6 * index);
    payload.writeUInt32BE(value, 6 * index + 2);
  });
  return frame(FrameType.SETTINGS, 0, 0, payload);
}

export const settingsAck: Buffer = frame(FrameType.SETTINGS, Flag.ACK, 0);

export function ping(payload = '12345678', flags = 0): Buffer {
  return frame(FrameType.PING, flags, 0, Buffer.from(payload, 'latin1'));
}

export function data(streamId: number, body: string | Uint8Array, flags = 0): Buffer {
  return frame(FrameType.DATA, flags, streamId, Buffer.from(body as string));
}

/** DATA with so many bytes of padding. */
export function paddedData(streamId: number, body: string, padding: number, flags = 0): Buffer {
  const payload = Buffer.concat([Buffer.from([padding]), Buffer.from(body), Buffer.alloc(padding)]);
  return frame(FrameType.DATA, flags | Flag.PADDED, streamId, payload);
}

export function windowUpdate(streamId: number, increment: number): Buffer {
  return frame(FrameType.WINDOW_UPDATE, 0, streamId, uint32(increment));
}

export function resetStream(streamId: number, code: number): Buffer {
  return frame(FrameType.RST_STREAM, 0, streamId, uint32(code));
}

export function goAway(lastStreamId: number, code: number): Buffer {
  return frame(FrameType.GOAWAY, 0, 0, Buffer.concat([uint32(lastStreamId), uint32(code)]));
}

export function priority(streamId: number, dependency: number): Buffer {
  return frame(FrameType.PRIORITY, 0, streamId, Buffer.concat([uint32(dependency), Buffer.from([15])]));
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
