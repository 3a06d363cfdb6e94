import { writeFileSync } from 'node:fs';
import {
  createServer as createHttp2Server,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Algorithm } from '../../../rules/algorithms/registry.ts';
import type { RuleSource } from '../../../rules/model.ts';
import { rateLimitConfigTypeUrl } from '../../../rules/reader/resource.ts';
import { AdsServer } from '../../../test/support/ads-server.ts';
import { eventually } from '../../../test/support/eventually.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { listenInTest } from '../../../test/support/listen-in-test.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { limit, rule, source } from '../../../test/support/rule-builder.ts';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { steadyBackoff, WatchedXdsSource } from '../../../test/support/watched-xds-source.ts';
import { routeGrpcErrors } from './ads-stream.ts';

function oneRule(domain: string, requestsPerUnit: number, name = `team/${domain}`): RuleSource {
  return source(domain, [rule({ key: 'k', rateLimit: limit({ requestsPerUnit }) })], name);
}

async function startServer(port = 0): Promise<AdsServer> {
  const server = await AdsServer.start({ port });
  onTestFinished(() => server.stop());
  return server;
}

const bad = [oneRule('dom', 1, 'r1'), oneRule('dom', 2, 'r2')];
const badText = "r2: duplicate domain 'dom' in config file";
const loaded = 'loaded: 1 sources, 1 domains, 1 rules';

/** A source that has the rules of version 1 in force, and its stream. */
async function withRules() {
  const server = await startServer();
  const watched = await WatchedXdsSource.start({ port: server.port });
  const stream = await server.stream();
  stream.respond({ version: '1', sources: [oneRule('d', 10)] });
  await stream.request();
  expect(await stream.request()).toMatchObject({ versionInfo: '1', responseNonce: 'nonce-1' });
  expect(watched.rules).toEqual(['d.k 10']);
  return { server, watched, stream };
}

describe('a token', () => {
  const unauthenticated = { code: status.UNAUTHENTICATED, details: 'the token has expired' };

  async function withToken() {
    const tokenFile = join(temporaryFolder(), 'token');
    writeFileSync(tokenFile, ' first-token\n');
    const server = await startServer();
    const watched = await WatchedXdsSource.start({ port: server.port, tokenFile });
    const stream = await server.stream();
    expect(stream.headers.get('authorization')).toEqual(['Bearer first-token']);
    stream.respond({ version: '1', sources: [oneRule('d', 10)] });
    await stream.request();
    await stream.request();
    return { tokenFile, server, watched, stream };
  }

  it('that expired and has a successor costs neither a wait nor a word', async () => {
    const { tokenFile, server, watched, stream } = await withToken();
    writeFileSync(tokenFile, 'second-token');
    stream.fail(unauthenticated);
    const next = await server.stream();
    expect(next.headers.get('authorization')).toEqual(['Bearer second-token']);
    expect(await next.request()).toMatchObject({ versionInfo: '1', responseNonce: '' });
    next.respond({ version: '2', sources: [oneRule('d', 20)] });
    expect(await next.request()).toMatchObject({ versionInfo: '2' });
    expect(watched.reported).toEqual(['connected', loaded, loaded]);
  });

  it('that expired without a successor is an outage, until there is one', async () => {
    const expired =
      'the token has expired (the server does not accept the token in CONFIG_GRPC_XDS_TOKEN_FILE)';
    const { tokenFile, server, watched, stream } = await withToken();
    stream.fail(unauthenticated);
    const next = await server.stream();
    next.fail(unauthenticated);
    await eventually(() => expect(watched.reported).toContain(`failed: ${expired}`));
    writeFileSync(tokenFile, 'second-token');
    let late = await server.stream();
    while (late.headers.get('authorization')[0] !== 'Bearer second-token') {
      late.fail(unauthenticated);
      late = await server.stream();
    }
    late.respond({ version: '2', sources: [oneRule('d', 20)] });
    await eventually(() => expect(watched.rules).toEqual(['d.k 20']));
    expect(watched.reported.slice(0, 4)).toEqual([
      'connected',
      loaded,
      `lost: ${expired}`,
      `failed: ${expired}`,
    ]);
    expect(watched.reported).toContain('found');
  });

  it('that is not set is named if the server wants one', async () => {
    const server = await startServer();
    const watched = await WatchedXdsSource.start({ port: server.port });
    (await server.stream()).fail({ code: status.UNAUTHENTICATED, details: 'show a token' });
    const reason = 'show a token (CONFIG_GRPC_XDS_TOKEN_FILE is not set)';
    await eventually(() => expect(watched.reported).toContain(`lost: ${reason}`));
  });

  it.each([
    ['', 'the token is empty'],
    ['two words', 'the token must be of visible ASCII characters without spaces'],
  ])('stops the start if the file holds %j', async (text, problem) => {
    const tokenFile = join(temporaryFolder(), 'token');
    const start = () => WatchedXdsSource.start({ port: 1, tokenFile });
    const setting = 'CONFIG_GRPC_XDS_TOKEN_FILE';
    await expect(start()).rejects.toThrow(
      `${setting}: failed to read file: ${tokenFile}: no such file or directory`,
    );
    writeFileSync(tokenFile, text);
    await expect(start()).rejects.toThrow(`${setting}: failed to read the token in ${tokenFile}: ${problem}`);
  });
});

