import { connect } from 'node:http2';
import { connect as connectTcp, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, credentials } from '@grpc/grpc-js';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DiscoveryRequestSchema } from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { HealthListResponseSchema } from '../../gen/grpc/health/v1/health_pb.ts';
import { bind } from '../../process/net/bind.ts';
import { systemClock } from '../../process/time/clock.ts';
import { capabilities } from '../../rules/language/capabilities.ts';
import { DeltaClient } from '../../test/support/delta-client.ts';
import { eventually } from '../../test/support/eventually.ts';
import { LimiterClient } from '../../test/support/limiter-client.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { unsignedToken } from '../../test/support/service-account-token.ts';
import {
  rateLimitConfigType,
  ScriptedXdsClient,
  type ScriptedXdsClientOptions,
  startGoLikeClient,
  startWeirLikeClient,
  type WeirLikeClientOptions,
} from '../../test/support/xds-client.ts';
import {
  fleetsOf,
  type RunningXdsServer,
  startXdsServer,
  testSnapshot,
} from '../../test/support/xds-server.ts';
import { fleetSnapshot, type Resource } from '../model/fleet-snapshot.ts';
import { snapshotFor } from '../model/supported-rules.ts';
import { FleetResponse } from './fleet-response.ts';

const method = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources';

function closing<C extends { close(): void }>(client: C): C {
  onTestFinished(() => client.close());
  return client;
}
const scripted = (options: ScriptedXdsClientOptions): ScriptedXdsClient =>
  closing(new ScriptedXdsClient(options));
const goLike = async (options: ScriptedXdsClientOptions): Promise<ScriptedXdsClient> =>
  closing(await startGoLikeClient(options));
const weirLike = async (options: WeirLikeClientOptions): Promise<ScriptedXdsClient> =>
  closing(await startWeirLikeClient(options));

/** The one limiter that is connected. */
function onlyLimiter({ server }: RunningXdsServer) {
  const limiters = server.limiters();
  expect(limiters).toHaveLength(1);
  return limiters[0];
}

const v1 = testSnapshot('default', ['a']);
const v2 = testSnapshot('default', ['a', 'b']);
const v3 = testSnapshot('default', ['a', 'b', 'c']);

