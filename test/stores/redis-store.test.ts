import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import type { RedisStore } from '../../limiter/stores/redis/redis-store.ts';
import { countAll } from '../../limiter/stores/store.ts';
import { counterOp, submit, totalOf } from '../support/counter-ops.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { caseCount } from '../support/property-cases.ts';
import { commandCalls, type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';

const max = Number.MAX_SAFE_INTEGER;
const stop = { stopWhenOver: true };

describeWithEachRedis('what RedisStore leaves in Redis', (path) => {
  let server: RedisServer;
  let store: RedisStore;
  let client: Redis;

  beforeAll(async () => {
    server = await startRedis({ path, lifetimes: { own: ['own:'] } });
    store = await openRedisStore({ url: `127.0.0.1:${server.port}` });
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
  });
  afterAll(async () => {
    client.disconnect();
    await store.close();
    await server.stop();
  });

  /** How often the server ran a command since `CONFIG RESETSTAT`. */
  async function calls(command: string): Promise<number> {
    const stats = await client.info('commandstats');
    return commandCalls(stats, command);
  }

  it('gives a new key its life, and leaves it alone from then on', async () => {
    const key = randomUUID();
    await totalOf(store, { key, ttlSeconds: 100 });
    expect(await client.ttl(key)).toBe(100);
    await client.expire(key, 50);
    await totalOf(store, { key, hits: 2, ttlSeconds: 999 });
    await totalOf(store, { key, negative: true, ttlSeconds: 999 });
    await submit(store, [counterOp({ key, ttlSeconds: 999 })], stop);
    expect([await client.get(key), await client.ttl(key)]).toEqual(['3', 50]);
  });

  it('sends once in its window what comes soon after another call', async () => {
    const windowed = await openRedisStore({ url: `127.0.0.1:${server.port}` }, { windowMs: 300 });
    await submit(windowed, [counterOp({ key: randomUUID() })]);
    await new Promise((resolve) => setTimeout(resolve, 400));
    await client.config('RESETSTAT');
    const key = randomUUID();
    const totals = [totalOf(windowed, { key })];
    for (let i = 0; i < 5; i++) {
      await new Promise(setImmediate);
      totals.push(totalOf(windowed, { key }));
    }
    expect(await Promise.all(totals)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await calls('evalsha')).toBe(2);
    await windowed.close();
  });

  it('answers a hundred times as many requests as its pool has places', async () => {
    const calls = { places: 10, whenEmpty: 'WAIT', waitMs: 0 } as const;
    const pooled = await openRedisStore({ url: `127.0.0.1:${server.port}` }, { calls });
    const key = randomUUID();
    const totals: Promise<number>[] = [];
    // One a turn of the event loop, so that each is a call of its own.
    for (let i = 0; i < 1_000; i++) {
      totals.push(totalOf(pooled, { key }));
      await new Promise(setImmediate);
    }
    expect(await Promise.all(totals)).toEqual(Array.from({ length: 1_000 }, (_, i) => i + 1));
    await pooled.close();
  });

  it('reports a refund that Redis rejects', async () => {
    const key = randomUUID();
    await totalOf(store, { key, hits: 5 });
    await client.config('SET', 'maxmemory', '1');
    try {
      const [op] = await submit(store, [counterOp({ key, hits: 2, negative: true })]);
      expect(op?.error?.message).toMatch(/^Redis answered: OOM /);
    } finally {
      await client.config('SET', 'maxmemory', '0');
    }
    expect(await client.get(key)).toBe('5');
  });

  it('creates no key for a look or a refund', async () => {
    const key = randomUUID();
    await totalOf(store, { key, hits: 0 });
    await totalOf(store, { key, negative: true });
    await submit(store, [counterOp({ key, lookOnly: true })], stop);
    await submit(store, [counterOp({ key, negative: true })], stop);
    expect(await client.exists(key)).toBe(0);
  });

  it('gives the life of the first addition to a key that a refund in the same turn found missing', async () => {
    const key = randomUUID();
    const refund = submit(store, [counterOp({ key, hits: 3, negative: true, ttlSeconds: 10 })]);
    const addition = submit(store, [counterOp({ key, hits: 5, ttlSeconds: 20 })]);
    expect((await Promise.all([refund, addition])).flat().map((op) => op.after)).toEqual([0, 5]);
    expect([await client.get(key), await client.ttl(key)]).toEqual(['5', 20]);
  });

  it('leaves no key without a life, whatever the workload', async () => {
    const request = fc.record({
      ops: fc.array(
        fc.record({
          key: fc.constantFrom('a', 'b', 'c', 'd'),
          hits: fc.oneof({ weight: 9, arbitrary: fc.nat(3) }, { weight: 1, arbitrary: fc.constant(max) }),
          negative: fc.boolean(),
          ttlSeconds: fc.integer({ min: 1, max: 10_000 }),
          limit: fc.nat(5),
        }),
        { minLength: 1, maxLength: 4 },
      ),
      stopWhenOver: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(request, { maxLength: 10 }), async (list) => {
        await client.flushall();
        await Promise.all(
          list.map(({ ops, stopWhenOver }) => submit(store, ops.map(counterOp), { stopWhenOver })),
        );
        for (const key of await client.keys('*')) expect(await client.pttl(key)).toBeGreaterThan(0);
      }),
      { numRuns: caseCount(100) },
    );
  });

  it('makes one call for all that arrives in one turn', async () => {
    await client.config('RESETSTAT');
    const keys = Array.from({ length: 100 }, () => randomUUID());
    await Promise.all(
      Array.from({ length: 1000 }, (_, i) => submit(store, [counterOp({ key: keys[i % 100] as string })])),
    );
    expect([await calls('evalsha'), await calls('incrby'), await calls('expire')]).toEqual([1, 100, 100]);
  });

  it('puts at most 512 keys into a call', async () => {
    await client.config('RESETSTAT');
    await Promise.all(Array.from({ length: 1025 }, () => submit(store, [counterOp({ key: randomUUID() })])));
    expect([await calls('evalsha'), await calls('incrby')]).toEqual([3, 1025]);
    await client.config('RESETSTAT');
    const pair = () => [counterOp({ key: randomUUID() }), counterOp({ key: randomUUID() })];
    await Promise.all(Array.from({ length: 512 }, () => submit(store, pair(), stop)));
    expect([await calls('evalsha'), await calls('incrby')]).toEqual([2, 1024]);
  });

  it('continues when Redis has forgotten the scripts, and counts once', async () => {
    const key = randomUUID();
    await client.script('FLUSH');
    const all = await Promise.all([
      submit(store, [counterOp({ key })]),
      submit(store, [counterOp({ key, limit: 10 })], stop),
      submit(store, [counterOp({ key })]),
    ]);
    expect(all.flat().map((op) => op.after)).toEqual([1, 2, 3]);
    expect(await client.get(key)).toBe('3');
  });

  it('fails the callers of a key that is no counter, and no others', async () => {
    const [list, word, good] = [`own:${randomUUID()}`, `own:${randomUUID()}`, randomUUID()];
    await client.rpush(list, 'x');
    await client.set(word, 'many');
    const wrongType = 'Redis answered: WRONGTYPE Operation against a key holding the wrong kind of value';
    const noInteger = 'Redis answered: ERR value is not an integer or out of range';
    for (const [given, options] of [
      [{}, {}],
      [{ negative: true }, {}],
      [{ hits: 0 }, {}],
      [{}, stop],
    ] as const) {
      const bad = submit(
        store,
        [counterOp({ key: list, ...given }), counterOp({ key: good, hits: 0 })],
        options,
      );
      const other = submit(store, [counterOp({ key: word, ...given })], options);
      const fine = submit(store, [counterOp({ key: good })], options);
      const all = (await Promise.all([bad, other, fine])).flat();
      expect(all.map((op) => op.error?.message)).toEqual([wrongType, undefined, noInteger, undefined]);
      expect(all.map((op) => op.error?.transient)).toEqual([false, undefined, false, undefined]);
    }
    expect(await client.get(good)).toBe('4');
  });

  it.each(['9007199254740993', '9223372036854775807'])(
    'takes a foreign total of %s for 2^53 - 1',
    async (foreign) => {
      for (const options of [{}, stop]) {
        const key = randomUUID();
        await client.set(key, foreign, 'EX', 77);
        const [op] = await submit(store, [counterOp({ key, hits: 2, ttlSeconds: 99 })], options);
        expect(answer(op)).toEqual([max + 1, undefined]);
        expect([await client.get(key), await client.ttl(key)]).toEqual([String(max), 77]);
      }
    },
  );

  it('gives a life to a foreign key that has none when it saturates', async () => {
    const key = randomUUID();
    await client.set(key, '9223372036854775807');
    expect(await totalOf(store, { key, ttlSeconds: 88 })).toBe(max + 1);
    expect(await client.ttl(key)).toBe(88);
  });

  it.each([
    ['each alone', countAll],
    ['with stop-when-over', stop],
  ])(
    'counts the hits of a turn on permitted keys if the user has no access to another, %s',
    async (_, options) => {
      const mine = `mine${randomUUID()}`;
      await client.acl('SETUSER', 'some', 'on', '>pw', 'resetkeys', '~mine*', '+@all');
      const limited = await openRedisStore({ url: `redis://some:pw@127.0.0.1:${server.port}` });
      const bound = new FixedWindow(10);
      const requests = [
        [counterOp({ key: `${mine}1` })],
        [counterOp({ key: `other${mine}` }), counterOp({ key: `${mine}5` })],
        [counterOp({ key: `${mine}2`, hits: 2 })],
        [
          counterOp({ key: `${mine}3`, bound, groupSize: 2 }),
          counterOp({ key: `${mine}4`, bound, groupSize: 2 }),
        ],
        [counterOp({ key: `other${mine}`, bound })],
        [counterOp({ key: `${mine}1` })],
      ];
      await Promise.all(requests.map((ops) => submit(limited, ops, options)));
      await limited.close();
      const denied = expect.stringMatching(/^Redis answered: NOPERM /);
      const sameRequest = options === stop ? denied : 1;
      const answers = requests.map((ops) => ops.map(({ error, after }) => error?.message ?? after));
      expect(answers).toEqual([[1], [denied, sameRequest], [2], [1, 1], [denied], [2]]);
      expect(await client.mget(`${mine}1`, `${mine}2`, `${mine}3`)).toEqual(['2', '2', '1']);
    },
  );

  it('reports a key whose expiry Redis rejects, and does not leave it', async () => {
    await client.acl('SETUSER', 'noexpire', 'on', '>pw', '~*', '+@all', '-expire');
    const limited = await openRedisStore({ url: `redis://noexpire:pw@127.0.0.1:${server.port}` });
    const key = randomUUID();
    const [op] = await submit(limited, [counterOp({ key })]);
    await limited.close();
    expect(op?.error?.message).toMatch(/^Redis answered: .*(user executing the script|permissions)/);
    expect(await client.exists(key)).toBe(0);
  });

  const answer = (op: { after: number; error: unknown } | undefined) => [op?.after, op?.error];
});
