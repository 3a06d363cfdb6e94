/**
 * The floors: what the system and `node:net` alone take for a call. Every request gets the same bytes, whatever it says; with
 * `REDIS_PORT` once Redis has answered an `INCRBY`, one for each call, on a socket of its own. What the limiter takes beyond
 * that is its own work. Whatever one read brought is one write, on either side.
 * SIGUSR2 begins to count how many calls came alone in their turn of the event loop, and prints it the next time.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

import { ACK, clientPreface, END_STREAM, FrameType, frame, settingsFrame } from './http2-frames.ts';

const END_HEADERS = 0x4;
const frameHeaderBytes = 9;
const streamIdOffset = 5;
const lineFeed = 0x0a;
const minus = 0x2d;

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

function writeAll(socket: Socket, parts: readonly Buffer[]): void {
  if (parts.length > 0) socket.write(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
}

/** Answers the calls on these streams of a connection, now or later. */
type Serve = (socket: Socket, streamIds: readonly number[]) => void;

const serveAtOnce: Serve = (socket, streamIds) => writeAll(socket, streamIds.map(answerTo));

/** Replies come in the order of the commands: who waits longest is answered by the next one. */
function serveAfterRedis(port: number): Serve {
  const key = 'bench_remote_address_10.0.0.1_1600000000';
  const command = Buffer.from(`*3\r\n$6\r\nINCRBY\r\n$${key.length}\r\n${key}\r\n$1\r\n1\r\n`);
  const redis = connect({ host: '127.0.0.1', port, noDelay: true });
  const waiting: { socket: Socket; streamId: number }[] = [];
  redis.on('data', (chunk: Buffer) => {
    const answers = new Map<Socket, Buffer[]>();
    // A line is `:`, a number, CRLF, of which only the end matters; an error begins with a minus.
    let at = 0;
    for (let end = chunk.indexOf(lineFeed); end >= 0; end = chunk.indexOf(lineFeed, at)) {
      if (chunk[at] === minus) throw new Error(`Redis said ${chunk.toString('latin1', at, end)}`);
      at = end + 1;
      const { socket, streamId } = waiting.shift() as (typeof waiting)[number];
      const own = answers.get(socket);
      if (own === undefined) answers.set(socket, [answerTo(streamId)]);
      else own.push(answerTo(streamId));
    }
    for (const [socket, parts] of answers) writeAll(socket, parts);
  });
  return (socket, streamIds) => {
    for (const streamId of streamIds) waiting.push({ socket, streamId });
    writeAll(
      redis,
      streamIds.map(() => command),
    );
  };
}

/** Calls of the present turn, and of all turns since the signal; undefined while nobody wants to know. */
let turns: { now: number; calls: number; alone: number } | undefined;

function noteCalls(count: number): void {
  if (turns === undefined || count === 0) return;
  turns.calls += count;
  turns.now += count;
  // The check phase follows the poll phase that brings all reads of a turn.
  if (turns.now === count) setImmediate(endTurn);
}

function endTurn(): void {
  if (turns === undefined) return;
  if (turns.now === 1) turns.alone += 1;
  turns.now = 0;
}

process.on('SIGUSR2', () => {
  if (turns !== undefined) console.log(`alone ${turns.alone} of ${turns.calls}`);
  turns = turns === undefined ? { now: 0, calls: 0, alone: 0 } : undefined;
});

const redisPort = process.env['REDIS_PORT'];
const serve = redisPort === undefined ? serveAtOnce : serveAfterRedis(Number(redisPort));

function accept(socket: Socket): void {
  socket.setNoDelay(true);
  socket.write(Buffer.concat([settingsFrame([]), frame(FrameType.SETTINGS, ACK, 0, Buffer.alloc(0))]));
  let rest: Buffer = Buffer.alloc(0);
  let prefaceBytes = clientPreface.length;
  socket.on('data', (chunk: Buffer) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = Math.min(prefaceBytes, bytes.length);
    prefaceBytes -= at;
    const streamIds: number[] = [];
    while (at + frameHeaderBytes <= bytes.length) {
      const end = at + frameHeaderBytes + bytes.readUIntBE(at, 3);
      if (end > bytes.length) break;
      const isRequestsEnd =
        bytes[at + 3] === FrameType.DATA && ((bytes[at + 4] as number) & END_STREAM) !== 0;
      if (isRequestsEnd) streamIds.push(bytes.readUInt32BE(at + streamIdOffset));
      at = end;
    }
    rest = bytes.subarray(at);
    noteCalls(streamIds.length);
    serve(socket, streamIds);
  });
  socket.on('error', () => {});
}

const server = createServer(accept);
server.listen(0, '127.0.0.1', () => {
  console.log(`listening ${(server.address() as AddressInfo).port}`);
});
process.on('SIGTERM', () => process.exit(0));