describe('a stream', () => {
  it('gets nothing before the first call of serve', async () => {
    const running = await startXdsServer();
    const client = scripted({ port: running.port });
    await eventually(() => expect(running.server.limiters()).toHaveLength(1));
    expect(client.received).toEqual([]);
    running.server.serve(fleetsOf(v1));
    await eventually(() => expect(client.last).toMatchObject({ version: v1.version, names: ['team/a'] }));
  });

  it('gets an empty answer if nothing is served to its fleet', async () => {
    const { server, port } = await startXdsServer();
    server.serve(fleetsOf(v1));
    const client = await weirLike({ port, pod: 'p', fleet: 'other' });
    expect(client.last).toMatchObject({ names: [], version: testSnapshot('other', []).version });
  });

  it('gets the rules of its fleet only', async () => {
    const { server, port } = await startXdsServer();
    server.serve(fleetsOf(testSnapshot('blue', ['b']), testSnapshot('green', ['g'])));
    const blue = await weirLike({ port, pod: 'b', fleet: 'blue' });
    const green = await weirLike({ port, pod: 'g', fleet: 'green' });
    server.serve(fleetsOf(testSnapshot('blue', ['b']), testSnapshot('green', ['g', 'h'])));
    await eventually(() => expect(green.last?.domains).toEqual(['g', 'h']));
    server.serve(fleetsOf(testSnapshot('green', ['g', 'h'])));
    await eventually(() => expect(blue.last?.domains).toEqual([]));
    expect(blue.received.map(({ domains }) => domains)).toEqual([['b'], []]);
    expect(green.received.map(({ domains }) => domains)).toEqual([['g'], ['g', 'h']]);
  });

  it('of a limiter gets what that supports, beside others, in both forms', async () => {
    const running = await startXdsServer();
    const { server, port } = running;
    const [a, b] = v2.resources as [Resource, Resource];
    const fallback = { ...testSnapshot('default', ['old']).resources[0]!, name: b.name };
    const needing = (resource: Resource) =>
      fleetSnapshot('default', [a, { ...resource, needs: ['windows'], fallback }]);
    const reduced = snapshotFor(needing(b), []);
    server.serve(fleetsOf(needing(b)));
    const worlds = await Promise.all(
      [{}, { capabilities: ['calendar'] as const }, { capabilities }].map((traits, index) =>
        weirLike({ port, pod: `pod-${index}`, ...traits }),
      ),
    );
    expect(worlds.map(({ last }) => last?.domains.join())).toEqual(['a,old', 'a,old', 'a,b']);
    const [oldDelta, newDelta] = [[], ['windows']].map(
      (has) => new DeltaClient(port, { pod: `delta-${has}`, metadata: { capabilities: has } }),
    );
    for (const client of [oldDelta!, newDelta!]) client.request();
    const names = ['team/a', 'team/b'];
    expect(await oldDelta!.responses(1)).toMatchObject({ names, version: reduced.version });
    expect(await newDelta!.responses(1)).toMatchObject({ names, version: v2.version });
    await eventually(() =>
      expect(server.limiters().map((one) => `${one.name} ${one.capabilities.length}`)).toEqual([
        'pod-0 0',
        'pod-1 1',
        'pod-2 6',
        'delta- 0',
        'delta-windows 1',
      ]),
    );
    // Limiters that get a fallback are not sent what changes for others alone.
    server.serve(fleetsOf(needing({ ...v3.resources[2]!, name: b.name })));
    expect(await newDelta!.responses(2)).toMatchObject({ names: ['team/b'], removed: [] });
    // They support everything again: a limiter that has a resource already is not sent it.
    server.serve(fleetsOf(v3));
    expect(await oldDelta!.responses(2)).toMatchObject({ names: ['team/b', 'team/c'], removed: [] });
    await eventually(() =>
      expect(server.limiters().map((one) => one.acceptedVersion)).toEqual(Array(5).fill(v3.version)),
    );
    expect(worlds.map(({ received }) => received.length)).toEqual([2, 2, 3]);
    expect([oldDelta, newDelta].map((client) => client?.received.length)).toEqual([2, 3]);
  });

  it('does not get a version twice', async () => {
    const running = await startXdsServer();
    running.server.serve(fleetsOf(v1));
    const client = await goLike({ port: running.port });
    running.server.serve(fleetsOf(v1));
    running.server.serve(fleetsOf(testSnapshot('default', ['a'])));
    running.server.serve(fleetsOf(v2));
    await eventually(() => expect(onlyLimiter(running)?.acceptedVersion).toBe(v2.version));
    expect(client.received.map(({ version }) => version)).toEqual([v1.version, v2.version]);
  });

  it('gets the newest of the versions that came while its answer was awaited', async () => {
    const running = await startXdsServer();
    running.server.serve(fleetsOf(v1));
    const client = scripted({ port: running.port });
    client.fallSilent();
    await eventually(() => expect(client.received).toHaveLength(1));
    running.server.serve(fleetsOf(v2));
    running.server.serve(fleetsOf(v3));
    client.acceptAgain();
    client.answer();
    await eventually(() => expect(onlyLimiter(running)?.acceptedVersion).toBe(v3.version));
    expect(client.received.map(({ version }) => version)).toEqual([v1.version, v3.version]);
  });

  it('is answered when it asks once and listens no further', async () => {
    const { server, port } = await startXdsServer();
    server.serve(fleetsOf(v1));
    const client = scripted({ port, reconnects: false });
    client.fallSilent();
    client.halfClose();
    await eventually(() => expect(client.ends).toEqual(['ended']));
    expect(client.last?.names).toEqual(['team/a']);
    expect(server.limiters()).toEqual([]);
  });

  it('lives on when it asks for other types, which stay unanswered', async () => {
    const { server, port, events } = await startXdsServer();
    server.serve(fleetsOf(v1));
    const client = await goLike({ port });
    const typeUrl = 'type.googleapis.com/envoy.config.cluster.v3.Cluster';
    client.request({ typeUrl });
    client.request({ typeUrl, refusal: 'no' });
    server.serve(fleetsOf(v2));
    await eventually(() => expect(client.last?.version).toBe(v2.version));
    expect(client.received).toHaveLength(2);
    const asked = events.filter(
      ([name]) => name === 'A client asks for a resource type that the control plane does not serve',
    );
    expect(asked).toEqual([
      [
        'A client asks for a resource type that the control plane does not serve',
        { peer: expect.stringMatching(/^127\.0\.0\.1:\d+$/), typeUrl },
      ],
    ]);
  });

  it('is known by the node of its first request, whatever type that asks for', async () => {
    const running = await startXdsServer();
    const metadata = { pod: 'p', fleet: 'blue' };
    const client = new Client(`127.0.0.1:${running.port}`, credentials.createInsecure());
    closing(client);
    const call = client.makeBidiStreamRequest(
      method,
      (bytes: Buffer) => bytes,
      (bytes) => bytes,
    );
    call.on('error', () => {});
    const send = (init: Parameters<typeof create<typeof DiscoveryRequestSchema>>[1]): void => {
      call.write(Buffer.from(toBinary(DiscoveryRequestSchema, create(DiscoveryRequestSchema, init))));
    };
    send({ node: { metadata }, typeUrl: 'other' });
    send({ typeUrl: rateLimitConfigType });
    await eventually(() => expect(onlyLimiter(running)).toMatchObject({ name: 'p', fleet: 'blue' }));
    call.cancel();
  });
});

