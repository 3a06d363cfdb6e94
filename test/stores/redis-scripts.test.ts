import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { BreakerStore } from '../../limiter/stores/failure/breaker-store.ts';
import type { Operation } from '../../limiter/stores/operation.ts';
import { needsScripts } from '../../limiter/stores/redis/bounded-steps.ts';
import type { RedisStore } from '../../limiter/stores/redis/redis-store.ts';
import { maxKeysPerCall } from '../../limiter/stores/redis/turn-batches.ts';
import { unblockedTimers } from '../../process/time/clock.ts';
import { counterOp, submit, totalOf } from '../support/counter-ops.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { nutcrackerProgram, redisProgram } from '../support/find-server.ts';
import { commandCalls, type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { startTwemproxy, type Twemproxy } from '../support/twemproxy.ts';
import { closedStoreSuite, counterStoreSuite } from './counter-store.suite.ts';

const stop = { stopWhenOver: true };

/** How often the server ran a command since `CONFIG RESETSTAT`. */
async function calls(client: Redis, command: string): Promise<number> {
  const stats = await client.info('commandstats');
  return commandCalls(stats, command);
}

describeWithEachRedis('Redis without scripts', (path) => {
  let server: RedisServer;
  let client: Redis;
  let url: string;

  beforeAll(async () => {
    server = await startRedis({ path });
    url = `127.0.0.1:${server.port}`;
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
    await client.acl('SETUSER', 'plain', 'on', '>pw', '~*', '+@all', '-eval', '-evalsha');
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  describe('by REDIS_SCRIPTS=never', () => {
    const open = () => openRedisStore({ url }, { scripts: 'never' });
    counterStoreSuite(open, { bounds: 'refused' });
    closedStoreSuite(open);
  });

  describe('by an ACL, found out by auto', () => {
    const open = () => openRedisStore({ url: `redis://plain:pw@${url}` });
    counterStoreSuite(open, { bounds: 'refused' });
    closedStoreSuite(open);
  });

  async function withStore(
    options: Parameters<typeof openRedisStore>[1],
    test: (store: RedisStore) => Promise<void>,
    user = '',
  ): Promise<void> {
    const store = await openRedisStore({ url: `redis://${user}${url}` }, options);
    try {
      await test(store);
    } finally {
      await store.close();
    }
  }

  it('sends no script with never, and SET with every INCRBY and DECRBY, which gives a new key its life', () =>
    withStore({ scripts: 'never' }, async (store) => {
      await client.config('RESETSTAT');
      const key = randomUUID();
      await totalOf(store, { key, hits: 2, ttlSeconds: 50 });
      await totalOf(store, { key, hits: 2, ttlSeconds: 100 });
      await totalOf(store, { key, hits: 1, negative: true });
      await submit(store, [counterOp({ key, limit: 9 })], stop);
      expect(
        await Promise.all(
          ['evalsha', 'eval', 'incrby', 'decrby', 'set', 'expire'].map((name) => calls(client, name)),
        ),
      ).toEqual([0, 0, 3, 1, 4, 0]);
      expect(await client.get(key)).toBe('4');
      expect(await client.ttl(key)).toBe(50);
    }));

  it('folds what arrives in one turn', () =>
    withStore({ scripts: 'never' }, async (store) => {
      await client.config('RESETSTAT');
      const key = randomUUID();
      await Promise.all(Array.from({ length: 100 }, () => submit(store, [counterOp({ key })])));
      expect([await calls(client, 'incrby'), await calls(client, 'set')]).toEqual([1, 1]);
    }));

  it('says once why auto continues without scripts, and loses or repeats no count over it', async () => {
    const reasons: string[] = [];
    const onScriptsRejected = (reason: string) => reasons.push(reason);
    await withStore(
      { onScriptsRejected },
      async (store) => {
        await client.config('RESETSTAT');
        const key = randomUUID();
        // Three calls are under way when the first rejection arrives.
        const full = (): Operation[] => [
          counterOp({ key }),
          ...Array.from({ length: maxKeysPerCall - 1 }, () => counterOp({ key: randomUUID() })),
        ];
        const all = await Promise.all([
          submit(store, full()),
          submit(store, [counterOp({ key: randomUUID(), limit: 9 })], stop),
          submit(store, full()),
        ]);
        expect(all.flat().filter(({ error }) => error !== undefined)).toEqual([]);
        expect(await totalOf(store, { key })).toBe(3);
        expect(reasons).toHaveLength(1);
        expect(reasons[0]).toMatch(/^Redis answered: NOPERM .*'evalsha' command/);
        const refused = /cmdstat_evalsha:.*rejected_calls=(\d+)/.exec(await client.info('commandstats'));
        expect(Number(refused?.[1])).toBe(3);
      },
      'plain:pw@',
    );
  });

  it('leaves its breaker closed, however many limits need scripts', () =>
    withStore({ scripts: 'never', windowMs: 20 }, async (store) => {
      const breaker = new BreakerStore({
        store,
        timers: unblockedTimers,
        random: Math.random,
        silenceMs: 160,
        probeIntervalMs: 100,
        patienceMs: 5000,
        maxWaiting: 1000,
        maxWaitingBytes: 1_000_000,
      });
      const endMs = performance.now() + 600;
      while (performance.now() < endMs) {
        const [op] = await submit(breaker, [counterOp({ key: 'k', bound: new FixedWindow(5) })]);
        expect(op?.error).toBe(needsScripts);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      expect([breaker.phase, breaker.opened, breaker.rejected]).toEqual(['closed', 0, 0]);
    }));

  it('never leaves a key below zero when refunds meet', () =>
    withStore({ scripts: 'never' }, async (first) =>
      withStore({ scripts: 'never' }, async (second) => {
        for (let round = 0; round < 20; round += 1) {
          const key = randomUUID();
          await totalOf(first, { key, hits: 5 });
          await Promise.all([first, second].map((store) => totalOf(store, { key, hits: 5, negative: true })));
          expect(await client.get(key)).toBe('0');
        }
      }),
    ));

  it('creates no key for a look or a refund', () =>
    withStore({ scripts: 'never' }, async (store) => {
      const key = randomUUID();
      await totalOf(store, { key, hits: 0 });
      await totalOf(store, { key, negative: true });
      await submit(store, [counterOp({ key, lookOnly: true })], stop);
      expect(await client.exists(key)).toBe(0);
    }));

  it('fails the callers of a key that is no counter, and no others', () =>
    withStore({ scripts: 'never' }, async (store) => {
      const [list, good] = [randomUUID(), randomUUID()];
      await client.rpush(list, 'x');
      await client.expire(list, 60);
      for (const options of [{}, stop]) {
        const bad = submit(store, [counterOp({ key: list })], options);
        const fine = submit(store, [counterOp({ key: good })], options);
        const [first, second] = (await Promise.all([bad, fine])).flat();
        expect(first?.error?.message).toBe(
          'Redis answered: WRONGTYPE Operation against a key holding the wrong kind of value',
        );
        expect(second?.error).toBeUndefined();
      }
      expect(await client.get(good)).toBe('2');
    }));

  it('brings a total beyond 2^53 - 1 back to it', () =>
    withStore({ scripts: 'never' }, async (store) => {
      for (const foreign of ['9007199254740993', '9223372036854775807']) {
        const key = randomUUID();
        await client.set(key, foreign, 'EX', 77);
        expect(await totalOf(store, { key, hits: 2 })).toBe(2 ** 53);
        expect(await client.get(key)).toBe(String(Number.MAX_SAFE_INTEGER));
      }
    }));
});

describeWithServer('Redis behind twemproxy', nutcrackerProgram, (nutcracker) => {
  describeWithServer('with two servers', redisProgram, (path) => {
    const folder = suiteFolder();
    let servers: RedisServer[];
    let proxy: Twemproxy;
    let url: string;

    beforeAll(async () => {
      servers = await Promise.all([startRedis({ path }), startRedis({ path })]);
      const ports = servers.map(({ port }) => port);
      proxy = await startTwemproxy(nutcracker, folder, ports);
      url = proxy.url;
    });
    afterAll(async () => {
      await proxy?.stop();
      await Promise.all((servers ?? []).map((server) => server.stop()));
    });

    const open = () => openRedisStore({ url }, { scripts: 'never' });
    counterStoreSuite(open, { bounds: 'refused' });
    closedStoreSuite(open);

    it('counts on both servers, and every key on one of them only', async () => {
      const store = await open();
      const keys = Array.from({ length: 200 }, () => randomUUID());
      await submit(
        store,
        keys.map((key) => counterOp({ key })),
      );
      await store.close();
      const held = await Promise.all(
        servers.map(async ({ port }) => {
          const client = new Redis(port, '127.0.0.1', { protocol: 2 });
          const values = await client.mget(keys);
          client.disconnect();
          return values;
        }),
      );
      const [first, second] = held as [(string | null)[], (string | null)[]];
      for (const [i] of keys.entries()) expect([first[i], second[i]].sort()).toEqual(['1', null].sort());
      expect(first.filter((value) => value !== null).length).toBeGreaterThan(20);
      expect(second.filter((value) => value !== null).length).toBeGreaterThan(20);
    });
  });
});
