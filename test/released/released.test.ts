/**
 * What each released version promised, in test/released/<version>.json: this version has all of it, reads what that one stored, and
 * understands what its limiters and control planes send. `npm run release` writes the file of a version, once.
 */
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import type { Any } from '@bufbuild/protobuf/wkt';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  type DeltaDiscoveryResponse,
  DeltaDiscoveryResponseSchema,
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { decodeResource } from '../../rules/xds/resource.ts';
import { AdsServer } from '../support/ads-server.ts';
import { projectRoot, readDocument } from '../support/documents.ts';
import { eventually } from '../support/eventually.ts';
import { startLimiterHere } from '../support/in-process-limiter.ts';
import { acceptedValues, interfaces, lost, rejectedValues } from './interfaces.ts';
import { readStoredMaps, type StoredMaps, storedValues, writeStoredMaps } from './stored-maps.ts';
import {
  controlPlaneOfShop,
  makeXdsMessages,
  rawStream,
  withFirstCapability,
  withoutCapabilities,
  type XdsMessages,
} from './xds-messages.ts';

interface Released {
  interfaces: Record<string, unknown>;
  settingValues: Record<string, string[]>;
  storedMaps: StoredMaps;
  messages: XdsMessages;
}

const { version } = JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8')) as {
  version: string;
};
const own = join(import.meta.dirname, `${version}.json`);