describe('the report of a limiter', () => {
  it('says what it accepted, and identifies itself', async () => {
    const running = await startXdsServer();
    running.server.serve(fleetsOf(v1));
    await weirLike({ port: running.port, pod: 'limiter-7', instance: 'i' });
    await eventually(() => {
      expect(onlyLimiter(running)).toEqual({
        id: expect.stringMatching(/^replica-0\/[0-9a-z]{6,}\.1$/),
        address: '127.0.0.1',
        name: 'limiter-7',
        fleet: 'default',
        instance: 'i',
        isWeir: true,
        countsCompatibly: true,
        capabilities: [],
        connectedMs: expect.any(Number),
        acceptedVersion: v1.version,
        refusal: undefined,
      });
    });
    expect(running.messages()).toEqual(['A limiter connected', 'A limiter accepted a snapshot']);
    expect(running.changes()).toBe(2);
  });

  it('names limiters that share a node id by their addresses', async () => {
    const { server, port } = await startXdsServer();
    server.serve(fleetsOf(v1));
    await goLike({ port });
    await goLike({ port });
    const names = server.limiters().map(({ name }) => name);
    expect(names).toEqual([
      expect.stringMatching(/^default \(127\.0\.0\.1:\d+\)$/),
      expect.stringMatching(/^default \(127\.0\.0\.1:\d+\)$/),
    ]);
    expect(names[0]).not.toBe(names[1]);
  });

  it('says what it rejected, until it accepts again', async () => {
    const running = await startXdsServer();
    running.server.serve(fleetsOf(v1));
    const client = await goLike({ port: running.port });
    client.rejectWith('cannot load that');
    running.server.serve(fleetsOf(v2));
    await eventually(() => {
      expect(onlyLimiter(running)).toMatchObject({
        acceptedVersion: v1.version,
        refusal: { version: v2.version, message: 'cannot load that' },
      });
    });
    client.acceptAgain();
    running.server.serve(fleetsOf(v3));
    await eventually(() => {
      expect(onlyLimiter(running)).toMatchObject({ acceptedVersion: v3.version, refusal: undefined });
    });
    expect(client.received).toHaveLength(3);
    expect(running.messages()).toEqual([
      'A limiter connected',
      'A limiter accepted a snapshot',
      'A limiter rejected a snapshot',
      'A limiter accepted a snapshot',
    ]);
  });

  it('can go back to what was accepted before', async () => {
    const running = await startXdsServer();
    running.server.serve(fleetsOf(v1));
    const client = await goLike({ port: running.port });
    client.rejectWith('no');
    running.server.serve(fleetsOf(v2));
    await eventually(() => expect(onlyLimiter(running)?.refusal).toBeDefined());
    client.acceptAgain();
    running.server.serve(fleetsOf(v1));
    await eventually(() => expect(onlyLimiter(running)?.refusal).toBeUndefined());
    expect(onlyLimiter(running)?.acceptedVersion).toBe(v1.version);
  });

  it('does not take what a Go client repeats after a reconnect for an answer', async () => {
    const running = await startXdsServer();
    running.server.serve(fleetsOf(v1));
    const client = await goLike({ port: running.port });
    client.rejectWith('no');
    running.server.serve(fleetsOf(v2));
    await eventually(() => expect(onlyLimiter(running)?.refusal).toBeDefined());
    client.fallSilent();
    client.reconnect();
    // It now claims version 2 with the nonce of version 2, which it rejected.
    await eventually(() => expect(client.received).toHaveLength(3));
    expect(client.acceptedVersion).toBe(v2.version);
    expect(onlyLimiter(running)).toMatchObject({ acceptedVersion: undefined, refusal: undefined });
    client.request({ versionInfo: v2.version, responseNonce: client.received[1]?.nonce as string });
    client.answer();
    await eventually(() => expect(onlyLimiter(running)?.refusal?.version).toBe(v2.version));
    expect(onlyLimiter(running)?.acceptedVersion).toBeUndefined();
  });

  it('takes the word of a limiter of this project for what it has in force', async () => {
    const running = await startXdsServer();
    const client = scripted({ port: running.port, userAgentName: 'weir', reconnects: false });
    client.acceptedVersion = 'version-of-old';
    client.reconnect();
    await eventually(() => expect(onlyLimiter(running)?.acceptedVersion).toBe('version-of-old'));
  });

  it('passes over a version that is too long to be one of a control plane like this', async () => {
    const running = await startXdsServer();
    const client = scripted({ port: running.port, userAgentName: 'weir', reconnects: false });
    await eventually(() => expect(running.messages()).toEqual(['A limiter connected']));
    client.acceptedVersion = 'v'.repeat(129);
    client.reconnect();
    await eventually(() =>
      expect(running.messages().filter((name) => name === 'A limiter connected')).toHaveLength(2),
    );
    await eventually(() => expect(onlyLimiter(running)).toMatchObject({ acceptedVersion: undefined }));
  });

  it('gets the snapshot on a new stream, even when it has it already', async () => {
    const running = await startXdsServer();
    running.server.serve(fleetsOf(v1));
    const client = await weirLike({ port: running.port, pod: 'p' });
    client.reconnect();
    await eventually(() => expect(client.received).toHaveLength(2));
    expect(client.last?.version).toBe(v1.version);
    expect(client.received[0]?.nonce).not.toBe(client.last?.nonce);
  });

  it('goes when its stream ends', async () => {
    const running = await startXdsServer();
    running.server.serve(fleetsOf(v1));
    const client = await goLike({ port: running.port });
    client.close();
    await eventually(() => expect(running.server.limiters()).toEqual([]), { timeoutMs: 1_000 });
    expect(running.messages().at(-1)).toBe('A limiter disconnected');
  });

  it('shortens what a limiter says', async () => {
    const running = await startXdsServer();
    running.server.serve(fleetsOf(v1));
    const client = scripted({ port: running.port });
    client.rejectWith('x'.repeat(5_000));
    await eventually(() => expect(onlyLimiter(running)?.refusal?.message).toBe(`${'x'.repeat(1_024)}...`));
  });

  it('describes a rejection that has no message', async () => {
    const running = await startXdsServer();
    running.server.serve(fleetsOf(v1));
    const client = scripted({ port: running.port });
    client.rejectWith('');
    await eventually(() => expect(onlyLimiter(running)?.refusal?.message).toBe('rejected without a message'));
  });
});