describe('an xDS source', () => {
  it('subscribes with its node, and loads and accepts what comes', async () => {
    const server = await startServer();
    const watched = await WatchedXdsSource.start({ port: server.port });
    const stream = await server.stream();
    const node = {
      id: 'node-1',
      metadata: { pod: 'pod-1' },
      userAgentName: 'weir',
      userAgentVersion: '1.2.3',
    };
    const common = { node, resourceNames: [], typeUrl: rateLimitConfigTypeUrl };
    expect(await stream.request()).toMatchObject({ ...common, versionInfo: '', responseNonce: '' });
    expect([watched.source.connected, watched.reported]).toEqual([true, []]);
    stream.respond({ version: '1', nonce: 'a', sources: [oneRule('d', 10), oneRule('e', 20)] });
    expect(await stream.request()).toMatchObject({ ...common, versionInfo: '1', responseNonce: 'a' });
    expect(watched.rules).toEqual(['d.k 10', 'e.k 20']);
    stream.respond({ version: '2', nonce: 'b', sources: [oneRule('d', 30)] });
    expect(await stream.request()).toMatchObject({ ...common, versionInfo: '2', responseNonce: 'b' });
    expect(watched.rules).toEqual(['d.k 30']);
    stream.respond({ version: '3', nonce: 'c' });
    expect(await stream.request()).toMatchObject({ ...common, versionInfo: '3', responseNonce: 'c' });
    expect(watched.rules).toEqual([]);
    expect(watched.reported).toEqual([
      'connected',
      'loaded: 2 sources, 2 domains, 2 rules',
      loaded,
      'loaded: 0 sources, 0 domains, 0 rules',
    ]);
  });

  it('rejects bad rules with the validator’s words, keeps the last good ones and takes the next', async () => {
    const { watched, stream } = await withRules();
    stream.respond({ version: '2', sources: bad });
    expect(await stream.request()).toMatchObject({
      versionInfo: '1',
      responseNonce: 'nonce-2',
      errorDetail: { code: 0, message: badText },
      node: { id: 'node-1' },
    });
    expect(watched.rules).toEqual(['d.k 10']);
    stream.respond({ version: '3', sources: [oneRule('dom', 3)] });
    const acceptance = await stream.request();
    expect([acceptance.versionInfo, acceptance.errorDetail]).toEqual(['3', undefined]);
    expect(watched.rules).toEqual(['dom.k 3']);
    expect(watched.reported).toEqual(['connected', loaded, `refused: ${badText}`, loaded]);
  });

  it('rejects an algorithm that it does not know, and never counts it as a fixed window', async () => {
    const { watched, stream } = await withRules();
    const newer = rule({ key: 'k', rateLimit: limit({ algorithm: 7 as Algorithm }) });
    stream.respond({ version: '2', sources: [source('d', [newer], 'r')] });
    const message = "r: unknown algorithm '7': there are fixed_window, sliding_window and token_bucket";
    expect(await stream.request()).toMatchObject({ versionInfo: '1', errorDetail: { code: 0, message } });
    expect(watched.rules).toEqual(['d.k 10']);
  });

  it('rejects another type of response', async () => {
    const { watched, stream } = await withRules();
    const typeUrl = 'type.googleapis.com/envoy.config.listener.v3.Listener';
    stream.respond({ version: '2', typeUrl });
    expect(await stream.request()).toMatchObject({
      versionInfo: '1',
      responseNonce: 'nonce-2',
      typeUrl: rateLimitConfigTypeUrl,
      errorDetail: { message: `response: type URL is '${typeUrl}', expected '${rateLimitConfigTypeUrl}'` },
    });
    expect(watched.rules).toEqual(['d.k 10']);
  });

  it('merges domains if it may', async () => {
    const server = await startServer();
    const watched = await WatchedXdsSource.start({ port: server.port, checks: { mergeDomains: true } });
    const other = source('dom', [rule({ key: 'l', rateLimit: limit({ requestsPerUnit: 2 }) })], 'r2');
    (await server.stream()).respond({ version: '1', sources: [oneRule('dom', 1, 'r1'), other] });
    await eventually(() => expect(watched.rules).toEqual(['dom.k 1', 'dom.l 2']));
  });

  it('loads large responses in a thread, the bad ones included', async () => {
    const server = await startServer();
    const limits = { maxInPlaceBytes: 300 };
    const watched = await WatchedXdsSource.start({ port: server.port, limits });
    const stream = await server.stream();
    await stream.request();
    const many = source(
      'd',
      Array.from({ length: 2_000 }, (_, i) => rule({ key: `k${i}`, rateLimit: limit() })),
    );
    stream.respond({ version: '1', sources: [many] });
    expect(await stream.request()).toMatchObject({ versionInfo: '1', responseNonce: 'nonce-1' });
    expect(watched.rules).toHaveLength(2_000);
    stream.respond({ version: '2', sources: [many, many] });
    expect(await stream.request()).toMatchObject({
      versionInfo: '1',
      errorDetail: { message: "d.yaml: duplicate domain 'd' in config file" },
    });
  });

  it('reports counters that could meet once the rules are in force', async () => {
    const server = await startServer();
    const watched = await WatchedXdsSource.start({
      port: server.port,
      review: { counterKeys: 'compatible', sanitizeDescriptorMetricDots: false },
      limits: { reviewDelayMs: 0 },
    });
    const stream = await server.stream();
    const rules = ['a', 'a_b'].map((key) => rule({ key, rateLimit: limit() }));
    stream.respond({ version: '1', sources: [source('d', rules)] });
    const collision =
      'could meet: d.yaml: rule a_b of domain d counts as d_a_b_*_, which can be a key of rule a of domain d as well';
    await eventually(() => expect(watched.reported).toContain(collision));
    expect(watched.reported).toEqual(['connected', 'loaded: 1 sources, 1 domains, 2 rules', collision]);
  });

  it('rejects what its thread has no memory for', async () => {
    const server = await startServer();
    const limits = { maxInPlaceBytes: 0, maxHeapMiB: 12 };
    await WatchedXdsSource.start({ port: server.port, limits, maxMessageBytes: 1 << 26 });
    const stream = await server.stream();
    await stream.request();
    const many = Array.from({ length: 100_000 }, (_, i) => rule({ key: 'key', value: `value-${i}` }));
    stream.respond({ version: '1', sources: [source('d', many)] });
    expect(await stream.request()).toMatchObject({
      versionInfo: '',
      errorDetail: { message: 'response: the rules need more memory to load than the bound of 12 MiB' },
    });
  });
});

