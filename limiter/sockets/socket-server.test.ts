import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { ConnectionMemory } from '../../process/net/connection-memory.ts';
import { LoopTurns } from '../../process/queues/loop-turns.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { eventually } from '../../test/support/eventually.ts';
import { writerOf } from '../../test/support/http2-peer.ts';
import { defaultHttp2Limits } from '../http2/limits.ts';
import type { RequestHandler, RequestStream } from '../http2/request-handler.ts';
import {
  Http2SocketServer,
  type Http2SocketServerOptions,
  type RejectedConnection,
} from './socket-server.ts';

/** A handler that does not answer until asked to. */
class WaitingHandler implements RequestHandler {
  readonly streams: RequestStream[] = [];
  aborted = 0;

  onRequest(stream: RequestStream): void {
    this.streams.push(stream);
    stream.receiver = {
      receive: () => {},
      abort: () => {
        this.aborted += 1;
      },
    };
  }
}

const running: Http2SocketServer[] = [];
afterEach(() => Promise.all(running.splice(0).map((server) => server.close(0))));

interface World {
  server: Http2SocketServer;
  handler: WaitingHandler;
  refusals: RejectedConnection['reason'][];
  refused: RejectedConnection[];
  faults: unknown[];
  port: number;
}

async function start(
  options: Partial<Http2SocketServerOptions> = {},
  whileOpening = (_server: Http2SocketServer): void => {},
): Promise<World> {
  const handler = new WaitingHandler();
  const refusals: RejectedConnection['reason'][] = [];
  const refused: RejectedConnection[] = [];
  const faults: unknown[] = [];
  const server = new Http2SocketServer({
    handler,
    limits: defaultHttp2Limits,
    maxConnections: 100,
    tls: undefined,
    clock: systemClock,
    timers: systemTimers,
    random: () => 0.5,
    listener: {
      rejected: (connection) => {
        refused.push(connection);
        refusals.push(connection.reason);
      },
      certificateInUse: () => {},
      certificateRejected: () => {},
    },
    onFault: (error) => faults.push(error),
    ...options,
  });
  running.push(server);
  const opening = server.listen({ host: '127.0.0.1', port: 0 });
  whileOpening(server);
  const { port } = await opening;
  return { server, handler, refusals, refused, faults, port };
}

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1');
const settingsAck = Buffer.from([0, 0, 0, 4, 1, 0, 0, 0, 0]);

/** A request without a body: every field except its authority has its number in HPACK's static table. */
function requestFrame(streamId: number): Buffer {
  const block = [0x83, 0x86, 0x84, 0x01, 1, 0x61];
  return Buffer.from([0, 0, block.length, 1, 5, 0, 0, 0, streamId, ...block]);
}

/** A client of raw frames. */
class RawClient {
  readonly socket: Socket;
  /** The bytes of each event. */
  readonly chunks: Buffer[] = [];
  isClosed = false;

  constructor(port: number, options: { allowHalfOpen?: boolean } = {}) {
    this.socket = connect({ port, host: '127.0.0.1', ...options });
    this.socket.on('data', (chunk: Buffer) => this.chunks.push(chunk));
    this.socket.on('error', () => {});
    this.socket.on('close', () => {
      this.isClosed = true;
    });
    onTestFinished(() => void this.socket.destroy());
  }

  write(...frames: Buffer[]): void {
    this.socket.write(Buffer.concat(frames));
  }

  /** The received frame types, in order. */
  get frameTypes(): number[] {
    const bytes = Buffer.concat(this.chunks);
    const types: number[] = [];
    for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) {
      types.push(bytes[at + 3] as number);
    }
    return types;
  }
}

/** Opens this number of requests, which the handler holds. */
async function withRequests(world: World, count: number, options = {}): Promise<RawClient> {
  const client = new RawClient(world.port, options);
  const before = world.handler.streams.length;
  const requests = Array.from({ length: count }, (_, index) => requestFrame(2 * index + 1));
  client.write(preface, settingsAck, ...requests);
  await eventually(() => expect(world.handler.streams).toHaveLength(before + count));
  return client;
}

