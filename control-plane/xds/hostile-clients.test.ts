import { connect } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { clientPreface, FrameType } from '../../limiter/http2/constants.ts';
import { DeltaClient } from '../../test/support/delta-client.ts';
import { eventually } from '../../test/support/eventually.ts';
import { frame, settings, settingsAck, windowUpdate } from '../../test/support/http2-frame-script.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { headersFrame } from '../../test/support/socket-peer.ts';
import {
  ScriptedXdsClient,
  type ScriptedXdsClientOptions,
  startWeirLikeClient,
} from '../../test/support/xds-client.ts';
import { fleetsOf, startXdsServer, testSnapshot } from '../../test/support/xds-server.ts';

const v1 = testSnapshot('default', ['a']);
const path = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources';

function scripted(options: ScriptedXdsClientOptions): ScriptedXdsClient {
  const client = new ScriptedXdsClient(options);
  onTestFinished(() => client.close());
  return client;
}

/** A connection from an address, with so many streams of discovery on which `body` comes and no end. */
function rawConnection(port: number, from: string, streams: number, body: Buffer) {
  const socket = connect({ host: '127.0.0.1', port, localAddress: from });
  const state = { isClosed: false };
  socket.on('error', () => {});
  socket.on('close', () => {
    state.isClosed = true;
  });
  socket.on('data', () => {});
  socket.write(Buffer.concat([clientPreface, settings(), settingsAck, windowUpdate(0, 2 ** 30)]));
  for (let n = 0; n < streams; n += 1) {
    socket.write(
      headersFrame(2 * n + 1, [
        [':method', 'POST'],
        [':scheme', 'http'],
        [':path', path],
        [':authority', 'a'],
        ['te', 'trailers'],
        ['content-type', 'application/grpc'],
      ]),
    );
    for (let at = 0; at < body.length; at += 16_384)
      socket.write(frame(FrameType.DATA, 0, 2 * n + 1, body.subarray(at, at + 16_384)));
  }
  onTestFinished(() => void socket.destroy());
  return state;
}

/** The prefix of a message of 4 MiB, and so much of it as fits into a stream's first window. */
function halfMessage(): Buffer {
  const body = Buffer.alloc(60_000);
  body.writeUInt32BE(4 * 1024 * 1024, 1);
  return body;
}

