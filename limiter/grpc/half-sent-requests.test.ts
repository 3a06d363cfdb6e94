/** Callers that begin requests and do not end them, over real sockets. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, expect, it, onTestFinished } from 'vitest';
import { Health } from '../../process/grpc/health.ts';
import { ConnectionMemory } from '../../process/net/connection-memory.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { eventually } from '../../test/support/eventually.ts';
import { data, settings, settingsAck } from '../../test/support/http2-frame-script.ts';
import { headersFrame, type PeerStream, SocketPeer } from '../../test/support/socket-peer.ts';
import { clientPreface, Flag } from '../http2/constants.ts';
import { defaultGrpcLimits, withPrefix } from './message-reader.ts';
import { createGrpcServer, type GrpcServer } from './server.ts';

const running: GrpcServer[] = [];
afterEach(() => Promise.all(running.splice(0).map((server) => server.shutdown())));

async function start(
  options: { connectionMemory?: ConnectionMemory } = {},
): Promise<{ server: GrpcServer; port: number }> {
  const server = createGrpcServer({
    unary: new Map([['/a.B/Count', (request, reply) => reply.send(Buffer.from(String(request.length)))]]),
    health: new Health(),
    clock: systemClock,
    timers: systemTimers,
    random: Math.random,
    shutdownGraceMs: 60_000,
    connectionMemory: options.connectionMemory,
    callsOf: () => ({ record: () => {} }),
    onFault: (_, error) => {
      throw error;
    },
  });
  running.push(server);
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  return { server, port };
}

function peerOf(port: number): SocketPeer {
  const peer = new SocketPeer(port);
  onTestFinished(() => peer.close());
  return peer;
}

const request = (id: number, path = '/a.B/Count'): Buffer =>
  headersFrame(id, [
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', path],
    [':authority', 'a'],
    ['te', 'trailers'],
    ['content-type', 'application/grpc'],
  ]);

const largest = withPrefix(new Uint8Array(defaultGrpcLimits.maxMessageBytes));

/** Sends frames of the largest size, at the pace at which the server reads: a stream's window is a quarter of the largest message. */
async function sendPart(peer: SocketPeer, id: number, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; at += 16_384) {
    peer.send(data(id, bytes.subarray(at, at + 16_384)));
    if (at % 262_144 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const statusOf = ({ sections }: PeerStream) => sections.at(-1)?.['grpc-status'];

it('one connection cannot fill what requests of all may hold', async () => {
  const connectionMemory = new ConnectionMemory({ maxBytes: 10_000_000, timers: systemTimers });
  const { port } = await start({ connectionMemory });
  const modest = peerOf(port);
  const message = withPrefix(new Uint8Array(1_000));
  modest.send(request(1), data(1, message.subarray(0, 500)));
  const greedy = peerOf(port);
  for (const id of [1, 3, 5, 7]) {
    greedy.send(request(id));
    await sendPart(greedy, id, largest.subarray(0, 2_200_000));
  }
  // The server ends the first request of the connection that holds most.
  await eventually(() => expect([1, 3, 5].map((id) => statusOf(greedy.stream(id)))).toContain('8'));
  expect(connectionMemory.bytes).toBeLessThanOrEqual(10_000_000);
  modest.send(data(1, message.subarray(500), Flag.END_STREAM));
  await eventually(() => expect(statusOf(modest.stream(1))).toBe('0'));
  expect(statusOf(greedy.stream(7))).toBe(undefined);
  greedy.close();
  await eventually(() => expect(connectionMemory.bytes).toBe(0));
});

it('the end of the server does not wait for a request that is not complete', async () => {
  const { server, port } = await start();
  const peer = peerOf(port);
  peer.send(request(1), data(1, largest.subarray(0, 10)));
  await eventually(() => expect(server.connections).toBe(1));
  peer.send(request(3), data(3, withPrefix(new Uint8Array(1)), Flag.END_STREAM));
  await eventually(() => expect(statusOf(peer.stream(3))).toBe('0'));
  await server.shutdown();
  // REFUSED_STREAM: the caller may ask another limiter.
  await eventually(() => expect(peer.stream(1).resetCode).toBe(7));
});

it('a watch does not keep the connection of a caller that is gone', async () => {
  const { server, port } = await start();
  const caller = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  onTestFinished(() => void caller.destroy());
  const watch = request(1, '/grpc.health.v1.Health/Watch');
  caller.write(Buffer.concat([clientPreface, settings(), settingsAck, watch]));
  caller.write(data(1, withPrefix(new Uint8Array(0)), Flag.END_STREAM));
  let received = '';
  caller.on('data', (chunk: Buffer) => {
    received += chunk.toString('latin1');
  });
  const firstAnswer = '\0\0\x07\0\0\0\0\0\x01';
  await eventually(() => expect(received).toContain(firstAnswer));
  caller.end();
  await once(caller, 'close');
  expect(server.connections).toBe(0);
});