describe('the server', () => {
  it('rejects streams beyond its limit, and takes new ones when others have left', async () => {
    const running = await startXdsServer({ maxStreams: 2 });
    running.server.serve(fleetsOf(v1));
    const first = await goLike({ port: running.port });
    await goLike({ port: running.port });
    const third = scripted({ port: running.port });
    await eventually(() => expect(third.ends.length).toBeGreaterThan(1));
    expect(new Set(third.ends)).toEqual(
      new Set(['8 RESOURCE_EXHAUSTED: this replica of the control plane serves at most 2 streams']),
    );
    first.close();
    await eventually(() => expect(third.last?.version).toBe(v1.version));
    const reported = running.events.filter(
      ([name]) => name === 'Rejected a stream: XDS_MAX_STREAMS is reached',
    );
    expect(reported).toEqual([
      [
        'Rejected a stream: XDS_MAX_STREAMS is reached',
        { maxStreams: 2, peer: expect.any(String), times: 1 },
      ],
    ]);
  });

  it('takes any number of callers whose tokens are reviewed, one after the other', async () => {
    const review = async () => ({ user: 'system:serviceaccount:shop:limiter' });
    const serviceAccounts = { audience: 'weir', perSecond: 100, review };
    const running = await startXdsServer({ maxStreams: 2, serviceAccounts, allowAnonymous: false });
    running.server.serve(fleetsOf(v1));
    const exp = systemClock.nowMs() / 1000 + 3_600;
    for (let i = 0; i < 4; i += 1) {
      const authorization = (): string => `Bearer ${unsignedToken({ aud: ['weir'], exp, jti: `${i}` })}`;
      const client = await goLike({ port: running.port, authorization });
      expect(client.last?.version).toBe(v1.version);
      client.close();
      await eventually(() => expect(running.server.limiters()).toEqual([]));
    }
  });

  it('rejects a fleet that cannot be one', async () => {
    const running = await startXdsServer();
    const client = scripted({ port: running.port, metadata: { fleet: 'No Fleet' }, reconnects: false });
    const reason =
      'the node metadata "fleet" is not a DNS label of at most 63 lower case letters, digits and inner hyphens: "No Fleet"';
    await eventually(() => expect(client.ends).toEqual([`3 INVALID_ARGUMENT: ${reason}`]));
    expect(running.events).toEqual([['Rejected a stream', { peer: expect.any(String), reason, times: 1 }]]);
  });

  it('rejects an invalid discovery request', async () => {
    const { port } = await startXdsServer();
    const client = closing(new Client(`127.0.0.1:${port}`, credentials.createInsecure()));
    const call = client.makeBidiStreamRequest(
      method,
      (bytes: Buffer) => bytes,
      (bytes) => bytes,
    );
    const ended = new Promise<string>((resolve) => call.on('error', ({ message }) => resolve(message)));
    call.write(Buffer.from([0xff, 0xff, 0xff]));
    expect(await ended).toBe('3 INVALID_ARGUMENT: cannot decode the discovery request');
  });

  it('rejects a request beyond 1 MiB', async () => {
    const { port } = await startXdsServer();
    const client = scripted({ port, metadata: { pod: 'p'.repeat(1024 * 1024) }, reconnects: false });
    await eventually(() =>
      expect(client.ends[0]).toMatch(
        /^8 RESOURCE_EXHAUSTED: the request has \d+ bytes, the bound is 1048576$/,
      ),
    );
  });

  it('counts a limiter that cannot take what it is sent also between its streams', async () => {
    const { server, port } = await startXdsServer();
    server.serve(fleetsOf(testSnapshot('default', ['a'], 1000)));
    const client = scripted({ port, nodeId: 'go', maxMessageBytes: 100 });
    await eventually(() => expect(client.ends.length).toBeGreaterThanOrEqual(2));
    for (let look = 0; look < 50; look++) {
      expect(server.limiters()).toMatchObject([{ acceptedVersion: undefined, refusal: undefined }]);
      await sleep(10);
    }
    client.close();
    await sleep(100);
    expect(server.limiters()).toHaveLength(1);
  });

  it('reports an answer that clients reject by default, once per version', async () => {
    const { server, port, events } = await startXdsServer();
    const large = testSnapshot('default', ['a'], 4 * 1024 * 1024);
    expect(server.serve(fleetsOf(large))).toEqual(new Set(['default']));
    expect(server.serve(fleetsOf(large))).toEqual(new Set(['default']));
    const { length: bytes } = new FleetResponse(large, 'replica-0').bytes;
    const reported = { fleet: 'default', version: large.version, bytes, limitBytes: 4_194_304 };
    expect(events).toEqual([['A snapshot is larger than gRPC clients accept by default', reported]]);
    const common = scripted({ port, reconnects: false });
    await eventually(() => expect(common.ends[0]).toMatch(/^8 RESOURCE_EXHAUSTED/));
    const patient = await weirLike({ port, pod: 'p', maxMessageBytes: -1 });
    expect(patient.last?.version).toBe(large.version);
    expect(server.serve(fleetsOf(v1))).toEqual(new Set());
  });

  it('gives up a limiter that does not answer', async () => {
    const running = await startXdsServer({ answerTimeoutMs: 100 });
    running.server.serve(fleetsOf(v1));
    const client = scripted({ port: running.port, reconnects: false });
    client.fallSilent();
    const text = `14 UNAVAILABLE: no answer to version ${v1.version} within 100 ms`;
    await eventually(() => expect(client.ends).toEqual([text]));
    expect(running.messages()).toEqual([
      'A limiter connected',
      'A limiter did not answer a snapshot in time: the control plane ends its stream',
      'A limiter disconnected',
    ]);
  });

  it('holds one response for a limiter that does not read, and cuts it in the end', async () => {
    const timers = new ManualTimers();
    const running = await startXdsServer({ timers, answerTimeoutMs: 30_000 });
    const sizes = 1024 * 1024;
    running.server.serve(fleetsOf(testSnapshot('default', ['a'], sizes)));
    const { closed } = openWithoutReading(running.port);
    await eventually(() => expect(running.server.limiters()).toHaveLength(1));
    const slow = onlyLimiter(running)?.id;
    const other = await goLike({ port: running.port });
    for (let index = 0; index < 50; index++) {
      running.server.serve(fleetsOf(testSnapshot('default', [`d${index}`], sizes)));
    }
    await eventually(() => expect(other.last?.domains).toEqual(['d49']));
    expect(running.sends.filter(({ id }) => id === slow)).toHaveLength(1);
    timers.advance(30_000);
    expect(running.messages()).toContain(
      'A limiter did not answer a snapshot in time: the control plane ends its stream',
    );
    timers.advance(5_000);
    await closed;
    await eventually(() => expect(running.server.limiters()).toHaveLength(1));
  });

  it('misses a limiter that the network lost', async () => {
    const running = await startXdsServer({ keepaliveIntervalMs: 100, keepaliveTimeoutMs: 100 });
    running.server.serve(fleetsOf(v1));
    const network = await startRelay(running.port);
    await weirLike({ port: network.port, pod: 'lost', reconnects: false });
    const near = await weirLike({ port: running.port, pod: 'near', reconnects: false });
    network.stopForwarding();
    await eventually(() => expect(running.server.limiters().map(({ name }) => name)).toEqual(['near']), {
      timeoutMs: 2_000,
    });
    expect(near.ends).toEqual([]);
  });

  it('says its health by the standard service', async () => {
    const { server, port, health } = await startXdsServer();
    const client = closing(new LimiterClient(port));
    const statuses: number[] = [];
    const service = 'envoy.service.discovery.v3.AggregatedDiscoveryService';
    const watch = client.watchHealth(service, (status) => statuses.push(status));
    await eventually(() => expect(statuses).toEqual([1]));
    health.set('first list', false);
    await eventually(() => expect(statuses).toEqual([1, 2]));
    expect(await listHealth(port)).toEqual({ '': 2, [service]: 2 });
    health.set('first list', true);
    await eventually(() => expect(statuses).toEqual([1, 2, 1]));
    await server.shutdown();
    await watch;
    expect(statuses).toEqual([1, 2, 1, 2]);
  });

  it('ends its streams at shutdown, so that limiters go elsewhere', async () => {
    // Longer than the test may take: who waits for the end of it fails.
    const running = await startXdsServer({ shutdownGraceMs: 600_000 });
    running.server.serve(fleetsOf(v1));
    const client = closing(await startGoLikeClient({ port: running.port, reconnects: false }));
    await running.server.shutdown();
    await eventually(() =>
      expect(client.ends).toEqual(['14 UNAVAILABLE: this replica of the control plane is shutting down']),
    );
    expect(running.server.limiters()).toEqual([]);
  });

  it('ends connections at shutdown that do not close', async () => {
    const running = await startXdsServer({ shutdownGraceMs: 100 });
    running.server.serve(fleetsOf(testSnapshot('default', ['a'], 1024 * 1024)));
    const { closed } = openWithoutReading(running.port);
    await eventually(() => expect(running.server.limiters()).toHaveLength(1));
    await running.server.shutdown();
    await closed;
  });

  it('names the address that it cannot listen on', async () => {
    const { port } = await startXdsServer();
    await expect(startXdsServer({}, port)).rejects.toThrow(
      `cannot listen on 127.0.0.1:${port}: address already in use (EADDRINUSE)`,
    );
  });
});