describe('an xDS source after an outage', () => {
  it('subscribes with the version it accepted last, without a nonce, and reports once', async () => {
    const { server, watched, stream } = await withRules();
    stream.respond({ version: '2', sources: bad });
    await stream.request();
    await server.stop();
    await eventually(() =>
      expect(watched.reported.filter((text) => text.startsWith('failed')).length > 2).toBe(true),
    );
    expect(watched.source.connected).toBe(false);
    expect(watched.rules).toEqual(['d.k 10']);
    const again = await startServer(server.port);
    const second = await again.stream();
    expect(await second.request()).toMatchObject({
      versionInfo: '1',
      responseNonce: '',
      node: { id: 'node-1' },
    });
    second.respond({ version: '3', sources: [oneRule('d', 30)] });
    expect(await second.request()).toMatchObject({ versionInfo: '3' });
    expect(watched.rules).toEqual(['d.k 30']);
    expect(watched.reported.filter((text) => !text.startsWith('failed'))).toEqual([
      'connected',
      loaded,
      `refused: ${badText}`,
      expect.stringMatching(/^lost: \S/),
      'found',
      loaded,
    ]);
    const refusal = `failed: connect ECONNREFUSED 127.0.0.1:${server.port}`;
    expect(watched.reported).toContain(refusal);
  });

  it('accepts the same resources without loading them again', async () => {
    const { server, watched, stream } = await withRules();
    stream.end();
    const second = await server.stream();
    expect(await second.request()).toMatchObject({ versionInfo: '1', responseNonce: '' });
    second.respond({ version: 'one', nonce: 'n', sources: [oneRule('d', 10)] });
    expect(await second.request()).toMatchObject({ versionInfo: 'one', responseNonce: 'n' });
    expect(watched.reported).toEqual(['connected', loaded, 'lost: the server ended the stream', 'found']);
  });

  it.each([
    ['that the server refused', { code: status.PERMISSION_DENIED, details: 'not you' }, 'not you'],
    ['without a reason', { code: status.INTERNAL, details: '' }, 'status INTERNAL'],
  ])('says why a stream ended %s', async (_, end, reason) => {
    const { watched, stream } = await withRules();
    stream.fail(end);
    await eventually(() => expect(watched.reported.at(-1)).toBe(`lost: ${reason}`));
  });

  it('gives up a stream with bytes that are no response', async () => {
    const { server, watched, stream } = await withRules();
    stream.send(Buffer.from('0a05', 'hex'));
    await stream.ended;
    const second = await server.stream();
    expect(await second.request()).toMatchObject({ versionInfo: '1' });
    expect(watched.reported.at(-1)).toBe(
      'lost: the server sent something other than a DiscoveryResponse: premature EOF',
    );
    expect(watched.rules).toEqual(['d.k 10']);
  });

  it('keeps its rules when a message is too large, and names both sizes and the setting', async () => {
    const server = await startServer();
    const watched = await WatchedXdsSource.start({ port: server.port, maxMessageBytes: 1_000 });
    const stream = await server.stream();
    stream.respond({ version: '1', sources: [oneRule('d', 10)] });
    await eventually(() => expect(watched.rules).toEqual(['d.k 10']));
    stream.respond({ version: '2', sources: [oneRule('x'.repeat(1_000), 10)] });
    await server.stream();
    expect(watched.reported.at(-1)).toMatch(
      /^lost: Received message larger than max \(\d+ vs\.? 1000\) \(raise XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES\)$/,
    );
    expect(watched.rules).toEqual(['d.k 10']);
  });

  it('waits for the retry interval when it cannot connect, and for the backoff when a stream broke', async () => {
    const timers = new ManualTimers();
    const port = await freePort();
    const watched = await WatchedXdsSource.start({
      port,
      timers,
      connectRetryMs: 4_000,
      backoff: steadyBackoff,
    });
    const refusal = `connect ECONNREFUSED 127.0.0.1:${port}`;
    await eventually(() => expect(watched.reported).toEqual([`lost: ${refusal}`]));
    timers.advance(3_999);
    await new Promise((resolve) => setImmediate(resolve));
    expect(timers.size).toBe(1);
    timers.advance(1);
    await eventually(() => expect(watched.reported).toEqual([`lost: ${refusal}`, `failed: ${refusal}`]));
    const server = await startServer(port);
    timers.advance(4_000);
    const stream = await server.stream();
    stream.end();
    await eventually(() => expect(watched.reported).toHaveLength(3));
    expect(watched.reported.at(-1)).toBe('failed: the server ended the stream');
    timers.advance(6_999);
    expect(watched.source.connected).toBe(false);
    timers.advance(1);
    await server.stream();
    await watched.source.close();
    expect(timers.size).toBe(0);
  });
});

