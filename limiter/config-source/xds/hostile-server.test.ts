/** What a hostile xDS server can do to a limiter: over real streams, with the rules that were in force before. */
import { setTimeout as sleep } from 'node:timers/promises';
import { create, toBinary } from '@bufbuild/protobuf';
import { Metadata, status } from '@grpc/grpc-js';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  DeltaDiscoveryResponseSchema,
  DiscoveryResponseSchema,
} from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { encodeResource, rateLimitConfigTypeUrl as typeUrl } from '../../../rules/reader/resource.ts';
import { AdsServer, DeltaServerStream } from '../../../test/support/ads-server.ts';
import { eventually } from '../../../test/support/eventually.ts';
import { limit, rule, source } from '../../../test/support/rule-builder.ts';
import { WatchedXdsSource } from '../../../test/support/watched-xds-source.ts';

const ofDomain = (domain: string, requestsPerUnit: number) =>
  source(domain, [rule({ key: 'k', rateLimit: limit({ requestsPerUnit }) })], domain);
/** A resource of this size that no limiter takes for rules. */
const junk = (bytes: number) => ['v', new Uint8Array(bytes).fill(0xff)] as const;
const bound = 'the resources have more than 1048576 bytes in total (XDS_CLIENT_MAX_TOTAL_BYTES)';

/** A limiter that has rules of the server in force: the first stream, after its two requests. */
async function serving(incremental: boolean) {
  const server = await AdsServer.start({ incremental: true });
  onTestFinished(() => server.stop());
  const watched = await WatchedXdsSource.start({ port: server.port, incremental });
  return { server, watched };
}

async function incremental() {
  const { server, watched } = await serving(true);
  const stream = await server.deltaStream();
  stream.respond({ version: '1', resources: { d: ['v1', ofDomain('d', 10)] } });
  for (let request = 0; request < 2; request += 1) await stream.request();
  expect(watched.rules).toEqual(['d.k 10']);
  return { server, watched, stream };
}

async function stateOfTheWorld() {
  const { server, watched } = await serving(false);
  const stream = await server.stream();
  stream.respond({ version: '1', sources: [ofDomain('d', 10)] });
  for (let request = 0; request < 2; request += 1) await stream.request();
  return { server, watched, stream };
}