it.runIf(process.env['RECORD_RELEASE'] === version && !existsSync(own))('records this version', async () => {
  const released: Released = {
    interfaces: await interfaces(),
    settingValues: acceptedValues(),
    storedMaps: await writeStoredMaps(),
    messages: await makeXdsMessages(),
  };
  const parts = Object.entries(released).map(([name, part]) => {
    const rows = Object.entries(part as object).map(
      ([key, value]) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)}`,
    );
    return ` ${JSON.stringify(name)}: {\n${rows.join(',\n')}\n }`;
  });
  writeFileSync(own, `{\n${parts.join(',\n')}\n}\n`);
});

it('allows additions, wider bounds and fewer required fields, and nothing else', () => {
  const old = {
    type: 'object',
    required: ['a'],
    properties: { a: { maxLength: 5, minimum: 1 } },
    enum: ['x'],
  };
  const change = (more: object) => lost(old, { ...old, ...more });
  expect(lost(old, old)).toEqual([]);
  expect(
    change({ properties: { a: { maxLength: 9, minimum: 0 }, b: {} }, enum: ['y', 'x'], required: [] }),
  ).toEqual([]);
  expect(change({ properties: { a: { minimum: 1 } } })).toEqual([]);
  expect(change({ properties: { a: { maxLength: 4, minimum: 2 } } })).toEqual([
    '.properties.a.maxLength',
    '.properties.a.minimum',
  ]);
  expect(change({ required: ['a', 'b'] })).toEqual(['.required: b']);
  expect(change({ properties: {} })).toEqual(['.properties.a']);
  expect(change({ enum: ['y'] })).toEqual(['.enum: "x"']);
  expect(change({ type: 'array' })).toEqual(['.type']);
  const bounds = { pattern: '^a', maxItems: 1, exclusiveMinimum: 0, additionalProperties: false };
  expect(change(bounds)).toEqual(Object.keys(bounds).map((name) => `.${name}`));
  expect(change({ properties: { ...old.properties, pattern: { enum: ['x'] } } })).toEqual([]);
});

it('finds a value of a setting that is not accepted any more', () => {
  expect(acceptedValues()).toMatchObject({
    BACKEND_TYPE: ['redis', 'memcache', 'memory'],
    PORT: ['0', '65535'],
    REDIS_TIMEOUT: ['1ms', '24h'],
    RLQS: ['true', 'false'],
  });
  expect(rejectedValues({ PORT: ['1', '65536'], REDIS_TYPE: ['CLUSTER', 'x'], GONE: ['1'] })).toEqual([
    'PORT=65536',
    'REDIS_TYPE=x',
    'GONE=1',
  ]);
});

it('writes ConfigMaps that it reads', async () => {
  expect(await readStoredMaps(await writeStoredMaps())).toEqual(storedValues);
});

it('docs/versions.md promises compatibility from 0.1.0 on', () => {
  const text = readDocument('docs/versions.md').replaceAll(/\s+/g, ' ');
  expect(text).toContain('promises compatibility from 0.1.0 on; builds before it have no upgrade path');
});

/** Rules that need the capability `algorithms`. */
const slidingDay = { rateLimit: { unit: 'day', requestsPerUnit: 9, algorithm: 'SlidingWindow' } };

const limiterKinds = [
  { limiter: 'limiters', isOld: false, by: (message: string) => message },
  { limiter: 'limiters that report no capabilities', isOld: true, by: withoutCapabilities },
  { limiter: 'limiters with the first capability alone', isOld: true, by: withFirstCapability },
];

describe.each(globSync('*.json', { cwd: import.meta.dirname }).sort())('version %s', (file) => {
  let released: Released;
  beforeAll(() => {
    released = JSON.parse(readFileSync(join(import.meta.dirname, basename(file)), 'utf8')) as Released;
  });

  it('has lost no setting, flag, metric, path or field since', async () => {
    expect(lost(released.interfaces, await interfaces())).toEqual([]);
  });

  it('has no value of a setting that this version rejects', () => {
    expect(rejectedValues(released.settingValues)).toEqual([]);
  });

  it('stored ConfigMaps that this version reads', async () => {
    expect(await readStoredMaps(released.storedMaps)).toEqual(storedValues);
  });

  it.each(limiterKinds)(
    'has $limiter that this control plane serves, and understands',
    async ({ by, isOld }) => {
      const { plane, apply } = await controlPlaneOfShop();
      const { subscribe, accept, reject } = released.messages.limiter.world;
      const call = rawStream(plane.ports.xds, 'world');
      const responses: DiscoveryResponse[] = [];
      call.on('data', (bytes: Buffer) => responses.push(fromBinary(DiscoveryResponseSchema, bytes)));
      const next = async (count: number): Promise<DiscoveryResponse> => {
        await eventually(() => expect(responses).toHaveLength(count));
        return responses[count - 1] as DiscoveryResponse;
      };
      const programmed = async () => (await plane.snapshot()).fleets[0].objects[0].programmed;

      call.write(Buffer.from(by(subscribe, 'world'), 'base64'));
      const first = await next(1);
      expect(first.resources.map(({ value }) => decodeResource(value).domain)).toEqual(['shop']);
      call.write(answering(by(accept, 'world'), first.versionInfo, first.nonce));
      await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'AllLimiters' }));
      const { limiters } = (await plane.snapshot()).fleets[0];
      expect(limiters).toMatchObject([{ name: 'limiter-0', isWeir: true, isCurrent: true }]);

      apply(9, slidingDay);
      let accepted = first;
      if (!isOld) {
        accepted = await next(2);
        call.write(answering(accept, accepted.versionInfo, accepted.nonce));
        await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'AllLimiters' }));
      } else {
        await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'LimiterTooOld' }));
        expect(responses).toHaveLength(1);
      }

      apply(4);
      const last = await next(responses.length + 1);
      call.write(answering(by(reject, 'world'), accepted.versionInfo, last.nonce));
      await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'Refused' }));
      expect((await programmed()).message).toContain('limiter-0');
    },
  );

  it.each(limiterKinds)('has $limiter that this control plane serves by delta xDS', async ({ by, isOld }) => {
    const { plane, apply } = await controlPlaneOfShop();
    const { subscribe, accept, reject } = released.messages.limiter.delta;
    const call = rawStream(plane.ports.xds, 'delta');
    const responses: DeltaDiscoveryResponse[] = [];
    call.on('data', (bytes: Buffer) => responses.push(fromBinary(DeltaDiscoveryResponseSchema, bytes)));
    const answer = async (message: string, count: number): Promise<DeltaDiscoveryResponse> => {
      await eventually(() => expect(responses).toHaveLength(count));
      const response = responses[count - 1] as DeltaDiscoveryResponse;
      call.write(withField(by(message, 'delta'), 6, response.nonce));
      return response;
    };
    const programmed = async () => (await plane.snapshot()).fleets[0].objects[0].programmed;

    call.write(Buffer.from(by(subscribe, 'delta'), 'base64'));
    const { resources } = await answer(accept, 1);
    expect(resources.map(({ resource }) => decodeResource(resource!.value).domain)).toEqual(['shop']);
    await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'AllLimiters' }));

    apply(9, slidingDay);
    if (isOld) {
      await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'LimiterTooOld' }));
      expect(responses).toHaveLength(1);
    } else {
      await answer(accept, 2);
      await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'AllLimiters' }));
    }

    apply(4);
    await answer(reject, responses.length + 1);
    await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'Refused' }));
    expect((await programmed()).message).toContain('limiter-0');

    apply(5);
    await answer(accept, responses.length + 1);
    await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'AllLimiters' }));
  });

  it.each(['world', 'delta'] as const)(
    'has a control plane whose rules this limiter runs, also after it rejects others: %s',
    async (form) => {
      const server = await AdsServer.start({ incremental: form === 'delta' });
      onTestFinished(() => server.stop());
      const starting = startLimiterHere({
        env: {
          BACKEND_TYPE: 'memory',
          CONFIG_TYPE: form === 'delta' ? 'GRPC_XDS_DELTA' : 'GRPC_XDS_SOTW',
          CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}`,
        },
      });
      const bytes = Buffer.from(released.messages.controlPlane[form], 'base64');
      const response =
        form === 'delta'
          ? fromBinary(DeltaDiscoveryResponseSchema, bytes)
          : fromBinary(DiscoveryResponseSchema, bytes);
      const stream = await (form === 'delta' ? server.deltaStream() : server.stream());
      await stream.request();
      stream.send(bytes);
      expect(await stream.request()).toMatchObject({ responseNonce: response.nonce });
      expect(stream.requests.at(-1)).not.toHaveProperty('errorDetail.message');
      const limiter = await starting;
      onTestFinished(async () => void (await limiter.stop()));
      const expectLimitOf3 = async (value: string) => {
        const asked = [0, 1, 2, 3].map(() => limiter.ask('shop', [{ key: value }]));
        expect((await Promise.all(asked)).map(({ status }) => status).sort()).toEqual([200, 200, 200, 429]);
      };
      await expectLimitOf3('accepted');

      stream.send(damaged(response));
      expect(await stream.request()).toMatchObject({
        responseNonce: 'damaged',
        errorDetail: { message: expect.stringMatching(/./) },
      });
      await expectLimitOf3('rejected');
    },
  );
});

/** The next response after this one: the same resources with values that are no rules. */
function damaged(response: DiscoveryResponse | DeltaDiscoveryResponse): Uint8Array {
  const damage = (resource: Any): Any => ({ ...resource, value: new Uint8Array([10]) });
  if (response.$typeName === 'envoy.service.discovery.v3.DiscoveryResponse') {
    const resources = response.resources.map(damage);
    const next = { ...response, resources, versionInfo: 'damaged', nonce: 'damaged' };
    return toBinary(DiscoveryResponseSchema, next);
  }
  const resources = response.resources.map((one) => ({
    ...one,
    version: 'damaged',
    resource: damage(one.resource!),
  }));
  return toBinary(DeltaDiscoveryResponseSchema, { ...response, resources, nonce: 'damaged' });
}

function withField(message: string, field: number, text: string): Buffer {
  const writer = new BinaryWriter().tag(field, WireType.LengthDelimited).string(text);
  return Buffer.concat([Buffer.from(message, 'base64'), writer.finish()]);
}

/** The recorded request for the state of the world as an answer to this response: of a field that is there twice, the last one counts. */
function answering(message: string, versionInfo: string, nonce: string): Buffer {
  return withField(withField(message, 1, versionInfo).toString('base64'), 5, nonce);
}
