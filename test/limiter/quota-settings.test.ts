/** What the settings of quota clients do in a whole limiter, which one of them asks. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, type ClientDuplexStream, credentials, Metadata, status } from '@grpc/grpc-js';
import { expect, it, onTestFinished } from 'vitest';
import {
  type RateLimitQuotaResponse,
  RateLimitQuotaResponseSchema,
  type RateLimitQuotaUsageReports,
  RateLimitQuotaUsageReportsSchema,
} from '../../gen/envoy/service/rate_limit_quota/v3/rlqs_pb.ts';
import { quotaPath } from '../../limiter/quota-service/quota-messages.ts';
import { eventually } from '../support/eventually.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
mkdirSync(join(folder, 'config'));
writeFileSync(
  join(folder, 'config/edge.yaml'),
  `domain: edge
descriptors:
  - key: name
    rate_limit: { unit: day, requests_per_unit: 1000000 }
  - key: tokens
    rate_limit: { unit: day, requests_per_unit: 1000000, hits_unit: tokens }
`,
);
writeFileSync(join(folder, 'callers.yaml'), 'callers:\n  - { anonymous: true, domains: [edge] }\n');

const start = limitersOfSuite(() => ({ env: { RUNTIME_ROOT: folder, RLQS: 'true' } }));

/** What is ordered for each bucket, in the order of the answers: `allow`, `deny`, `abandon`, or an assignment with its TTL. */
type Orders = Record<string, (string | { tokens: number; ttl: number })[]>;

class QuotaStream {
  readonly orders: Orders = {};
  readonly ended: Promise<number>;
  readonly #call: ClientDuplexStream<RateLimitQuotaUsageReports, RateLimitQuotaResponse>;

  constructor(client: Client, metadata: Record<string, string> = {}) {
    const fields = new Metadata();
    for (const [name, value] of Object.entries(metadata)) fields.set(name, value);
    this.#call = client.makeBidiStreamRequest(
      quotaPath,
      (message: RateLimitQuotaUsageReports) =>
        Buffer.from(toBinary(RateLimitQuotaUsageReportsSchema, message)),
      (bytes) => fromBinary(RateLimitQuotaResponseSchema, bytes),
      fields,
    );
    this.#call.on('data', (response: RateLimitQuotaResponse) => this.#take(response));
    this.#call.on('error', () => {});
    this.ended = new Promise((resolve) => this.#call.on('status', ({ code }) => resolve(code)));
  }

  /** Of buckets with a request that was denied, as that for which a bucket is reported first. */
  report(...buckets: Record<string, string>[]): void {
    this.#send(buckets, 1n);
  }

  idle(...buckets: Record<string, string>[]): void {
    this.#send(buckets, 0n);
  }

  #send(buckets: Record<string, string>[], numRequestsDenied: bigint): void {
    const bucketQuotaUsages = buckets.map((bucket) => ({ bucketId: { bucket }, numRequestsDenied }));
    this.#call.write(create(RateLimitQuotaUsageReportsSchema, { domain: 'edge', bucketQuotaUsages }));
  }

  /** Sooner or later. */
  async ordered(name: string, order: unknown): Promise<void> {
    await eventually(() => expect(this.orders[name] ?? []).toContainEqual(order), { timeoutMs: 8_000 });
  }

  #take({ bucketAction }: RateLimitQuotaResponse): void {
    for (const { bucketId, bucketAction: action } of bucketAction) {
      const name = Object.values(bucketId!.bucket).join();
      const orders = this.orders[name] ?? [];
      this.orders[name] = orders;
      if (action.case === 'abandonAction') orders.push('abandon');
      if (action.case !== 'quotaAssignmentAction') continue;
      const strategy = action.value.rateLimitStrategy?.strategy;
      const ttl = Number(action.value.assignmentTimeToLive?.seconds);
      if (strategy?.case === 'tokenBucket') orders.push({ tokens: strategy.value.maxTokens, ttl });
      if (strategy?.case === 'blanketRule') orders.push(strategy.value === 0 ? 'allow' : 'deny');
    }
  }
}

