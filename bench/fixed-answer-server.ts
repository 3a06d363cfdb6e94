/**
 * The floors: servers that need only the CPU time of the system and `node:net`. Every request gets the same bytes. With `REDIS_PORT`, the
 * answer follows Redis' reply to an `INCRBY`; there is one for each call, on a separate socket. The difference to the limiter's CPU time
 * is the limiter's own work. Both sides combine the results of one read into one write.
 * The first SIGUSR2 starts to count the calls that arrive alone in their turn of the event loop, and the next one prints the count.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

import { ACK, clientPreface, END_STREAM, FrameType, frame, settingsFrame } from './http2-frames.ts';

const END_HEADERS = 0x4;
const frameHeaderBytes = 9;
const streamIdOffset = 5;
const lineFeed = 0x0a;
const minus = 0x2d;

/** HEADERS with `:status: 200` of the static table, DATA of the same length as a limiter's answer, and HEADERS instead of trailers. */
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

/** Answers the calls on these streams of a connection, immediately or later. */
type Serve = (socket: Socket, streamIds: readonly number[]) => void;

const serveAtOnce: Serve = (socket, streamIds) => writeAll(socket, streamIds.map(answerTo));

/** Replies arrive in the order of the commands, so each reply answers the call that has waited longest. */
function serveAfterRedis(port: number): Serve {
  const key = 'bench_remote_address_10.0.0.1_1600000000';
  const command = Buffer.from(`*3\r\n$6\r\nINCRBY\r\n$${key.length}\r\n${key}\r\n$1\r\n1\r\n`);
  const redis = connect({ host: '127.0.0.1', port, noDelay: true });
  const waiting: { socket: Socket; streamId: number }[] = [];
  redis.on('data', (chunk: Buffer) => {
    const answers = new Map<Socket, Buffer[]>();
    // A line is `:`, a number and CRLF, but only its end matters. An error begins with a minus.
    let at = 0;
    for (let end = chunk.indexOf(lineFeed); end >= 0; end = chunk.indexOf(lineFeed, at)) {
      if (chunk[at] === minus) throw new Error(`Redis answered ${chunk.toString('latin1', at, end)}`);
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

/** The number of calls in the current turn, and in all turns since the signal. Undefined unless calls are being counted. */
let turns: { now: number; calls: number; alone: number } | undefined;

function noteCalls(count: number): void {
  if (turns === undefined || count === 0) return;
  turns.calls += count;
  turns.now += count;
  // The check phase follows the poll phase, which has all reads of a turn.
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
