/** A full Redis under each of its policies: whether a client that makes up values gets an exhausted limit back. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { beforeAll, expect, it } from 'vitest';
import type { RedisStore } from '../../limiter/stores/redis/redis-store.ts';
import { counterOp, submit } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { suiteFolder } from '../support/suite-folder.ts';

/** What a Redis may take besides what it took when it was empty: some 2,000 counters. */
const roomBytes = 400_000;
const valuesAtATime = 100;

interface Flood {
  /** Made-up values of a limit per day, one hit each. */
  values: number;
  /** Between a hundred of them and the next hundred. */
  pauseMs: number;
}

/** Faster than a second for all of Redis's memory. Redis's clock of what was used last has steps of a second. */
const fast: Flood = { values: 10_000, pauseMs: 0 };
/** Memory is full of new values after 3 s at the earliest. */
const slow: Flood = { values: 4_500, pauseMs: 150 };

class FloodedLimit {
  /** How often the limit per minute began anew. */
  resets = 0;
  /** Hits of either limit that Redis rejected to count. */
  refused: (string | undefined)[] = [];
  #total = 0;
  readonly #store: RedisStore;

  constructor(store: RedisStore) {
    this.#store = store;
  }

  async run({ values, pauseMs }: Flood): Promise<this> {
    for (let hits = 0; hits < 50; hits += 1) await this.#hit();
    for (let first = 0; first < values; first += valuesAtATime) {
      const ops = Array.from({ length: valuesAtATime }, (_, i) =>
        counterOp({ key: `made_up_${first + i}_86400`, ttlSeconds: 86_400 }),
      );
      for (const { error } of await submit(this.#store, ops)) this.#note(error?.message);
      await this.#hit();
      if (pauseMs > 0) await sleep(pauseMs);
    }
    return this;
  }

  async #hit(): Promise<void> {
    const [op] = await submit(this.#store, [counterOp({ key: 'exhausted_60', ttlSeconds: 60 })]);
    this.#note(op!.error?.message);
    if (op!.error !== undefined) return;
    if (op!.after < this.#total) this.resets += 1;
    this.#total = op!.after;
  }

  #note(message: string | undefined): void {
    if (message !== undefined) this.refused.push(message);
  }
}

describeWithServer('a full Redis', redisProgram, (path) => {
  const folder = suiteFolder();
  beforeAll(() => {
    mkdirSync(join(folder, 'config'));
    const rules =
      'domain: d\ndescriptors:\n  - key: one\n    rate_limit: { unit: year, requests_per_unit: 2 }\n';
    writeFileSync(join(folder, 'config/d.yaml'), rules);
  });

  async function flooded(policy: string, flood: Flood): Promise<FloodedLimit> {
    const server = await startRedis({ path, args: ['--maxmemory-policy', policy] });
    const client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
    const store = await openRedisStore({ url: `127.0.0.1:${server.port}` });
    try {
      const used = Number(/used_memory:(\d+)/.exec(await client.info('memory'))![1]);
      await client.config('SET', 'maxmemory', String(used + roomBytes));
      const limit = await new FloodedLimit(store).run(flood);
      const evicted = Number(/evicted_keys:(\d+)/.exec(await client.info('stats'))![1]);
      expect([policy, evicted > 1_000]).toEqual([policy, policy !== 'noeviction']);
      return limit;
    } finally {
      client.disconnect();
      await store.close();
      await server.stop();
    }
  }

  it('keeps an exhausted limit if what was used last or most stays', async () => {
    const policies = ['volatile-lru', 'volatile-lfu', 'allkeys-lru', 'allkeys-lfu'];
    const limits = await Promise.all(policies.map((policy) => flooded(policy, slow)));
    expect(limits.map(({ resets, refused }) => [resets, refused])).toEqual(policies.map(() => [0, []]));
  });

  it.each(['volatile-ttl', 'volatile-random', 'allkeys-random'])(
    'gives an exhausted limit back with %s, which docs/redis-memory.md advises against',
    async (policy) => {
      // By chance a random policy may spare the key for a whole flood.
      let { resets, refused } = await flooded(policy, fast);
      for (let again = 0; again < 5 && resets === 0; again += 1)
        ({ resets, refused } = await flooded(policy, fast));
      expect(resets).toBeGreaterThan(0);
      expect(refused).toEqual([]);
    },
  );

  it('continues to limit by the local cache without asking Redis, whose key ages and may be evicted', async () => {
    const server = await startRedis({ path });
    const client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
    const limiter = await InProcessLimiter.start({
      env: {
        ...{ RUNTIME_ROOT: folder, BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp' },
        ...{ REDIS_URL: `127.0.0.1:${server.port}`, LOCAL_CACHE_SIZE_IN_BYTES: '100000' },
      },
    });
    try {
      const ask = async () => (await limiter.ask('d', [{ one: 'a' }])).status;
      expect([await ask(), await ask(), await ask()]).toEqual([200, 200, 429]);
      const [key = ''] = await client.keys('d_one_a_*');
      expect(await ask()).toBe(429);
      expect(await client.get(key)).toBe('3');
      await client.del(key);
      expect(await ask()).toBe(429);
      expect(await client.exists(key)).toBe(0);
    } finally {
      await limiter.stop();
      client.disconnect();
      await server.stop();
    }
  });

  it('counts nothing more with noeviction, and gives nothing back', async () => {
    const { resets, refused } = await flooded('noeviction', fast);
    expect(resets).toBe(0);
    expect(refused.length).toBeGreaterThan(1_000);
    expect(new Set(refused)).toEqual(new Set([expect.stringMatching(/^Redis answered: OOM /)]));
  });
});