describe('an xDS source and a silent server', () => {
  it('says when a stream is open and no rules arrive', async () => {
    const timers = new ManualTimers();
    const server = await startServer();
    const watched = await WatchedXdsSource.start({ port: server.port, timers });
    await (await server.stream()).request();
    timers.advance(5_000);
    expect(watched.reported).toEqual(['connected', 'no rules yet']);
    expect(watched.source.connected).toBe(true);
  });

  it('gives up a connection on which nothing comes', async () => {
    const timers = new ManualTimers();
    const accepted: Socket[] = [];
    const port = await listenInTest(createServer((socket) => accepted.push(socket.resume())));
    const watched = await WatchedXdsSource.start({ port, timers });
    await eventually(() => expect(accepted).toHaveLength(1));
    timers.advance(20_000);
    expect(watched.reported).toEqual(['lost: no connection within 20 s']);
    await eventually(() => expect(accepted[0]?.closed).toBe(true));
  });

  it('notices by pings that a server is gone', async () => {
    const server = await startServer();
    const pipes: Socket[] = [];
    const port = await listenInTest(
      createServer((socket) => {
        const onward = connect(server.port, '127.0.0.1');
        onward.on('error', () => {});
        pipes.push(onward);
        socket.pipe(onward).pipe(socket);
        socket.on('close', () => onward.destroy());
      }),
    );
    const watched = await WatchedXdsSource.start({ port, keepaliveMs: 100, limits: { pingTimeoutMs: 200 } });
    const stream = await server.stream();
    stream.respond({ version: '1', sources: [oneRule('d', 10)] });
    await eventually(() => expect(watched.rules).toEqual(['d.k 10']));
    pipes[0]?.unpipe().pause();
    const second = await server.stream();
    expect(await second.request()).toMatchObject({ versionInfo: '1' });
    expect(watched.reported.filter((text) => text.startsWith('lost'))).toHaveLength(1);
  });

  it('pings half as often if a server does not want so many', async () => {
    const warnings: string[] = [];
    routeGrpcErrors((text) => warnings.push(text));
    const pingTimes: number[][] = [];
    const server = createHttp2Server();
    server.on('session', (session: ServerHttp2Session) => {
      const times: number[] = [];
      pingTimes.push(times);
      session.on('error', () => {});
      session.on('ping', () => {
        times.push(performance.now());
        if (pingTimes.length > 1 || session.destroyed) return;
        session.goaway(11, 1, Buffer.from('too_many_pings'));
        session.destroy();
      });
    });
    server.on('stream', (stream: ServerHttp2Stream) => {
      stream.on('error', () => {});
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
    });
    const watched = await WatchedXdsSource.start({ port: await listenInTest(server), keepaliveMs: 100 });
    await eventually(() => expect(pingTimes[1]?.length).toBeGreaterThan(1), { timeoutMs: 20_000 });
    const [first = 0, second = 0] = pingTimes[1] ?? [];
    expect(second - first).toBeGreaterThan(150);
    expect(warnings).toEqual([expect.stringContaining('rejected by server because of excess pings')]);
    expect(watched.reported.filter((text) => text.startsWith('lost'))).toHaveLength(1);
  });
});

describe('an xDS source that is closed', () => {
  it('reports nothing more, not even of a load under way', async () => {
    const server = await startServer();
    const watched = await WatchedXdsSource.start({ port: server.port, limits: { maxInPlaceBytes: 0 } });
    const stream = await server.stream();
    stream.respond({ version: '1', sources: [oneRule('d', 10)] });
    await eventually(() => expect(watched.reported).toEqual(['connected']));
    await watched.source.close();
    await stream.ended;
    expect(watched.reported).toEqual(['connected']);
    expect(watched.source.connected).toBe(false);
  });
});
