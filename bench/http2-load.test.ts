import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';

import { type ClientCalls, envoyCalls } from './http2-frames.ts';
import { runLoad } from './http2-load.ts';

const server = createServer();
const path = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';
const sequence = Uint32Array.of(1, 0);
const calls: ClientCalls = envoyCalls(path, [Buffer.of(7), Buffer.of(8, 9)]);
let received: { port: number | undefined; headers: IncomingHttpHeaders; body: Buffer }[];

server.on('stream', (stream: ServerHttp2Stream, headers) => {
  const parts: Buffer[] = [];
  stream.on('data', (part: Buffer) => parts.push(part));
  stream.on('end', () => {
    received.push({ port: stream.session?.socket.remotePort, headers, body: Buffer.concat(parts) });
    stream.respond({ ':status': 200 });
    stream.end(Buffer.alloc(5));
  });
  stream.on('error', () => {});
});

beforeEach(async () => {
  received = [];
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(() => new Promise((resolve) => server.close(resolve)));

const portOf = (): number => (server.address() as AddressInfo).port;

it('sends what Envoy sends, and a first call on each connection that is not measured', async () => {
  const load = { port: portOf(), ...calls, sequence, connections: 2, streams: 1 };
  const { answered, failed } = await runLoad({ ...load, oneWriteACall: true, durationMs: 100 });
  expect(failed).toBe(0);
  expect(received.length).toBeGreaterThanOrEqual(answered + 2);
  for (const { headers } of received) {
    expect(headers).toMatchObject({
      ...{ ':method': 'POST', ':path': path, ':authority': 'ratelimit', ':scheme': 'http', te: 'trailers' },
      ...{ 'grpc-timeout': '20m', 'content-type': 'application/grpc', 'x-envoy-internal': 'true' },
      ...{ 'x-forwarded-for': '10.0.0.1', 'x-envoy-expected-rq-timeout-ms': '20' },
    });
  }
  expect(new Set(received.map(({ body }) => body.toString('hex')))).toEqual(
    new Set(['000000000107', '00000000020809']),
  );
});

it('sends on a schedule over all connections in turns', async () => {
  const load = { port: portOf(), ...calls, sequence, connections: 4, streams: 100, perSecond: 400 };
  const { answered, latency, seconds } = await runLoad({ ...load, oneWriteACall: true, durationMs: 1_000 });
  expect(answered).toBeGreaterThan(0);
  expect(answered).toBeLessThanOrEqual(400 * seconds);
  expect(latency.quantileMs(0.5)).toBeGreaterThan(0);
  const scheduled = received.slice(load.connections);
  expect(new Set(scheduled.map(({ port }) => port)).size).toBe(load.connections);
});

it('sends a call on all connections at once, and then waits', async () => {
  const load = { port: portOf(), ...calls, sequence, connections: 4, streams: 100, perSecond: 40 };
  const { answered } = await runLoad({ ...load, oneWriteACall: true, allAtOnce: true, durationMs: 450 });
  const scheduled = received.slice(load.connections);
  // At equal intervals, 18 calls would have been due.
  expect(scheduled.length).toBeGreaterThan(0);
  expect(scheduled.length % load.connections).toBe(0);
  expect(answered).toBe(scheduled.length);
});
