/** Profiles make the descriptors that Envoy makes: both are asked about the same requests. */
import { once } from 'node:events';
import { createServer, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Server as GrpcServer, ServerCredentials } from '@grpc/grpc-js';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  type RateLimitRequest,
  RateLimitRequestSchema,
  RateLimitResponse_Code,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { descriptorMaker } from '../../rules/proxy/make-descriptors.ts';
import { readProfilesFile } from '../../rules/proxy/read-profiles.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { type EnvoyProcess, startEnvoy } from '../support/envoy.ts';
import { envoyConfig } from '../support/envoy-config.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { caseCount } from '../support/property-cases.ts';

const header = (name: string, test: object): object => ({
  header_value_match: { descriptor_value: JSON.stringify(test), headers: [{ name, ...test }] },
});
const parameter = (test: object): object => ({
  query_parameter_value_match: {
    descriptor_value: JSON.stringify(test),
    query_parameters: [{ name: 'page', ...test }],
  },
});
const regex = (text: string): object => ({ regex: text });

/** One descriptor each, so that every difference shows. */
const actions: object[][] = [
  [{ remote_address: {} }],
  [{ masked_remote_address: { v4_prefix_mask_len: 20, v6_prefix_mask_len: 45 } }],
  [{ masked_remote_address: {} }],
  [
    { generic_key: { descriptor_value: 'a' } },
    { generic_key: { descriptor_value: 'b', descriptor_key: 'k' } },
  ],
  [{ request_headers: { header_name: 'x-a', descriptor_key: 'a' } }],
  [
    { request_headers: { header_name: 'X-A', descriptor_key: 'a', skip_if_absent: true } },
    { generic_key: { descriptor_value: 'after' } },
  ],
  [{ request_headers: { header_name: ':path', descriptor_key: 'path' } }],
  [{ request_headers: { header_name: ':method', descriptor_key: 'method' } }],
  [{ request_headers: { header_name: ':authority', descriptor_key: 'host' } }],
  [{ request_headers: { header_name: 'host', descriptor_key: 'host' } }],
  [{ query_parameters: { query_parameter_name: 'page', descriptor_key: 'page' } }],
  [
    { query_parameters: { query_parameter_name: 'page', descriptor_key: 'page', skip_if_absent: true } },
    { generic_key: { descriptor_value: 'after' } },
  ],
  ...[
    {},
    { present_match: true },
    { present_match: false },
    { exact_match: 'a' },
    { prefix_match: 'a' },
    { suffix_match: 'a' },
    { contains_match: 'a,b' },
    { safe_regex_match: regex('a.*|B') },
    { range_match: { start: -3, end: 7 } },
    { string_match: { exact: 'a' } },
    { string_match: { exact: 'AB', ignore_case: true } },
    { string_match: { prefix: 'AB', ignore_case: true } },
    { string_match: { suffix: 'B', ignore_case: true } },
    { string_match: { contains: 'B', ignore_case: true } },
    { string_match: { safe_regex: regex('[ab]+') } },
  ].flatMap((test) => [
    [header('x-a', test)],
    [header('x-a', { ...test, invert_match: true })],
    [header('x-a', { ...test, treat_missing_header_as_empty: true })],
    [header('x-a', { ...test, invert_match: true, treat_missing_header_as_empty: true })],
  ]),
  [header(':path', { string_match: { prefix: '/a' } })],
  [
    {
      header_value_match: {
        descriptor_value: 'not both',
        expect_match: false,
        headers: [
          { name: 'x-a', exact_match: 'a' },
          { name: ':method', exact_match: 'POST' },
        ],
      },
    },
  ],
  ...[
    {},
    { present_match: true },
    { present_match: false },
    { string_match: { exact: '1' } },
    { string_match: { safe_regex: regex('[0-9 +%a-zä]*') } },
  ].map((test) => [parameter(test)]),
];
const rateLimits = actions.map((some) => ({ actions: some }));

interface Sent {
  method: string;
  path: string;
  values: string[];
  address: string;
}

