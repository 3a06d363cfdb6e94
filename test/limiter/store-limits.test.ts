/** Rules and calls that a store can never serve as it is set: rejected at load, and answered with the reason. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ReserveRequestSchema } from '../../gen/kuadrant/service/ratelimit/v1/ratelimit_pb.ts';
import { AdsServer } from '../support/ads-server.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { limit, rule, source } from '../support/rule-builder.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
const year = 'unit: year, requests_per_unit: 1';
const good = `  - { key: user, rate_limit: { ${year} } }\n`;
const reserving = `  - { key: team, reserve: { ttl: 60s }, rate_limit: { ${year} } }\n`;
const bounded = `  - { key: a, rate_limit: { ${year}, algorithm: sliding_window } }
  - { key: b, rate_limit: { ${year}, algorithm: token_bucket } }
  - { key: c, rate_limits: [{ unit: second, requests_per_unit: 1 }, { ${year} }] }
`;

const inCluster =
  'REDIS_TYPE=CLUSTER with COUNTER_KEYS=compatible cannot store reservations, because the windows of a counter are in different slots; set COUNTER_KEYS=unambiguous';
const noScripts = 'REDIS_SCRIPTS=never cannot store reservations; they need a Redis with scripts, or memory';
const fixedOnly =
  'REDIS_SCRIPTS=never counts only fixed windows, one for each rule; others need a Redis with scripts, or memory';

interface Mode {
  name: string;
  env: Record<string, string>;
  reason: string;
  rules: string;
  rejections: string[];
}

const modes: Mode[] = [
  {
    name: 'a cluster with compatible keys',
    env: {},
    reason: inCluster,
    rules: reserving,
    rejections: [`llm.yaml: reserve of 'llm.team' cannot be stored: ${inCluster}" line=4 column=27`],
  },
  {
    name: 'REDIS_SCRIPTS=never',
    env: { REDIS_SCRIPTS: 'never', COUNTER_KEYS: 'unambiguous' },
    reason: noScripts,
    rules: reserving + bounded,
    rejections: [
      `llm.yaml: reserve of 'llm.team' cannot be stored: ${noScripts}" line=4 column=27`,
      `llm.yaml: algorithm sliding_window of 'llm.a' cannot be counted: ${fixedOnly}" line=5 column=74`,
      `llm.yaml: algorithm token_bucket of 'llm.b' cannot be counted: ${fixedOnly}" line=6 column=74`,
      `llm.yaml: rate_limits of 'llm.c' cannot be counted: ${fixedOnly}" line=7 column=28`,
    ],
  },
];

async function post(limiter: InProcessLimiter, path: string, body?: object): Promise<unknown> {
  const response = await fetch(`http://127.0.0.1:${limiter.ports.http}/v1/${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { 'content-type': 'application/json' },
    body: body === undefined ? null : JSON.stringify(body),
  });
  const { detail } = (await response.json()) as { detail?: string };
  return [response.status, detail];
}

function kuadrantReserve(limiter: InProcessLimiter): Promise<ServiceError | null> {
  const client = new Client(`127.0.0.1:${limiter.ports.grpc}`, credentials.createInsecure());
  const descriptors = [{ entries: [{ key: 'user', value: 'ann' }] }];
  const request = create(ReserveRequestSchema, { domain: 'llm', descriptors, amount: 1n });
  const pass = (bytes: Uint8Array) => Buffer.from(bytes);
  return new Promise<ServiceError | null>((resolve) => {
    const path = '/kuadrant.service.ratelimit.v1.RateLimitService/Reserve';
    client.makeUnaryRequest(path, pass, pass, toBinary(ReserveRequestSchema, request), resolve);
  }).finally(() => client.close());
}

describeWithServer('what a Redis with its settings can never do', redisProgram, (path) => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster({ path });
  });
  afterAll(() => cluster?.stop());
  const start = limitersOfSuite(() => ({
    env: { BACKEND_TYPE: 'redis', REDIS_TYPE: 'cluster', REDIS_URL: cluster.url },
  }));

  describe.each(modes)('$name', ({ name, env, reason, rules, rejections }) => {
    it('keeps the last good rules in force, and says where others are rejected and why', async () => {
      const root = join(folder, name);
      const file = join(root, 'config/llm.yaml');
      mkdirSync(join(root, 'config'), { recursive: true });
      const header = 'domain: llm\ndescriptors:\n';
      writeFileSync(file, header + good);
      const limiter = await start({ ...env, RUNTIME_ROOT: root, RUNTIME_WATCH_ROOT: 'false' });
      writeFileSync(file, header + good + rules);
      await eventually(async () => {
        expect((await limiter.stats()).get('ratelimit.service.config_load_error')).toBe(1);
      });
      const log = limiter.lines.join('\n');
      for (const rejection of rejections) expect(log).toContain(rejection);
      expect((await limiter.rlconfig()).join()).not.toContain('team');
      const codes = [await limiter.ask('llm', [{ user: name }]), await limiter.ask('llm', [{ user: name }])];
      expect(codes.map(({ body }) => body.overallCode)).toEqual(['OK', 'OVER_LIMIT']);
    });

    it('reports it to the server and rejects a resource, and answers reservations with 501 and UNIMPLEMENTED', async () => {
      const server = await AdsServer.start();
      try {
        const starting = start({
          ...env,
          CONFIG_TYPE: 'GRPC_XDS_SOTW',
          CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}`,
        });
        const stream = await server.stream();
        const { node } = await stream.request();
        expect(node?.metadata?.['rule_support']).toMatchObject({ reservations: reason });
        const rateLimit = limit({ unit: 'year', requestsPerUnit: 1000 });
        const user = rule({ key: 'user', rateLimit });
        stream.respond({ version: '1', sources: [source('llm', [user])] });
        expect((await stream.request()).errorDetail).toBeUndefined();
        const limiter = await starting;
        const reserve = { ttlSeconds: 60, estimate: undefined, onExpiry: 'release' } as const;
        const team = rule({ key: 'team', rateLimit, reserve });
        stream.respond({ version: '2', sources: [source('llm', [user, team])] });
        const { versionInfo, errorDetail } = await stream.request();
        expect(versionInfo).toBe('1');
        expect(errorDetail?.message).toContain(`reserve of 'llm.team' cannot be stored: ${reason}`);

        const about = { domain: 'llm', descriptors: [[{ user: 'ann' }]] };
        expect(await post(limiter, 'reserve', { ...about, amount: 1 })).toEqual([501, reason]);
        expect(await post(limiter, 'commit', { ...about, reservationId: 'x', actualAmount: 1 })).toEqual([
          501,
          reason,
        ]);
        expect(await post(limiter, 'commit', { domain: 'llm', reservationId: 'x' })).toEqual([501, reason]);
        expect(await post(limiter, 'budgets?domain=llm&entry=user=ann')).toEqual([501, reason]);
        const answer = await kuadrantReserve(limiter);
        expect([answer?.code, answer?.details]).toEqual([status.UNIMPLEMENTED, reason]);
      } finally {
        await server.stop();
      }
    });
  });

  it.each([
    ['auto', true],
    ['never', false],
  ])(
    'counts by itself what scripts reject with STORE_FAILURE_MODE=allow and REDIS_SCRIPTS=%s: %s',
    async (scripts, isThere) => {
      const root = join(folder, scripts);
      mkdirSync(join(root, 'config'), { recursive: true });
      writeFileSync(join(root, 'config/llm.yaml'), `domain: llm\ndescriptors:\n${good}`);
      const limiter = await start({
        REDIS_SCRIPTS: scripts,
        STORE_FAILURE_MODE: 'allow',
        RUNTIME_ROOT: root,
      });
      expect((await limiter.stats()).has('ratelimit.store_failure_mode.local_requests')).toBe(isThere);
    },
  );

  it('reserves with unambiguous keys', async () => {
    const root = join(folder, 'unambiguous');
    mkdirSync(join(root, 'config'), { recursive: true });
    writeFileSync(join(root, 'config/llm.yaml'), `domain: llm\ndescriptors:\n${good}${reserving}`);
    const limiter = await start({ COUNTER_KEYS: 'unambiguous', RUNTIME_ROOT: root });
    const about = { domain: 'llm', descriptors: [[{ team: 'a' }]] };
    expect(await post(limiter, 'reserve', { ...about, amount: 1 })).toEqual([200, undefined]);
  });
});
