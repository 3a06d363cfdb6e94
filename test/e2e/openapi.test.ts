/** docs/openapi.yaml is true: what it says is asked of a real limiter and a real control plane, and answers are held to its schemas. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { httpAsk } from '../support/http-ask.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { ScriptedXdsClient } from '../support/xds-client.ts';

interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  oneOf?: Schema[];
  required?: string[];
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  items?: Schema;
  minItems?: number;
  maxItems?: number;
}

interface Asked {
  /** `callers`: a limiter on the port of callers. */
  of: 'limiter' | 'callers' | 'control-plane';
  query?: string;
  /** In place of `{name}`. */
  path?: Record<string, string>;
  headers?: Record<string, string>;
  body?: unknown;
  status: number;
  /** `Nothing`: there is no body. */
  schema: string;
}

interface Operation {
  operationId: string;
  parameters?: { name?: string; in?: string; $ref?: string }[];
  'x-asked': Asked[];
}

const docs = join(import.meta.dirname, '../../docs');
const document = load(readFileSync(join(docs, 'openapi.yaml'), 'utf8')) as {
  paths: Record<string, Record<string, Operation>>;
};
/** As they are served: some follow from the rows of the rule language. */
const { schemas, parameters } = (
  JSON.parse(readFileSync(join(docs, 'openapi.json'), 'utf8')) as {
    components: { schemas: Record<string, Schema>; parameters: Record<string, { name: string }> };
  }
).components;

/** What of a value is not as the schema says, by its place. The part of JSON Schema that the document uses. */
function problems(schema: Schema, value: unknown, at = ''): string[] {
  if (schema.$ref !== undefined) return problems(schemas[schema.$ref.split('/').at(-1)!]!, value, at);
  if (schema.enum !== undefined && !schema.enum.includes(value))
    return [`${at}: ${JSON.stringify(value)} is not one of ${schema.enum}`];
  if (schema.oneOf !== undefined) {
    const all = schema.oneOf.map((one) => problems(one, value, at));
    return all.some((found) => found.length === 0) ? [] : all.flat();
  }
  const types = schema.type === undefined ? [] : [schema.type].flat();
  const type = typeOf(value);
  if (types.length > 0 && !types.includes(type) && !(type === 'integer' && types.includes('number'))) {
    return [`${at}: is ${type}, not ${types.join(' or ')}`];
  }
  if (Array.isArray(value)) {
    const { items = {}, minItems = 0, maxItems = Number.POSITIVE_INFINITY } = schema;
    const ofLength =
      value.length < minItems || value.length > maxItems ? [`${at}: has ${value.length} items`] : [];
    return [...ofLength, ...value.flatMap((one, n) => problems(items, one, `${at}[${n}]`))];
  }
  return type === 'object' ? objectProblems(schema, value as Record<string, unknown>, at) : [];
}

function objectProblems(schema: Schema, value: Record<string, unknown>, at: string): string[] {
  const { required = [], properties = {}, additionalProperties = true } = schema;
  const missing = required
    .filter((name) => !Object.hasOwn(value, name))
    .map((name) => `${at}.${name}: is missing`);
  const inside = Object.entries(value).flatMap(([name, one]) => {
    const known =
      properties[name] ?? (typeof additionalProperties === 'object' ? additionalProperties : undefined);
    if (known !== undefined) return problems(known, one, `${at}.${name}`);
    return additionalProperties === false ? [`${at}.${name}: is not in the schema`] : [];
  });
  return [...missing, ...inside];
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

const folder = suiteFolder();
const rules = `domain: shop
descriptors:
  - key: remote_address
    rate_limit: { unit: day, requests_per_unit: 2 }
  - key: path
    value: /api/*
    descriptors:
      - key: plan
        value: gold
        rate_limits:
          - { name: short, unit: second, requests_per_unit: 5 }
          - { unit: day, requests_per_unit: 50, algorithm: token_bucket, burst: 70 }
  - key: open
    rate_limit: { unlimited: true }
`;
const profiles = `profiles:
  shop:
    domain: shop
    rate_limits: [{ actions: [{ remote_address: {} }] }]
`;
let limiter: InProcessLimiter;
let controlPlane: InProcessControlPlane;
let client: ScriptedXdsClient;

beforeAll(async () => {
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config/shop.yaml'), rules);
  writeFileSync(join(folder, 'profiles.yaml'), profiles);
  limiter = await InProcessLimiter.start({ env: { RUNTIME_ROOT: folder, RLQS: 'true' } });
  for (let n = 0; n < 3; n++) await limiter.ask('shop', [{ remote_address: '203.0.113.7' }]);
  await limiter.ask('shop', [{ path: '/api/cart', plan: 'gold' }]);
  mkdirSync(join(folder, 'manifests'));
  const manifest = rateLimitConfigText({ name: 'shop', domain: 'shop', fleet: 'default', requests: 5 });
  writeFileSync(join(folder, 'manifests/shop.json'), manifest);
  controlPlane = await InProcessControlPlane.start({
    env: { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: join(folder, 'manifests'), XDS_ALLOW_ANONYMOUS: 'true' },
  });
  client = new ScriptedXdsClient({ port: controlPlane.ports.xds, refuses: 'not today' });
  await eventually(async () => {
    const { refusals } = JSON.parse((await controlPlane.get('/v1/refusals')).body);
    expect(refusals).toHaveLength(1);
  });
});
afterAll(async () => {
  client?.close();
  await Promise.all([limiter?.stop(), controlPlane?.stop()]);
});

const portOf = (of: Asked['of']): number =>
  of === 'control-plane' ? controlPlane.ports.http : limiter.ports[of === 'callers' ? 'http' : 'debug'];

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods)
    .filter(([method]) => method !== 'servers')
    .map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
);
// What changes something comes last.
const asked = operations
  .flatMap(({ operation, path, method }) =>
    operation['x-asked'].map((one) => {
      const asks = path.replace(/\{(\w+)\}/g, (_, name: string) => one.path?.[name] ?? '');
      return { ...one, method, path, asks };
    }),
  )
  .sort((a, b) => Number(a.method === 'DELETE') - Number(b.method === 'DELETE'));