async function clientOf(env: Record<string, string>): Promise<Client> {
  const limiter = await start(env);
  const client = new Client(`127.0.0.1:${limiter.ports.grpc}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  return client;
}

it('serve no client without RLQS', async () => {
  const stream = new QuotaStream(await clientOf({ RLQS: 'false' }));
  stream.report({ name: 'a' });
  expect(await stream.ended).toBe(status.UNIMPLEMENTED);
});

it('say for how long assignments hold: RLQS_TTL', async () => {
  const stream = new QuotaStream(await clientOf({ RLQS_TTL: '40' }));
  stream.report({ name: 'a' });
  await stream.ordered('a', { tokens: expect.any(Number), ttl: 40 });
});

it('decide over buckets without a rule, and over rules that cannot be assigned: RLQS_NO_RULE, RLQS_UNASSIGNABLE', async () => {
  const [common, turned] = [
    await clientOf({}),
    await clientOf({ RLQS_NO_RULE: 'deny', RLQS_UNASSIGNABLE: 'allow' }),
  ];
  for (const [client, noRule, unassignable] of [
    [common, 'allow', 'deny'],
    [turned, 'deny', 'allow'],
  ] as const) {
    const stream = new QuotaStream(client);
    stream.report({ other: 'b' }, { tokens: 'c' });
    await stream.ordered('b', noRule);
    await stream.ordered('c', unassignable);
  }
});

it('let idle buckets be abandoned: RLQS_IDLE_REPORTS', async () => {
  const stream = new QuotaStream(await clientOf({ RLQS_IDLE_REPORTS: '1' }));
  stream.report({ name: 'a' });
  await stream.ordered('a', { tokens: expect.any(Number), ttl: 15 });
  stream.idle({ name: 'a' });
  await stream.ordered('a', 'abandon');
});

it.each([
  { RLQS_MAX_BUCKETS_OF_STREAM: '1' },
  { RLQS_MAX_BUCKETS: '1' },
  { RLQS_MAX_BUCKETS_OF_CALLER: '1', CALLERS_FILE: join(folder, 'callers.yaml') },
  // Half of them is for one caller, and an id of these counts 211.
  { RLQS_MAX_BUCKET_BYTES: '430' },
])('bound buckets, and deny what is beyond: %o', async (env) => {
  const stream = new QuotaStream(await clientOf(env));
  stream.report({ name: 'a' });
  stream.report({ name: 'b' });
  await stream.ordered('b', 'deny');
  await stream.ordered('a', { tokens: expect.any(Number), ttl: 15 });
});

it('bound streams: RLQS_MAX_STREAMS', async () => {
  const client = await clientOf({ RLQS_MAX_STREAMS: '1' });
  const first = new QuotaStream(client);
  first.report({ name: 'a' });
  await first.ordered('a', { tokens: expect.any(Number), ttl: 15 });
  expect(await new QuotaStream(client).ended).toBe(status.RESOURCE_EXHAUSTED);
});

it('end streams that are silent: RLQS_SILENCE', { timeout: 20_000 }, async () => {
  const stream = new QuotaStream(await clientOf({ RLQS_SILENCE: '10s' }));
  stream.report({ name: 'a' });
  expect(await stream.ended).toBe(status.DEADLINE_EXCEEDED);
});

it('give some clients larger shares: RLQS_WEIGHTS', async () => {
  const limiter = await start({ RLQS_WEIGHTS: 'header:x-fleet:blue=3' });
  const client = new Client(`127.0.0.1:${limiter.ports.grpc}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  const [plain, blue] = [new QuotaStream(client), new QuotaStream(client, { 'x-fleet': 'blue' })];
  for (const stream of [plain, blue]) {
    stream.report({ name: 'a' });
    await stream.ordered('a', { tokens: expect.any(Number), ttl: 15 });
  }
  const response = await fetch(`http://127.0.0.1:${limiter.ports.debug}/v1/assignments?domain=edge`);
  const { assignments } = (await response.json()) as { assignments: { weight: number }[] };
  expect(assignments.map(({ weight }) => weight).sort()).toEqual([1, 3]);
});