describe('a hostile client of discovery', () => {
  it('that takes all streams from one address makes room for other addresses', async () => {
    const running = await startXdsServer({ maxStreams: 5 });
    running.server.serve(fleetsOf(v1));
    rawConnection(running.port, '127.0.0.2', 20, Buffer.alloc(0));
    await eventually(() =>
      expect(running.messages()).toContain('Rejected a stream: XDS_MAX_STREAMS is reached'),
    );
    const good = await Promise.all(
      ['g1', 'g2'].map((pod) => startWeirLikeClient({ port: running.port, pod, reconnects: false })),
    );
    for (const client of good) onTestFinished(() => client.close());
    await eventually(() =>
      expect(running.server.limiters().map(({ acceptedVersion }) => acceptedVersion)).toEqual([
        v1.version,
        v1.version,
      ]),
    );
    expect(good.map(({ ends }) => ends)).toEqual([[], []]);
  });

  it('that never asks for anything loses its stream', async () => {
    const timers = new ManualTimers();
    const running = await startXdsServer({ timers, maxStreams: 1 });
    running.server.serve(fleetsOf(v1));
    const silent = scripted({ port: running.port, reconnects: false, metadata: { pod: 'p' } });
    await eventually(() => expect(silent.received).toHaveLength(1));
    silent.close();
    rawConnection(running.port, '127.0.0.1', 1, Buffer.alloc(0));
    const other = scripted({ port: running.port });
    await eventually(() => expect(other.ends.at(-1)).toMatch(/serves at most 1 streams/));
    timers.advance(30_000);
    await eventually(() => expect(other.last?.version).toBe(v1.version));
  });

  it('that floods requests, long or short, loses its stream', async () => {
    const running = await startXdsServer();
    running.server.serve(fleetsOf(v1));
    const floods = [
      { times: 1_000, responseNonce: 'x' },
      { times: 20, responseNonce: 'x'.repeat(100_000) },
    ];
    for (const { times, responseNonce } of floods) {
      const client = new DeltaClient(running.port, { accepts: false });
      for (let sent = 0; sent < times; sent += 1) client.request({ responseNonce });
      await eventually(() => expect(client.end).toMatch(/^8 RESOURCE_EXHAUSTED: the stream sends more than/));
    }
    expect(running.messages()).toContain('Rejected a stream');
  });

  it('is not taken for one that answers as fast as rules change', async () => {
    const { server, port } = await startXdsServer();
    server.serve(fleetsOf(v1));
    const client = new DeltaClient(port);
    client.request();
    for (let change = 0; change < 400; change += 1) {
      const snapshot = testSnapshot('default', [`a${change}`]);
      server.serve(fleetsOf(snapshot));
      await eventually(() => expect(client.last?.version).toBe(snapshot.version), { intervalMs: 1 });
    }
    expect(client.end).toBeUndefined();
  });

  it.each<[string, Parameters<DeltaClient['request']>[0]]>([
    ['a million tiny fields', { resourceNamesUnsubscribe: new Array(300_000).fill('') }],
    ['a node of megabytes', { node: { id: 'x'.repeat(300_000) } }],
    ['an error with thousands of details', { errorDetail: { details: new Array(5_000).fill({}) } }],
  ])('cannot make it decode %s', async (_, request) => {
    const { port } = await startXdsServer();
    const client = new DeltaClient(port);
    client.request(request);
    await eventually(() =>
      expect(client.end).toBe('3 INVALID_ARGUMENT: cannot decode the discovery request'),
    );
  });

  it('cannot subscribe to a name that no resource has', async () => {
    const { port } = await startXdsServer();
    const client = new DeltaClient(port);
    client.request({ resourceNamesSubscribe: ['x'.repeat(521)] });
    const end = '3 INVALID_ARGUMENT: subscribes to a name of 521 characters, the bound is 520';
    await eventually(() => expect(client.end).toBe(end));
  });

  it('prints nothing that moves a cursor or fakes a line', async () => {
    const running = await startXdsServer();
    running.server.serve(fleetsOf(v1));
    const client = scripted({
      port: running.port,
      userAgentName: 'weir',
      metadata: { pod: 'p\u001b[2J\n', instance: 'i\u202e' },
      refuses: '\u001b]0;owned\u0007 line\r\nREADY True\u2028',
      reconnects: false,
    });
    await eventually(() => expect(running.server.limiters()[0]?.refusal).toBeDefined());
    const [{ name, instance, refusal }] = running.server.limiters() as [
      Required<ReturnType<typeof running.server.limiters>[0]>,
    ];
    expect(name).toBe('p\\u001b[2J\\u000a');
    expect(instance).toBe('i\\u202e');
    expect(refusal?.message).toBe('\\u001b]0;owned\\u0007 line\\u000d\\u000aREADY True\\u2028');
    client.close();
  });

  it('that sends half messages loses its connections, and no other client does', async () => {
    const running = await startXdsServer({ connections: { maxBufferedBytes: 1_000_000 } });
    running.server.serve(fleetsOf(v1));
    const good = await startWeirLikeClient({ port: running.port, pod: 'g', reconnects: false });
    onTestFinished(() => good.close());
    const hostile = Array.from({ length: 3 }, () =>
      rawConnection(running.port, '127.0.0.2', 10, halfMessage()),
    );
    await eventually(() => expect(hostile.filter(({ isClosed }) => isClosed).length).toBeGreaterThan(0));
    expect(good.ends).toEqual([]);
    expect(running.messages()).toContain('Closed a connection of a limiter');
  });

  it('that does not read loses its connection when all of them hold too much', async () => {
    const running = await startXdsServer({ connections: { maxBufferedBytes: 3_000_000 } });
    running.server.serve(fleetsOf(testSnapshot('default', ['a'], 1_000_000)));
    // A request of nothing but the type, whose answer is beyond the first window.
    const type = Buffer.from('type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig');
    const message = Buffer.concat([Buffer.from([0x22, type.length]), type]);
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(message.length, 1);
    const deaf = rawConnection(running.port, '127.0.0.2', 5, Buffer.concat([prefix, message]));
    await eventually(() => expect(deaf.isClosed).toBe(true));
    // Its keepalive would end it later.
    expect(running.messages()).toContain('Closed a connection of a limiter');
    const good = await startWeirLikeClient({ port: running.port, pod: 'g', reconnects: false });
    onTestFinished(() => good.close());
    expect(good.last?.names).toEqual(['team/a']);
  });

  it('that opens connections and no stream loses those that are idle longest', async () => {
    const running = await startXdsServer({ connections: { maxIdle: 3 } });
    running.server.serve(fleetsOf(v1));
    const good = await startWeirLikeClient({ port: running.port, pod: 'g', reconnects: false });
    onTestFinished(() => good.close());
    const idle = Array.from({ length: 8 }, () =>
      rawConnection(running.port, '127.0.0.2', 0, Buffer.alloc(0)),
    );
    await eventually(() => expect(idle.filter(({ isClosed }) => isClosed)).toHaveLength(5));
    expect(good.ends).toEqual([]);
  });
});