describe('docs/openapi.yaml', () => {
  for (const { asks, method, of, query = '', headers, body, status, schema } of asked) {
    const what = `${method} ${asks}${query === '' ? '' : `?${query}`} ${JSON.stringify(body ?? headers) ?? ''}`;
    it(`says what a ${of} answers to ${what}`, async () => {
      const answer = await httpAsk(portOf(of), `${asks}?${query}`, {
        method,
        headers: headers ?? {},
        ...(body === undefined
          ? {}
          : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
      });
      expect([answer.status, answer.body]).toEqual([status, answer.body]);
      if (schema === 'Nothing') {
        expect([answer.body, answer.headers['content-type']]).toEqual(['', undefined]);
        return;
      }
      const isProblem = schema === 'Problem' || schema === 'InvalidBody';
      const type = isProblem ? 'application/problem+json' : 'application/json';
      expect(answer.headers['content-type']).toBe(type);
      expect(problems(schemas[schema]!, JSON.parse(answer.body))).toEqual([]);
    });
  }

  it.each(['limiter', 'callers', 'control-plane'] as const)('has every path of (a) %s', async (of) => {
    const { detail } = JSON.parse((await httpAsk(portOf(of), '/v1/nothing')).body);
    const served = /there are (.*)$/.exec(detail)?.[1]?.split(', ');
    expect([...new Set(asked.filter((one) => one.of === of).map(({ path }) => path))].sort()).toEqual(served);
  });

  it.each(['limiter', 'callers', 'control-plane'] as const)(
    'is left by no path of (a) %s that is damaged or not clean',
    async (of) => {
      for (const path of ['/v1/%zz', '/v1//status', '/v1/../livez']) {
        const { status, headers, body } = await httpAsk(portOf(of), path);
        expect([status, headers['content-type']]).toEqual([404, 'application/problem+json']);
        expect(problems(schemas['Problem']!, JSON.parse(body))).toEqual([]);
      }
    },
  );

  it('is served as JSON, with what is asked here as examples', async () => {
    const { body } = await httpAsk(limiter.ports.http, '/v1/openapi.json');
    const served = JSON.parse(body);
    expect(Object.keys(served.paths)).toEqual(Object.keys(document.paths));
    const { examples } = served.paths['/v1/check'].post.requestBody.content['application/json'];
    const bodies = Object.values(examples).map((one) => (one as { value: unknown }).value);
    expect(bodies).toEqual(document.paths['/v1/check']!['post']!['x-asked'].map((one) => one.body));
    expect(body).not.toContain('x-asked');
  });

  it('has an example of every operation, and the parameters that processes know', async () => {
    for (const { path, method, operation } of operations) {
      expect([operation.operationId, operation['x-asked'].length > 1]).toEqual([operation.operationId, true]);
      const known = new Set<string>();
      for (const of of new Set(operation['x-asked'].map((one) => one.of))) {
        const { body } = await httpAsk(portOf(of), `${path}?unknown=1`, { method });
        const names = /expected (.*)$/.exec(JSON.parse(body).detail)?.[1];
        for (const name of names?.split(', ') ?? []) known.add(name);
      }
      const declared = (operation.parameters ?? [])
        .filter((one) => one.in === undefined || one.in === 'query')
        .map(({ name, $ref }) => name ?? parameters[$ref!.split('/').at(-1)!]!.name);
      expect([path, method, [...new Set(declared)].sort()]).toEqual([path, method, [...known].sort()]);
    }
  });
});

describe('the validator of this test', () => {
  it('sees what is missing, of another type, too much, or none of a list', () => {
    expect(problems({ $ref: '#/components/schemas/Entry' }, { key: 1, other: 2 })).toEqual([
      '.value: is missing',
      '.key: is integer, not string',
      '.other: is not in the schema',
    ]);
    expect(problems({ type: ['string', 'null'] }, null)).toEqual([]);
    expect(problems({ enum: ['a'] }, 'b')).toEqual([': "b" is not one of a']);
    expect(problems({ $ref: '#/components/schemas/Point' }, [1, 2, 3, 4, 'x'])).toEqual([
      '[4]: is string, not number',
    ]);
    expect(problems({ $ref: '#/components/schemas/Point' }, [1])).toEqual([': has 1 items']);
  });
});