const [data, headers, resetStream, goAway] = [0, 1, 3, 7];
const ok = [':status', '200'];
const trailers = ['grpc-status', '0'];

describe('Http2SocketServer', () => {
  it('writes the answers of one turn at once', async () => {
    const world = await start();
    const client = await withRequests(world, 20);
    await eventually(() => expect(client.chunks.length).toBeGreaterThan(0));
    client.chunks.length = 0;
    for (const stream of world.handler.streams) writerOf(stream).respond(ok, Buffer.of(1), trailers);
    await eventually(() =>
      expect(client.frameTypes).toEqual(Array.from({ length: 20 }, () => [headers, data, headers]).flat()),
    );
    expect(client.chunks).toHaveLength(1);
  });

  it('hears of calls whose caller is gone, and continues with the others', async () => {
    const world = await start();
    const [first, second] = [await withRequests(world, 3), await withRequests(world, 1)];
    first.socket.resetAndDestroy();
    await eventually(() => expect(world.handler.aborted).toBe(3));
    expect(world.server.connections).toBe(1);
    for (const stream of world.handler.streams) writerOf(stream).respond(ok, Buffer.of(1), trailers);
    await eventually(() => expect(second.frameTypes.slice(-3)).toEqual([headers, data, headers]));
    expect(world.refusals).toEqual([]);
  });

  it('answers a caller that only ended its own side', async () => {
    const world = await start();
    const client = await withRequests(world, 1, { allowHalfOpen: true });
    client.socket.end();
    await new Promise((resolve) => setImmediate(resolve));
    writerOf(world.handler.streams[0]).respond(ok, Buffer.of(1), trailers);
    await eventually(() => expect(client.isClosed).toBe(true));
    expect(client.frameTypes.slice(-3)).toEqual([headers, data, headers]);
    expect(world.server.connections).toBe(0);
  });

  it('ends with a caller that only ended its own side, and gets an answer without an end', async () => {
    const world = await start();
    const client = await withRequests(world, 1, { allowHalfOpen: true });
    const watch = world.handler.streams[0] as RequestStream;
    watch.answerIsStream = true;
    writerOf(watch).sendHeaders(ok, false);
    client.socket.end();
    await eventually(() => expect(world.handler.aborted).toBe(1));
    await eventually(() => expect(client.isClosed).toBe(true));
    expect([world.server.connections, world.refusals]).toEqual([0, []]);
  });

  it('resets a request that does not end in time, names its peer, and serves the others', async () => {
    const world = await start({ limits: { ...defaultHttp2Limits, requestTimeoutMs: 500 } });
    const client = await withRequests(world, 1);
    const beginning = requestFrame(3);
    beginning[4] = 4;
    client.write(beginning);
    await eventually(() => expect(client.frameTypes).toContain(resetStream));
    const peer = `127.0.0.1:${client.socket.localPort}`;
    const problem = 'it did not complete a request in time';
    expect(world.refused).toEqual([{ reason: 'unfinished_request', peer, problem }]);
    writerOf(world.handler.streams[0]).respond(ok, Buffer.of(1), trailers);
    await eventually(() => expect(client.frameTypes.slice(-3)).toEqual([headers, data, headers]));
  });

  it('says what a handler threw', async () => {
    const defect = new Error('a defect');
    const throwing = new WaitingHandler();
    throwing.onRequest = () => {
      throw defect;
    };
    const world = await start({ handler: throwing });
    const client = new RawClient(world.port);
    client.write(preface, settingsAck, requestFrame(1));
    await eventually(() => expect(client.isClosed).toBe(true));
    expect([world.refusals, world.faults]).toEqual([['internal_error'], [defect]]);
  });

  it('closes what speaks no HTTP/2, and counts why', async () => {
    const world = await start();
    const client = new RawClient(world.port);
    await once(client.socket, 'connect');
    const { localPort } = client.socket;
    client.socket.write('GET / HTTP/1.1\r\n\r\n');
    await eventually(() => expect(client.isClosed).toBe(true));
    expect(client.chunks).toEqual([]);
    expect(world.refused).toEqual([
      {
        reason: 'not_http2',
        peer: `127.0.0.1:${localPort}`,
        problem: 'it does not speak HTTP/2 (perhaps HTTP/1.1, or TLS on a port without TLS)',
      },
    ]);
  });

  it('ends by itself a peer that does not hang up', async () => {
    const world = await start();
    const client = new RawClient(world.port, { allowHalfOpen: true });
    client.socket.write('GET / HTTP/1.1\r\n\r\n');
    await eventually(() => expect(world.server.connections).toBe(0));
  });

  it('ends with a client that does not read its answers', async () => {
    const world = await start();
    const client = await withRequests(world, 1);
    // With this credit, only the socket can delay the answer.
    const window = (id: number): Buffer => Buffer.from([0, 0, 4, 8, 0, 0, 0, 0, id, 0x7f, 0, 0, 0]);
    client.write(window(0), window(1));
    client.socket.pause();
    writerOf(world.handler.streams[0]).sendHeaders(ok, false);
    const filling = setInterval(() => writerOf(world.handler.streams[0]).sendData(Buffer.alloc(262_144)), 5);
    onTestFinished(() => clearInterval(filling));
    await eventually(() => expect(world.refusals).toEqual(['slow_reader']));
    await eventually(() => expect(world.server.connections).toBe(0));
  });

  it('counts what waits for its turn among what is held, and ends connections that have nothing else to end', async () => {
    let nowMs = 0;
    // Each reading of the clock is 5 ms later, so no other connection gets a turn.
    const clock = { nowMs: () => nowMs, monotonicMs: () => (nowMs += 5) };
    const turns = new LoopTurns({ clock, later: () => {} });
    const connectionMemory = new ConnectionMemory({ maxBytes: 60_000, timers: systemTimers });
    const world = await start({ clock, turns, connectionMemory });
    const client = new RawClient(world.port);
    const unknown = Buffer.concat([Buffer.from([0, 4, 0, 0x42, 0, 0, 0, 0, 0]), Buffer.alloc(1024)]);
    client.write(preface, settingsAck, ...new Array<Buffer>(60).fill(unknown));
    await eventually(() => expect(connectionMemory.bytes).toBeGreaterThan(30_000));
    expect([connectionMemory.bytes <= 47_000, world.refusals]).toEqual([true, []]);
    client.write(...new Array<Buffer>(60).fill(unknown));
    await eventually(() => expect(world.refusals).toEqual(['too_many_bytes']));
    await eventually(() => expect(client.isClosed).toBe(true));
    expect([client.frameTypes.at(-1), connectionMemory.bytes]).toEqual([goAway, 0]);
  });

  it('lets running calls end at its close, and takes no new connection', async () => {
    const world = await start();
    const client = await withRequests(world, 1);
    const idle = await withRequests(world, 0);
    const closed = world.server.close(60_000);
    await eventually(() => expect(client.frameTypes).toContain(goAway));
    const late = new RawClient(world.port);
    await eventually(() => expect(late.isClosed).toBe(true));
    writerOf(world.handler.streams[0]).respond(ok, Buffer.of(1), trailers);
    await closed;
    await eventually(() => expect([client.isClosed, idle.isClosed]).toEqual([true, true]));
    expect(client.frameTypes).toContain(data);
  });

  it('closes the listener that it was still opening at its close', async () => {
    const { port } = await start({}, (server) => void server.close(0));
    const client = new RawClient(port);
    await eventually(() => expect(client.isClosed).toBe(true));
  });

  it('cuts what outlasts the grace', async () => {
    const world = await start();
    const client = await withRequests(world, 1);
    await world.server.close(20);
    await eventually(() => expect(client.isClosed).toBe(true));
    expect(world.handler.aborted).toBe(1);
  });
});
