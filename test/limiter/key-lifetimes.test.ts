/**
 * What limiters leave in Redis: with windows of two seconds, whatever was allowed, rejected, looked at, taken back, leased,
 * overridden or reset, nothing but operators' records.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
const token = join(folder, 'token');
const operators = 'a-token-that-operators-have-0123456789';
writeFileSync(token, operators);

/** Of limits that need no scripts, and of all. */
const plain = {
  second: 'rate_limit: { unit: second, requests_per_unit: 3 }',
  fixed: 'rate_limit: { window: 2s, requests_per_unit: 3 }',
  leased: 'rate_limit: { window: 2s, requests_per_unit: 500 }, lease: 10%',
  quota: 'rate_limit: { window: 2s, requests_per_unit: 3 }, quota_mode: true',
  shadow: 'rate_limit: { window: 2s, requests_per_unit: 3 }, shadow_mode: true',
  nothing: 'rate_limit: { window: 2s, requests_per_unit: 0 }',
};
const scripted = {
  ...plain,
  sliding: 'rate_limit: { window: 2s, requests_per_unit: 3, algorithm: sliding_window }',
  bucket: 'rate_limit: { window: 2s, requests_per_unit: 3, algorithm: token_bucket }',
  several: 'rate_limits: [{ window: 2s, requests_per_unit: 3 }, { window: 1s, requests_per_unit: 2 }]',
};

function writeRules(name: string, rules: Readonly<Record<string, string>>): string {
  const root = join(folder, name);
  mkdirSync(join(root, 'config'), { recursive: true });
  const lines = Object.entries(rules).map(([key, words]) => `  - { key: ${key}, ${words} }\n`);
  writeFileSync(join(root, 'config/l.yaml'), `domain: l\ndescriptors:\n${lines.join('')}`);
  return root;
}
const plainRoot = writeRules('plain', plain);
const scriptedRoot = writeRules('scripted', scripted);

const lifetimes = { endsEmpty: true, jitterSeconds: 0 };

/** Allowed, rejected more than once, taken back, looked at, overridden and reset. */
async function useAll(
  limiter: InProcessLimiter,
  keys: readonly string[],
  runsScripts: boolean,
): Promise<void> {
  const { http, debug } = limiter.ports;
  const send = async (url: string, method: string, body?: object, expected = [200, 201]) => {
    const headers = { authorization: `Bearer ${operators}`, 'content-type': 'application/json' };
    const text = body === undefined ? null : JSON.stringify(body);
    const response = await fetch(url, { method, headers, body: text });
    expect(expected, `${url}: ${await response.text()}`).toContain(response.status);
  };
  const codes: string[] = [];
  for (const key of keys) {
    const ask = async (value: string, hits: number) => {
      const { body } = await limiter.ask('l', [{ [key]: value }], hits);
      codes.push(body.overallCode);
    };
    for (const hits of [2, 2, 2, 900]) await ask('one', hits);
    // Values that are rejected at once, each with a counter of its own.
    for (let i = 0; i < 5; i += 1) await ask(`refused ${i}`, 900);
  }
  expect(codes.filter((code) => code === 'OVER_LIMIT').length).toBeGreaterThan(keys.length * 3);
  for (const key of keys) {
    const descriptors = [[{ [key]: 'one' }]];
    await send(
      `http://127.0.0.1:${http}/v1/check`,
      'POST',
      { domain: 'l', descriptors, hits: 0 },
      [200, 429],
    );
    const look = `domain=l&entry=${encodeURIComponent(`${key}=looked at`)}`;
    await send(`http://127.0.0.1:${http}/v1/budgets?${look}`, 'GET', undefined, runsScripts ? [200] : [501]);
  }
  const taken = [{ entries: [{ key: 'fixed', value: 'one' }], isNegativeHits: true, hitsAddend: 1 }];
  await send(`http://127.0.0.1:${http}/json`, 'POST', { domain: 'l', descriptors: taken }, [200, 429]);
  const override = {
    domain: 'l',
    match: [{ key: 'fixed', value: 'two' }],
    reason: 'a test',
    block: true,
    for: '2s',
  };
  await send(`http://127.0.0.1:${debug}/v1/overrides`, 'POST', override);
  await send(`http://127.0.0.1:${debug}/v1/counters?domain=l&entry=fixed=one`, 'DELETE');
}

describeWithEachRedis('what limiters leave in Redis', (path) => {
  const stops: (() => Promise<void>)[] = [];
  afterAll(() => Promise.all(stops.map((stop) => stop().catch(() => {}))));
  const single = async () => {
    const server = await startRedis({ path, lifetimes });
    stops.push(() => server.stop());
    return { REDIS_URL: `127.0.0.1:${server.port}` };
  };
  const start = limitersOfSuite(() => ({
    env: {
      RUNTIME_ROOT: scriptedRoot,
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      EXPIRATION_JITTER_MAX_SECONDS: '0',
      DEBUG_TOKEN_FILE: token,
    },
  }));
  const modes: [name: string, env: () => Promise<Record<string, string>>][] = [
    ['compatible keys', single],
    ['unambiguous keys', async () => ({ ...(await single()), COUNTER_KEYS: 'unambiguous' })],
    [
      'stop when over',
      async () => ({ ...(await single()), STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' }),
    ],
    ['leases', async () => ({ ...(await single()), LEASES: 'on' })],
    ['a local cache', async () => ({ ...(await single()), LOCAL_CACHE_SIZE_IN_BYTES: '1000000' })],
    ['no scripts', async () => ({ ...(await single()), REDIS_SCRIPTS: 'never', RUNTIME_ROOT: plainRoot })],
    [
      'a store of limits per second',
      async () => ({
        ...(await single()),
        REDIS_PERSECOND: 'true',
        REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
        REDIS_PERSECOND_URL: (await single()).REDIS_URL,
      }),
    ],
    [
      'a cluster',
      async () => {
        const cluster = await startRedisCluster({ path, lifetimes });
        stops.push(() => cluster.stop());
        return { REDIS_TYPE: 'cluster', REDIS_URL: cluster.url, COUNTER_KEYS: 'unambiguous' };
      },
    ],
  ];

  describe('after requests of all kinds', () => {
    it.each(modes)('counts with %s', async (_, envOf) => {
      const env = await envOf();
      const limiter = await start(env);
      const runsScripts = env['REDIS_SCRIPTS'] !== 'never';
      await useAll(limiter, Object.keys(runsScripts ? scripted : plain), runsScripts);
    });
  });

  // All together: each of them waits until the last window is over.
  it('is nothing, with any of them', async () => {
    const outcomes = await Promise.allSettled(stops.splice(0).map((stop) => stop()));
    expect(outcomes).toHaveLength(modes.length + 1);
    expect(outcomes.filter(({ status }) => status === 'rejected')).toEqual([]);
  });
});
