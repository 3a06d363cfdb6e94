import { anyUnpack } from '@bufbuild/protobuf/wkt';
import { describe, expect, it, onTestFinished } from 'vitest';
import { RefusedResourcesSchema } from '../../../gen/weir/xds/v1/refused_resources_pb.ts';
import type { RuleSource } from '../../../rules/model.ts';
import { rateLimitConfigTypeUrl } from '../../../rules/reader/resource.ts';
import { AdsServer } from '../../../test/support/ads-server.ts';
import { eventually } from '../../../test/support/eventually.ts';
import { limit, rule, source } from '../../../test/support/rule-builder.ts';
import { WatchedXdsSource } from '../../../test/support/watched-xds-source.ts';

function oneRule(domain: string, requestsPerUnit: number, name = `team/${domain}`): RuleSource {
  return source(domain, [rule({ key: 'k', rateLimit: limit({ requestsPerUnit }) })], name);
}

const loaded = 'loaded: 1 sources, 1 domains, 1 rules';

async function startServer(): Promise<AdsServer> {
  const server = await AdsServer.start();
  onTestFinished(() => server.stop());
  return server;
}

describe('incremental xDS', () => {
  const resource = (version: string, requestsPerUnit: number, domain = 'd') =>
    [version, oneRule(domain, requestsPerUnit)] as const;

  async function incremental() {
    const server = await AdsServer.start({ incremental: true });
    onTestFinished(() => server.stop());
    const watched = await WatchedXdsSource.start({ port: server.port, incremental: true });
    const stream = await server.deltaStream();
    return { server, watched, stream };
  }

  it('asks for everything, and answers each response', async () => {
    const { watched, stream } = await incremental();
    expect(await stream.request()).toMatchObject({
      node: { id: 'node-1' },
      typeUrl: rateLimitConfigTypeUrl,
      resourceNamesSubscribe: [],
      initialResourceVersions: {},
      responseNonce: '',
    });
    stream.respond({
      version: '1',
      resources: { 'team/d': resource('v1', 10), 'team/e': resource('v1', 5, 'e') },
    });
    expect(await stream.request()).toMatchObject({ responseNonce: 'nonce-1' });
    expect(stream.requests.map(({ errorDetail }) => errorDetail)).toEqual([undefined, undefined]);
    expect(watched.rules).toEqual(['d.k 10', 'e.k 5']);
    stream.respond({ version: '2', resources: { 'team/d': resource('v2', 20) }, removed: ['team/e'] });
    expect(await stream.request()).toMatchObject({ responseNonce: 'nonce-2' });
    expect(watched.rules).toEqual(['d.k 20']);
  });

  it('says what it has when it connects again, and does not load it again', async () => {
    const { server, watched, stream } = await incremental();
    stream.respond({ version: '1', resources: { 'team/d': resource('v1', 10) } });
    await stream.request();
    await stream.request();
    stream.end();
    const next = await server.deltaStream();
    expect(await next.request()).toMatchObject({
      initialResourceVersions: { 'team/d': 'v1' },
      responseNonce: '',
    });
    next.respond({ version: '1' });
    expect(await next.request()).toMatchObject({ responseNonce: 'nonce-1' });
    expect(watched.rules).toEqual(['d.k 10']);
    expect(watched.reported.filter((one) => one.startsWith('loaded'))).toHaveLength(1);
  });

  it('lists what of a response it rejects, and has the rest in force', async () => {
    const { watched, stream } = await incremental();
    stream.respond({ version: '1', resources: { 'team/d': resource('v1', 10) } });
    await stream.request();
    await stream.request();
    const taken = oneRule('d', 7, 'team/t');
    stream.respond({
      version: '2',
      resources: { 'team/t': ['v1', taken], 'team/e': resource('v1', 5, 'e') },
    });
    const { errorDetail, responseNonce } = await stream.request();
    expect(responseNonce).toBe('nonce-2');
    expect(errorDetail?.message).toBe("team/t: duplicate domain 'd' in config file");
    const [detail] = errorDetail?.details ?? [];
    expect(detail && anyUnpack(detail, RefusedResourcesSchema)?.resources).toMatchObject([
      { name: 'team/t', message: "duplicate domain 'd' in config file" },
    ]);
    expect(watched.rules).toEqual(['d.k 10', 'e.k 5']);
    expect(watched.reported.slice(-2)).toEqual([
      'loaded: 2 sources, 2 domains, 2 rules',
      "refused: team/t: duplicate domain 'd' in config file",
    ]);
  });

  it('looks at what has changed, and still knows what was said of the rest', async () => {
    const server = await AdsServer.start({ incremental: true });
    onTestFinished(() => server.stop());
    const limits = { reviewDelayMs: 0 };
    const watched = await WatchedXdsSource.start({ port: server.port, incremental: true, limits });
    const stream = await server.deltaStream();
    const of = (name: string, key: string) =>
      [name, ['v', source(name, [rule({ key, rateLimit: limit() })], name)]] as const;
    const plain = Array.from({ length: 30 }, (_, i) => of(`n${i}`, 'k'));
    const expectReport = async (expected: string[]) =>
      eventually(() => expect(watched.warned.at(-1)?.toSorted()).toEqual(expected));
    stream.respond({ version: '1', resources: Object.fromEntries([...plain, of('a', 'k.a')]) });
    await expectReport(['a k.a']);
    stream.respond({ version: '2', resources: Object.fromEntries([of('n3', 'k.n')]) });
    await expectReport(['a k.a', 'n3 k.n']);
    stream.respond({ version: '3', resources: Object.fromEntries([of('a', 'k')]) });
    await expectReport(['n3 k.n']);
    expect(watched.reported.filter((one) => one.startsWith('loaded'))).toEqual(
      Array(3).fill('loaded: 31 sources, 31 domains, 31 rules'),
    );
  });

  it('takes the newest of what comes while it loads', async () => {
    const { watched, stream } = await incremental();
    await stream.request();
    for (let i = 1; i <= 20; i++)
      stream.respond({ version: `${i}`, resources: { [`n${i}`]: resource('v', i, `d${i}`) } });
    await eventually(() => expect(stream.requests.at(-1)?.responseNonce).toBe('nonce-20'));
    expect(watched.rules).toHaveLength(20);
  });

  it('goes back to the state of the world if the server does not know it, and tries it with the next connection', async () => {
    const server = await startServer();
    const watched = await WatchedXdsSource.start({ port: server.port, incremental: true });
    const stream = await server.stream();
    expect(await stream.request()).toMatchObject({ versionInfo: '', responseNonce: '' });
    stream.respond({ version: '1', sources: [oneRule('d', 10)] });
    await stream.request();
    expect(watched.reported).toEqual(['not incremental', 'connected', loaded]);
    stream.end();
    const again = await server.stream();
    expect(await again.request()).toMatchObject({ versionInfo: '1' });
    expect(watched.reported.filter((one) => one === 'not incremental')).toHaveLength(1);
    await server.stop();
    const newer = await AdsServer.start({ port: server.port, incremental: true });
    onTestFinished(() => newer.stop());
    const delta = await newer.deltaStream();
    // The resources in force have no versions that were reported.
    expect(await delta.request()).toMatchObject({ initialResourceVersions: {} });
    delta.respond({ version: '2', resources: { 'team/d': resource('v1', 10) } });
    expect(await delta.request()).toMatchObject({ responseNonce: 'nonce-2' });
    expect(delta.requests.map(({ errorDetail }) => errorDetail)).toEqual([undefined, undefined]);
    expect(watched.reported.filter((one) => one.startsWith('loaded'))).toHaveLength(1);
    delta.end();
    expect(await (await newer.deltaStream()).request()).toMatchObject({
      initialResourceVersions: { 'team/d': 'v1' },
    });
  });

  it('ends a stream that brings an invalid response', async () => {
    const { watched, stream } = await incremental();
    stream.send(Buffer.from([0xff, 0xff]));
    await stream.ended;
    await eventually(() =>
      expect(watched.reported.join()).toContain(
        'lost: the server sent something other than a DeltaDiscoveryResponse',
      ),
    );
  });
});