const sent: fc.Arbitrary<Sent> = fc.record({
  method: fc.constantFrom('GET', 'POST', 'PROPFIND'),
  path: fc
    .tuple(
      fc.constantFrom('/', '/a', '/a/b%20c', '/ab'),
      fc.constantFrom(
        ...['', '?', '?page', '?page=', '?page=1', '?page=1&page=2', '?x=1&page=%41%zz+b', '?page=a=b'],
        ...['?pag%65=1', '?page=%C3%A4', '?&&page=1', '?page=1?2', '?=1'],
      ),
    )
    .map((parts) => parts.join('')),
  values: fc.array(
    fc.constantFrom(
      '',
      'a',
      'b',
      'B',
      'ab',
      'Ab',
      'a,b',
      '5',
      '-3',
      '+7',
      '7',
      ' 5',
      '5.0',
      '99999999999999999999',
    ),
    { maxLength: 2 },
  ),
  address: fc.oneof(
    fc.ipV4(),
    fc.ipV6(),
    fc.constantFrom('::1', '2001:DB8:0:0:1::', '64:ff9b::192.0.2.1', ' 10.0.0.1', '1:0:0:2:0:0:0:3'),
  ),
});

type Descriptors = string[];

describeWithServer('descriptors', envoyProgram, (envoyPath) => {
  const limiter = new GrpcServer();
  let upstream: Server;
  let envoy: EnvoyProcess;
  let envoyPort: number;
  let last: RateLimitRequest | undefined;

  beforeAll(async () => {
    const path = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';
    const code = { overallCode: RateLimitResponse_Code.OK };
    const ok = Buffer.from(toBinary(RateLimitResponseSchema, create(RateLimitResponseSchema, code)));
    const method = {
      ...{ path, requestStream: false, responseStream: false },
      requestDeserialize: (bytes: Buffer) => fromBinary(RateLimitRequestSchema, bytes),
      requestSerialize: (): Buffer => ok,
      responseDeserialize: (bytes: Buffer) => bytes,
      responseSerialize: (bytes: Buffer) => bytes,
    };
    limiter.addService(
      { shouldRateLimit: method },
      {
        shouldRateLimit: (
          call: { request: RateLimitRequest },
          answer: (error: null, bytes: Buffer) => void,
        ) => {
          last = call.request;
          answer(null, ok);
        },
      },
    );
    const limiterPort = await new Promise<number>((resolve, reject) =>
      limiter.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
        error === null ? resolve(port) : reject(error),
      ),
    );
    upstream = createServer((_, response) => response.end());
    upstream.listen(0, '127.0.0.1');
    await once(upstream, 'listening');
    const upstreamPort = (upstream.address() as AddressInfo).port;
    envoyPort = await freePort();
    const ports = { listenPort: envoyPort, limiterPort, upstreamPort };
    const config = envoyConfig({ ...ports, domain: 'shop', trustedHops: 1, rateLimits });
    envoy = await startEnvoy(envoyPath, config);
  });
  afterAll(async () => {
    await envoy?.stop();
    upstream?.close();
    limiter.forceShutdown();
  });

  async function ofEnvoy({ method, path, values, address }: Sent): Promise<Descriptors> {
    last = undefined;
    await new Promise<void>((resolve, reject) => {
      const to = { host: '127.0.0.1', port: envoyPort, method, path, agent: false };
      const headers = ['Host', 'shop.example', 'X-Forwarded-For', address];
      for (const value of values) headers.push('X-A', value);
      const asked = httpRequest({ ...to, headers }, (response) => {
        response.resume();
        response.on('end', () => {
          if (response.statusCode === 200) resolve();
          else reject(new Error(`Envoy answers ${response.statusCode} to ${JSON.stringify(path)}`));
        });
      });
      asked.on('error', reject);
      asked.end();
    });
    const descriptors = (last as RateLimitRequest | undefined)?.descriptors ?? [];
    return descriptors.map(({ entries }) => JSON.stringify(entries.map(({ key, value }) => [key, value])));
  }

  const file = readProfilesFile(
    JSON.stringify({ profiles: { shop: { domain: 'shop', rate_limits: rateLimits } } }),
  );
  const make = descriptorMaker(
    'profiles' in file ? file.profiles[0]! : expect.unreachable(JSON.stringify(file)),
  );

  function ofProfile({ method, path, values, address }: Sent): Descriptors {
    const headers = [
      'X-Forwarded-Method',
      method,
      'X-Forwarded-Uri',
      path,
      'X-Forwarded-Host',
      'shop.example',
    ];
    headers.push('X-Forwarded-For', address.trim());
    for (const value of values) headers.push('X-A', value.trim());
    return make(headers).descriptors.map((entries) =>
      JSON.stringify(entries.map(({ key, value }) => [key, value])),
    );
  }

  it('are the same by a profile and by Envoy', async () => {
    await fc.assert(
      fc.asyncProperty(sent, async (one) => {
        expect(ofProfile(one)).toEqual(await ofEnvoy(one));
      }),
      { numRuns: caseCount(300) },
    );
  });
});