describe('a hostile server', () => {
  it('that sends new names without end is rejected at the bound, and the last good rules stay in force', async () => {
    const { server, watched, stream } = await incremental();
    for (let n = 2; n < 30; n += 1)
      stream.respond({ version: `${n}`, resources: { [`n${n}`]: junk(100_000) } });
    await stream.ended;
    expect(stream.requests.at(-1)).toMatchObject({ errorDetail: { message: bound } });
    expect(stream.requests.at(-1)?.responseNonce).toMatch(/^nonce-(1[0-2])$/);
    expect(watched.reported).toContain(`refused: response: ${bound}`);
    expect(watched.reported).toContain(`lost: ${bound}`);
    expect(watched.rules).toEqual(['d.k 10']);
    // The next stream begins with what is in force, and goes on from there.
    const next = await server.deltaStream();
    expect(await next.request()).toMatchObject({ initialResourceVersions: { d: 'v1' }, responseNonce: '' });
    expect(watched.source.resourceBytes).toBeLessThan(2_000);
    next.respond({ version: '40', resources: { d: ['v2', ofDomain('d', 20)] } });
    expect(await next.request()).toMatchObject({ responseNonce: 'nonce-40' });
    expect(watched.rules).toEqual(['d.k 20']);
  });

  it('that sends very many small resources is rejected as well', async () => {
    const { watched, stream } = await incremental();
    const many = Object.fromEntries(Array.from({ length: 2_100 }, (_, n) => [`n${n}`, junk(1)]));
    stream.respond({ version: '2', resources: many });
    await stream.ended;
    expect(stream.requests.at(-1)).toMatchObject({ errorDetail: { message: bound } });
    expect(watched.rules).toEqual(['d.k 10']);
  });

  it('makes room by what it removes, and by what it replaces', async () => {
    const { watched, stream } = await incremental();
    for (const version of ['2', '3']) {
      stream.respond({ version, resources: { big: junk(600_000) } });
      expect((await stream.request()).errorDetail?.message).not.toBe(bound);
      stream.respond({ version: `${version}x`, resources: { other: junk(600_000) }, removed: ['big'] });
      await stream.request();
      stream.respond({ version: `${version}y`, removed: ['other'] });
      await stream.request();
    }
    expect(watched.reported.filter((one) => one.startsWith('lost'))).toEqual([]);
  });

  it.each([true, false])(
    'that floods responses is read 20 times a second, incremental: %j',
    async (isIncremental) => {
      const { watched, stream } = isIncremental ? await incremental() : await stateOfTheWorld();
      const [before, beganMs] = [stream.requests.length, performance.now()];
      for (let n = 1; n <= 2_000; n += 1) {
        const version = `f${n}`;
        if (stream instanceof DeltaServerStream)
          stream.respond({ version, resources: { d: [version, ofDomain('d', n)] } });
        else stream.respond({ version, sources: [ofDomain('d', n)] });
      }
      await eventually(() => expect(stream.requests.length).toBeGreaterThan(200));
      await sleep(500);
      const read = stream.requests.length - before;
      const seconds = (performance.now() - beganMs) / 1000;
      // After the first 200, however long these took.
      expect(read).toBeLessThanOrEqual(200 + 20 * seconds + 5);
      expect(watched.reported.filter((one) => one.startsWith('lost'))).toEqual([]);
    },
  );

  it.each(['version', 'nonce', 'type URL', 'name'] as const)(
    'cannot have a %s repeated that is huge',
    async (what) => {
      const huge = 'x'.repeat(100_000);
      const { watched, stream } = await incremental();
      stream.send(
        toBinary(
          DeltaDiscoveryResponseSchema,
          create(DeltaDiscoveryResponseSchema, {
            systemVersionInfo: what === 'version' ? huge : '2',
            nonce: what === 'nonce' ? huge : 'n',
            typeUrl: what === 'type URL' ? huge : typeUrl,
            resources: what === 'name' ? [{ name: huge, version: '1' }] : [],
          }),
        ),
      );
      await stream.ended;
      const problem = `its ${what} has 100000 characters; the maximum is 4096`;
      await eventually(() =>
        expect(watched.reported).toContain(
          `lost: the server sent something other than a DeltaDiscoveryResponse: ${problem}`,
        ),
      );
      expect(watched.rules).toEqual(['d.k 10']);
      if (what === 'name') return;
      const whole = await stateOfTheWorld();
      const fields = { versionInfo: '2', nonce: 'n', typeUrl };
      const field = { version: 'versionInfo', nonce: 'nonce', 'type URL': 'typeUrl' }[what];
      const response = create(DiscoveryResponseSchema, { ...fields, [field]: huge });
      whole.stream.send(toBinary(DiscoveryResponseSchema, response));
      await eventually(() =>
        expect(whole.watched.reported).toContain(
          `lost: the server sent something other than a DiscoveryResponse: ${problem}`,
        ),
      );
    },
  );

  it('may leave names empty or send one twice: the last of a name counts', async () => {
    const { watched, stream } = await incremental();
    const packed = (name: string, requests: number) => ({
      name,
      version: `${requests}`,
      resource: { typeUrl, value: encodeResource(ofDomain(name === '' ? 'e' : 'd', requests)) },
    });
    const resources = [packed('', 1), packed('d', 2), packed('d', 3), packed('', 4)];
    const response = create(DeltaDiscoveryResponseSchema, {
      systemVersionInfo: '2',
      nonce: 'n',
      typeUrl,
      resources,
    });
    stream.send(toBinary(DeltaDiscoveryResponseSchema, response));
    expect(await stream.request()).toMatchObject({ responseNonce: 'n' });
    expect(watched.rules).toEqual(['d.k 3', 'e.k 4']);
  });

  it('is reported off in a few words, whatever it says, and cannot fake a line', async () => {
    const { watched, stream } = await incremental();
    const trailers = new Metadata();
    trailers.set('x', 'y'.repeat(1_000));
    stream.fail({
      code: status.INTERNAL,
      details: `\u001b[2J\nlevel=error ${'z'.repeat(5_000)}`,
      metadata: trailers,
    });
    await eventually(() => expect(watched.reported.at(-1)).toMatch(/^lost: /));
    expect(watched.reported.at(-1)?.length).toBeLessThan(1_100);
    expect(watched.reported.at(-1)).not.toContain('\n');
    expect(watched.rules).toEqual(['d.k 10']);
  });

  it('that ends each stream at once is asked again after a wait only, and keeps what is in force', async () => {
    const { server, watched, stream } = await incremental();
    stream.end();
    const beganMs = performance.now();
    for (let streams = 0; streams < 10; streams += 1) (await server.deltaStream()).end();
    expect(performance.now() - beganMs).toBeGreaterThan(9 * 20);
    expect(watched.rules).toEqual(['d.k 10']);
  });
});
