/** What stays in Redis, and for how long: nothing for good. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { counterOp, submit } from '../support/counter-ops.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { commandsToRun } from '../support/documents.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import {
  lookCall,
  reserveCall,
  reservedCounter,
  settleCall,
  submitCall,
} from '../support/reservation-calls.ts';

describeWithEachRedis('what stays in Redis', (path) => {
  let server: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    server = await startRedis({
      path,
      lifetimes: { own: ['own:', 'weir:reserve:own'], jitterSeconds: 3_600 },
    });
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  const openStore = async (options: Parameters<typeof openRedisStore>[1] = {}) => {
    const store = await openRedisStore({ url: `127.0.0.1:${server.port}` }, options);
    onTestFinished(() => store.close());
    return store;
  };
  /** Keys that were written, as often as they were. */
  const changes = async () =>
    Number(/rdb_changes_since_last_save:(\d+)/.exec(await client.info('persistence'))![1]);
  const livesOf = (keys: string[]) => Promise.all(keys.map((key) => client.pttl(key)));

  it('a look at a counter on which nothing is reserved writes nothing', async () => {
    const store = await openStore();
    const counter = reservedCounter({ stem: '1{nothing}' });
    await submit(store, [counterOp({ key: counter.key, hits: 11, limit: 10 })]);
    const before = await changes();
    for (let i = 0; i < 3; i += 1) await submitCall(store, lookCall([counter]));
    expect([await changes(), await client.keys('weir:*')]).toEqual([before, []]);
  });

  it('a look at a counter with an open reservation writes nothing', async () => {
    const store = await openStore();
    const counter = reservedCounter({ stem: '1{open}', amount: 3 });
    await submitCall(store, reserveCall({ id: 'open', counters: [counter] }));
    const before = await changes();
    const look = await submitCall(store, lookCall([reservedCounter({ stem: '1{open}' })]));
    expect(look.counters[0]).toMatchObject({ open: 1, reserved: 3 });
    expect(await changes()).toBe(before);
  });

  it.each(['weir:reserve', 'weir:reserve-due'])(
    'what was evicted as %s ends again when it is recreated',
    async (kind) => {
      const store = await openStore();
      const stem = `1{evicted ${kind}}`;
      const reserve = (id: string) =>
        submitCall(store, reserveCall({ id, counters: [reservedCounter({ stem, amount: 1 })] }));
      await reserve('before');
      const keys = ['weir:reserve', 'weir:reserve-due'].map((name) => `${name}:${stem}3600:`);
      for (const way of ['usual', 'general']) {
        await client.del(`${kind}:${stem}3600:`);
        if (way === 'usual') await reserve(way);
        else {
          // With shadow mode the call is none of the usual ones.
          const counter = reservedCounter({ stem, amount: 1, isShadow: true });
          await submitCall(store, reserveCall({ id: way, counters: [counter] }));
        }
        const lives = await livesOf(keys);
        expect(lives.every((ms) => ms > 3_600_000)).toBe(true);
      }
      await submitCall(store, settleCall({ id: 'usual', counters: [reservedCounter({ stem })] }));
      expect((await livesOf(keys)).every((ms) => ms > 0)).toBe(true);
    },
  );

  it('what builds before left is removed by the command in docs/upgrades.md, and nothing else', async () => {
    await client.flushall();
    const store = await openStore();
    const stale = Array.from({ length: 2_500 }, (_, i) => `weir:reserve:1{old;ip=${i} '"\n\\}60:`);
    const pipeline = client.pipeline();
    for (const key of stale) pipeline.hset(key, 'h', Buffer.alloc(56));
    await pipeline.exec();
    const open = reservedCounter({ stem: '1{open}', amount: 3 });
    await submitCall(store, reserveCall({ id: 'open', counters: [open] }));
    await client.hset('weir:reserve:own end', 'h', 'x');
    await client.expire('weir:reserve:own end', 60);
    await client.hset('weir:reserve:own more', 'h', 'x', 'pone', 'x');
    await client.set('weir:reserve:own text', 'x');
    await client.hset('own:weir:reserve:', 'h', 'x');
    const kept = (await client.keys('*')).filter((key) => !stale.includes(key)).sort();
    const [command = '', ...others] = commandsToRun('docs/upgrades.md');
    expect(others).toEqual([]);
    const here = command.replaceAll('redis://127.0.0.1:6379', `redis://127.0.0.1:${server.port}`);
    expect(here).not.toBe(command);
    await promisify(execFile)('sh', ['-c', here]);
    expect((await client.keys('*')).sort()).toEqual(kept);
  });
});
