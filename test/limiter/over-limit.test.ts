/** What a rejected hit asks of Redis: one call, and another one only where reservations have expired, which it then gives back. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { commandCalls, type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
mkdirSync(join(folder, 'config'));
const day = 'unit: day, requests_per_unit: 10';
const rules = {
  fixed: `rate_limit: { ${day} }`,
  sliding: `rate_limit: { ${day}, algorithm: sliding_window }`,
  bucket: `rate_limit: { ${day}, algorithm: token_bucket }`,
  several: `rate_limits: [{ ${day} }, { unit: year, requests_per_unit: 10 }]`,
};
const lines = Object.entries(rules).map(([key, words]) => `  - { key: ${key}, ${words} }\n`);
writeFileSync(join(folder, 'config/r.yaml'), `domain: r\ndescriptors:\n${lines.join('')}`);
const keys = Object.keys(rules);
const env = { RUNTIME_ROOT: folder, BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp' };

const code = async (limiter: InProcessLimiter, key: string, value: string, hits = 1) =>
  (await limiter.ask('r', [{ [key]: value }], hits)).body.overallCode;

async function reserve(limiter: InProcessLimiter, key: string, value: string, ttl: string): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${limiter.ports.http}/v1/reserve`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ domain: 'r', descriptors: [[{ [key]: value }]], amount: 10, ttl }),
  });
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
}

/**
 * Reserves on each counter, and checks what `act` found while nothing had expired. Then waits until all has expired. On a slow machine
 * it begins again with a longer TTL, and other values. Returns the value.
 */
async function untilExpired<T>(
  limiter: InProcessLimiter,
  value: string,
  {
    act,
    check,
    laterMs = 0,
  }: { act: (value: string) => Promise<T>; check: (found: T) => void; laterMs?: number },
): Promise<string> {
  for (let seconds = 1; ; seconds *= 2) {
    const startMs = performance.now();
    const used = `${value} for ${seconds} s`;
    for (const key of keys) await reserve(limiter, key, used, `${seconds}s`);
    const found = await act(used);
    if (performance.now() - startMs > 1_000 * seconds && seconds < 128) continue;
    check(found);
    await sleep(1_000 * seconds + 100 + laterMs);
    return used;
  }
}

describeWithEachRedis('a hit over limit', (path) => {
  let redis: RedisServer;
  let client: Redis;
  beforeAll(async () => {
    redis = await startRedis({ path });
    client = new Redis(redis.port, '127.0.0.1');
  });
  afterAll(async () => {
    client?.disconnect();
    await redis?.stop();
  });
  const start = limitersOfSuite(() => ({ env: { ...env, REDIS_URL: `127.0.0.1:${redis.port}` } }));
  const scriptsDuring = async (act: () => Promise<unknown>) => {
    const count = async () => commandCalls(await client.info('commandstats'), 'evalsha');
    const before = await count();
    await act();
    return (await count()) - before;
  };
  const modes: [name: string, env: Record<string, string>][] = [
    ['by default', {}],
    ['with stop when over', { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' }],
    ['with leases', { LEASES: 'on' }],
    ['with unambiguous keys', { COUNTER_KEYS: 'unambiguous' }],
  ];

  it.each(modes)('is one call, also if others reserve: %s', async (name, settings) => {
    const limiter = await start(settings);
    await client.flushall();
    const refuse = async () => {
      for (const key of keys) {
        for (let i = 0; i < 5; i += 1)
          expect(await code(limiter, key, `${name} ${i}`, 11)).toBe('OVER_LIMIT');
      }
    };
    // Scripts that the server has not seen yet come once more.
    await refuse();
    expect(await scriptsDuring(refuse)).toBe(5 * keys.length);
    await reserve(limiter, 'fixed', 'another', '60s');
    expect(await scriptsDuring(refuse)).toBe(5 * keys.length);
  });

  it.each(modes)(
    'is one call until what is reserved has expired, and then passes: %s',
    async (name, settings) => {
      const limiter = await start(settings);
      const value = await untilExpired(limiter, name, {
        act: async (used) => {
          const codes: string[] = [];
          const scripts = await scriptsDuring(async () => {
            for (const key of keys) codes.push(await code(limiter, key, used, 5));
          });
          return { codes, scripts };
        },
        check: (found) =>
          expect(found).toEqual({ codes: keys.map(() => 'OVER_LIMIT'), scripts: keys.length }),
      });
      for (const key of keys) {
        expect([key, await code(limiter, key, value, 5)]).toEqual([key, 'OK']);
      }
    },
  );
});

describeWithEachRedis('a hit over limit in a cluster', (path) => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster({ path });
  });
  afterAll(() => cluster?.stop());
  const start = limitersOfSuite(() => ({
    env: { ...env, REDIS_TYPE: 'cluster', REDIS_URL: cluster.url, COUNTER_KEYS: 'unambiguous' },
  }));
  const callsDuring = async (act: () => Promise<unknown>) => {
    const count = async () => {
      const stats = await Promise.all(
        cluster.members.slice(0, 3).map(({ client }) => client.info('commandstats')),
      );
      const sum = (name: string) => stats.reduce((all, text) => all + commandCalls(text, name), 0);
      return { hlen: sum('hlen'), evalsha: sum('evalsha') };
    };
    const before = await count();
    await act();
    const after = await count();
    return { hlen: after.hlen - before.hlen, evalsha: after.evalsha - before.evalsha };
  };

  const exceedTenTimes = async (limiter: InProcessLimiter) => {
    for (let i = 0; i < 10; i += 1) expect(await code(limiter, 'fixed', 'one', 11)).toBe('OVER_LIMIT');
  };

  it('asks HLEN once a second for a counter, and nothing else', async () => {
    const limiter = await start();
    const startMs = performance.now();
    const { hlen, evalsha } = await callsDuring(() => exceedTenTimes(limiter));
    const seconds = (performance.now() - startMs) / 1_000;
    expect(evalsha).toBe(0);
    expect(hlen).toBeGreaterThanOrEqual(1);
    expect(hlen).toBeLessThanOrEqual(1 + Math.ceil(seconds));
  });

  it('asks nothing with compatible keys, as nothing is reserved', async () => {
    const limiter = await start({ COUNTER_KEYS: 'compatible' });
    expect(await callsDuring(() => exceedTenTimes(limiter))).toEqual({ hlen: 0, evalsha: 0 });
  });

  it('passes once what is reserved has expired', async () => {
    const limiter = await start();
    const value = await untilExpired(limiter, 'reserved', {
      act: async (used) => {
        const codes: string[] = [];
        for (const key of keys) codes.push(await code(limiter, key, used, 5));
        return codes;
      },
      check: (codes) => expect(codes).toEqual(keys.map(() => 'OVER_LIMIT')),
      // Until then it does not ask again.
      laterMs: 1_000,
    });
    for (const key of keys) expect([key, await code(limiter, key, value, 1)]).toEqual([key, 'OK']);
  });
});