/** A limiter that asks for rules and then reads nothing. */
function openWithoutReading(port: number): { closed: Promise<void> } {
  const session = connect(`http://127.0.0.1:${port}`);
  onTestFinished(() => session.destroy());
  session.on('error', () => {});
  const closed = new Promise<void>((resolve) => session.on('close', () => resolve()));
  const headers = { ':method': 'POST', ':path': method, 'content-type': 'application/grpc', te: 'trailers' };
  const stream = session.request(headers);
  stream.on('error', () => {});
  const request = create(DiscoveryRequestSchema, { typeUrl: rateLimitConfigType });
  const bytes = toBinary(DiscoveryRequestSchema, request);
  stream.write(Buffer.concat([Buffer.from([0, 0, 0, 0, bytes.length]), bytes]));
  return { closed };
}

/** A way to the server that can fall silent without closing. */
async function startRelay(to: number): Promise<{ port: number; stopForwarding(): void }> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    const onward = connectTcp(to, '127.0.0.1');
    sockets.push(socket, onward);
    for (const each of [socket, onward]) each.on('error', () => {});
    socket.pipe(onward).pipe(socket);
  });
  const { port } = await bind(server, { host: '127.0.0.1', port: 0 });
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    port,
    stopForwarding: () => {
      for (const socket of sockets) socket.unpipe().pause();
    },
  };
}

function listHealth(port: number): Promise<Record<string, number>> {
  const client = closing(new Client(`127.0.0.1:${port}`, credentials.createInsecure()));
  const decode = (bytes: Buffer) => fromBinary(HealthListResponseSchema, bytes).statuses;
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      '/grpc.health.v1.Health/List',
      (bytes: Buffer) => bytes,
      decode,
      Buffer.alloc(0),
      (error, statuses = {}) => {
        if (error !== null) reject(error);
        else
          resolve(Object.fromEntries(Object.entries(statuses).map(([name, { status }]) => [name, status])));
      },
    );
  });
}
