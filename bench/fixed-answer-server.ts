/**
 * What the system and `node:net` alone take for a call: every request gets the same bytes, whatever it says. No server on
 * `node:net` can be cheaper; what the limiter takes beyond it is its own work.
 */
import { type AddressInfo, createServer, type Socket } from 'node:net';

import { ACK, clientPreface, END_STREAM, FrameType, frame, settingsFrame } from './http2-frames.ts';

const END_HEADERS = 0x4;
const frameHeaderBytes = 9;
const streamIdOffset = 5;

/** HEADERS with `:status: 200` of the static table, DATA as long as a limiter's answer, HEADERS in place of trailers. */
const answerFrames = [
  frame(FrameType.HEADERS, END_HEADERS, 0, Buffer.from([0x88])),
  frame(FrameType.DATA, 0, 0, Buffer.alloc(24)),
  frame(FrameType.HEADERS, END_HEADERS | END_STREAM, 0, Buffer.from([0x88])),
];
const answer = Buffer.concat(answerFrames);
const streamIdOffsets = answerFrames.map((_, index) =>
  answerFrames.slice(0, index).reduce((sum, { length }) => sum + length, streamIdOffset),
);

function answerTo(streamId: number): Buffer {
  const bytes = Buffer.from(answer);
  for (const offset of streamIdOffsets) bytes.writeUInt32BE(streamId, offset);
  return bytes;
}

function serve(socket: Socket): void {
  socket.setNoDelay(true);
  socket.write(Buffer.concat([settingsFrame([]), frame(FrameType.SETTINGS, ACK, 0, Buffer.alloc(0))]));
  let rest: Buffer = Buffer.alloc(0);
  let prefaceBytes = clientPreface.length;
  socket.on('data', (chunk: Buffer) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = Math.min(prefaceBytes, bytes.length);
    prefaceBytes -= at;
    const output: Buffer[] = [];
    while (at + frameHeaderBytes <= bytes.length) {
      const end = at + frameHeaderBytes + bytes.readUIntBE(at, 3);
      if (end > bytes.length) break;
      const isRequestsEnd =
        bytes[at + 3] === FrameType.DATA && ((bytes[at + 4] as number) & END_STREAM) !== 0;
      if (isRequestsEnd) output.push(answerTo(bytes.readUInt32BE(at + streamIdOffset)));
      at = end;
    }
    rest = bytes.subarray(at);
    if (output.length > 0) socket.write(output.length === 1 ? (output[0] as Buffer) : Buffer.concat(output));
  });
  socket.on('error', () => {});
}

const server = createServer(serve);
server.listen(0, '127.0.0.1', () => {
  console.log(`listening ${(server.address() as AddressInfo).port}`);
});
process.on('SIGTERM', () => process.exit(0));
