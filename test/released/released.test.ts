/**
 * What each released version promised, in test/released/<version>.json: this version has all of it, reads what that one stored, and
 * understands what its limiters and control planes send. `npm run release` writes the file of a version, once.
 */
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  type DeltaDiscoveryResponse,
  DeltaDiscoveryResponseSchema,
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { decodeResource, resourceHead } from '../../rules/reader/resource.ts';
import { AdsServer } from '../support/ads-server.ts';
import { projectRoot, readDocument } from '../support/documents.ts';
import { eventually } from '../support/eventually.ts';
import type { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { startLimiterHere } from '../support/in-process-limiter.ts';
import { acceptedValues, interfaces, lost, plain, rejectedValues } from './interfaces.ts';
import { readStoredMaps, type StoredMaps, storedValues, writeStoredMaps } from './stored-maps.ts';
import {
  controlPlaneOfShop,
  damaged,
  makeXdsMessages,
  rawStream,
  responseIn,
  slidingDay,
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

it.each([
  { not: { required: ['a'] } },
  { allOf: [{ required: ['a'] }] },
  { oneOf: [{ required: ['a'] }] },
  { anyOf: [{ required: ['a'] }] },
  { if: { required: ['a'] } },
  { dependentRequired: { a: ['b'] } },
  { dependentSchemas: { a: { required: ['b'] } } },
  { dependencies: { a: ['b'] } },
  { propertyNames: { pattern: '^a' } },
  { patternProperties: { '^a': { maxLength: 1 } } },
  { additionalProperties: { maxLength: 1 } },
  { items: { maxLength: 1 } },
  { contains: { maxLength: 1 } },
  { type: 'object' },
  { required: ['a'] },
  { 'x-kubernetes-validations': ['has(self.a)'] },
])('rejects the new restriction %j, and allows a field of its name', (restriction) => {
  const [name = ''] = Object.keys(restriction);
  const old = { properties: { a: { maxLength: 5 } } };
  expect(lost(old, { ...old, ...restriction })).toEqual([`.${name}`]);
  expect(lost({ anyOf: [old] }, { anyOf: [{ ...old, ...restriction }] })).toHaveLength(1);
  const withField = { properties: { ...old.properties, [name]: { type: 'string' } } };
  expect(lost(old, withField)).toEqual([]);
  expect(lost(withField, old)).toEqual([`.properties.${name}`]);
});

it('rejects another CEL rule and a changed one, and allows fewer', () => {
  const name = 'x-kubernetes-validations';
  const change = (now: object) => lost({ type: 'object', [name]: ['x', 'y'] }, { type: 'object', ...now });
  expect(change({ [name]: ['y'] })).toEqual([]);
  expect(change({})).toEqual([]);
  expect(change({ [name]: ['x', 'y', 'z'] })).toEqual([`.${name}: z`]);
  expect(change({ [name]: ['x', 'y2'] })).toEqual([`.${name}: y2`]);
});

it('rejects another schema in allOf, and each change of not, if and what fields depend on', () => {
  const one = { required: ['a'] };
  const two = { required: ['b'] };
  const allOf = [one];
  expect(lost({ allOf }, { allOf: [{ required: [] }] })).toEqual([]);
  expect(lost({ allOf }, { allOf: [one, two] })).toEqual(['.allOf: {"required":["b"]}']);
  expect(lost({ anyOf: [one] }, { anyOf: [one, two] })).toEqual([]);
  expect(lost({ anyOf: [one, two] }, { anyOf: [one] })).toEqual(['.anyOf: {"required":["b"]}']);
  const values = {
    not: [one, { required: [] }],
    if: [one, two],
    dependentRequired: [{ a: ['b'] }, { c: ['b'] }],
  };
  for (const [name, [before, after]] of Object.entries(values)) {
    expect(lost({ [name]: before }, { [name]: before })).toEqual([]);
    expect(lost({ [name]: before }, { [name]: after })).toEqual([`.${name}`]);
  }
});

it('records fields with the names of keywords for readers, and no texts, examples and versions of the product', () => {
  const names = ['version', 'info', 'example', 'examples', 'title', 'description', 'properties'];
  const fields = Object.fromEntries(names.map((name) => [name, { type: 'string' }]));
  const texts = { title: 'T', description: 'D', example: 'a', examples: { one: { value: 'a' } } };
  expect(plain({ info: { version: '1', title: 'T' }, properties: fields, ...texts })).toEqual({
    info: {},
    properties: fields,
  });
  expect(plain({ properties: { properties: { type: 'string', ...texts } } })).toEqual({
    properties: { properties: { type: 'string' } },
  });
  expect(plain({ version: '1', 'x-kubernetes-validations': [{ rule: 'x', message: 'm' }] })).toEqual({
    version: '1',
    'x-kubernetes-validations': ['x'],
  });
});

it.each(['CEL rules', 'fields named version'])('records all %s', async (what) => {
  const recorded = JSON.stringify(await interfaces());
  const read = (pattern: string) =>
    globSync(pattern, { cwd: projectRoot }).map((path) => readFileSync(join(projectRoot, path), 'utf8'));
  const [pattern, written] =
    what === 'CEL rules'
      ? [
          /"x-kubernetes-validations"/g,
          read('crds/*.yaml')
            .join('')
            .match(/x-kubernetes-validations:/g),
        ]
      : [
          /"version":\{/g,
          read('{docs/openapi.json,crds/*.yaml}')
            .join('')
            .match(/"version": \{|^ +version:$/gm),
        ];
  expect(recorded.match(pattern)).toHaveLength(written?.length ?? 0);
  expect(written).not.toBeNull();
});

it('finds a statistic of rules, a tag and a label that are gone', async () => {
  const rule = 'ratelimit.service.rate_limit.<metric key>';
  const metric = 'weir_control_plane_fleet_rules';
  const old = {
    statistics: [`${rule}.passed`, `${rule}.leased_hits`, `${rule}.gone`],
    statisticTags: { 'ratelimit.limits.warned': ['rule', 'gone'] },
    limiterMetrics: { 'ratelimit.service.config_load_success': { name: 'gone', labels: [] } },
    controlPlaneMetrics: { [metric]: { kind: 'gauge', labels: ['fleet', 'gone'] } },
  };
  expect(lost(old, await interfaces())).toEqual([
    `.statistics: "${rule}.gone"`,
    '.statisticTags.ratelimit.limits.warned: "gone"',
    '.limiterMetrics.ratelimit.service.config_load_success.name',
    `.controlPlaneMetrics.${metric}.labels: "gone"`,
  ]);
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

const limiterKinds = [
  { limiter: 'limiters', isOld: false, by: (message: string) => message },
  { limiter: 'limiters that report no capabilities', isOld: true, by: withoutCapabilities },
  { limiter: 'limiters with the first capability alone', isOld: true, by: withFirstCapability },
];

/** The domains of `controlPlaneOfShop` with the limits of their first rules, as such limiters get them. */
const wantedRules = (isOld: boolean) => [
  ['shop', 3],
  ['zone', isOld ? 2 : 4],
  ...(isOld ? [] : [['shop', 'override']]),
];

function rulesIn(value: Uint8Array): [domain: string, limit: number | 'override' | undefined] {
  const { domain, isOverride } = resourceHead(value);
  return [domain, isOverride ? 'override' : decodeResource(value).descriptors[0]?.limits[0]?.requestsPerUnit];
}

/** Of `shop`, of `zone`, and of the override, once such a limiter accepted what it got. */
const wantedReasons = (isOld: boolean): string[] =>
  isOld ? ['AllLimiters', 'LimiterTooOld', 'LimiterTooOld'] : ['AllLimiters', 'AllLimiters', 'AllLimiters'];

interface Programmed {
  reason: string;
  message: string;
}

/** The reason of the condition Programmed of each object, in the order of their names. */
async function reasons(plane: InProcessControlPlane): Promise<(string | undefined)[]> {
  const objects: { programmed: Programmed | null }[] = (await plane.snapshot()).fleets[0].objects;
  return objects.map(({ programmed }) => programmed?.reason);
}

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
      const { plane, apply, applySale } = await controlPlaneOfShop();
      const { subscribe, accept, reject, rejectOverride } = released.messages.limiter.world;
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
      expect(first.resources.map(({ value }) => rulesIn(value))).toEqual(wantedRules(isOld));
      call.write(answering(by(accept, 'world'), first.versionInfo, first.nonce));
      await eventually(async () => expect(await programmed()).toMatchObject({ reason: 'AllLimiters' }));
      expect(await reasons(plane)).toEqual(wantedReasons(isOld));
      const { limiters } = (await plane.snapshot()).fleets[0];
      expect(limiters).toMatchObject([{ name: 'limiter-0', isWeir: true, isCurrent: true }]);

      apply(9, slidingDay(9));
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

      if (!isOld) {
        applySale(6);
        const { nonce } = await next(responses.length + 1);
        call.write(answering(rejectOverride, accepted.versionInfo, nonce));
        await eventually(async () => expect((await reasons(plane)).at(-1)).toBe('Refused'));
      }
    },
  );

  it.each(limiterKinds)('has $limiter that this control plane serves by delta xDS', async ({ by, isOld }) => {
    const { plane, apply, applySale } = await controlPlaneOfShop();
    const { subscribe, accept, reject, rejectOverride } = released.messages.limiter.delta;
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
    expect(resources.map(({ resource }) => rulesIn(resource!.value))).toEqual(wantedRules(isOld));
    await eventually(async () => expect(await reasons(plane)).toEqual(wantedReasons(isOld)));

    apply(9, slidingDay(9));
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

    if (!isOld) {
      applySale(6);
      await answer(rejectOverride, responses.length + 1);
      await eventually(async () => expect((await reasons(plane)).at(-1)).toBe('Refused'));
    }
  });

  it.each([
    { form: 'world', sent: 'all' },
    { form: 'world', sent: 'fallback' },
    { form: 'delta', sent: 'all' },
    { form: 'delta', sent: 'fallback' },
  ] as const)(
    'has a control plane whose rules this limiter runs, also after it rejects others: $form, $sent',
    async ({ form, sent }) => {
      const server = await AdsServer.start({ incremental: form === 'delta' });
      onTestFinished(() => server.stop());
      const starting = startLimiterHere({
        env: {
          BACKEND_TYPE: 'memory',
          CONFIG_TYPE: form === 'delta' ? 'GRPC_XDS_DELTA' : 'GRPC_XDS_SOTW',
          CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}`,
        },
      });
      const message = released.messages.controlPlane[form][sent];
      const response = responseIn(message, form);
      const stream = await (form === 'delta' ? server.deltaStream() : server.stream());
      await stream.request();
      stream.send(Buffer.from(message, 'base64'));
      expect(await stream.request()).toMatchObject({ responseNonce: response.nonce });
      expect(stream.requests.at(-1)).not.toHaveProperty('errorDetail.message');
      const limiter = await starting;
      onTestFinished(async () => void (await limiter.stop()));
      const expectLimit = async (domain: string, value: string, limit: number) => {
        const asked = Array.from({ length: limit + 1 }, () => limiter.ask(domain, [{ key: value }]));
        const statuses = (await Promise.all(asked)).map(({ status }) => status).sort();
        expect([domain, value, statuses]).toEqual([domain, value, [...Array(limit).fill(200), 429]]);
      };
      const isAll = sent === 'all';
      await expectLimit('shop', 'accepted', 3);
      await expectLimit('shop', 'sale', isAll ? 5 : 3);
      await expectLimit('zone', 'accepted', isAll ? 4 : 2);

      stream.send(damaged(response, 'damaged'));
      expect(await stream.request()).toMatchObject({
        responseNonce: 'damaged',
        errorDetail: { message: expect.stringMatching(/./) },
      });
      await expectLimit('shop', 'rejected', 3);
      await expectLimit('zone', 'rejected', isAll ? 4 : 2);
    },
  );
});

function withField(message: string, field: number, text: string): Buffer {
  const writer = new BinaryWriter().tag(field, WireType.LengthDelimited).string(text);
  return Buffer.concat([Buffer.from(message, 'base64'), writer.finish()]);
}

/** The recorded request for the state of the world as an answer to this response: of a field that is there twice, the last one counts. */
function answering(message: string, versionInfo: string, nonce: string): Buffer {
  return withField(withField(message, 1, versionInfo).toString('base64'), 5, nonce);
}
