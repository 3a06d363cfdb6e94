/** What a Redis that has reached `maxmemory` under `noeviction` still does, as docs/redis-memory.md says. */
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from 'vitest';
import { SlidingWindow } from '../../limiter/algorithms/sliding-window.ts';
import { TokenBucket } from '../../limiter/algorithms/token-bucket.ts';
import { counterOp, type GivenTerms, submit } from '../support/counter-ops.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import {
  lookCall,
  type ReservedCounter,
  reserveCall,
  reservedCounter,
  settleCall,
  submitCall,
} from '../support/reservation-calls.ts';

const twoHourly = { requests: 2, windowMicros: 3_600_000_000 };
const rejectsWrites = { message: expect.stringMatching(/^Redis answered: OOM /), notCounted: true };

describeWithEachRedis('a full Redis', (path) => {
  let server: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    server = await startRedis({ path, args: ['--maxmemory-policy', 'noeviction'] });
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });
  afterEach(() => client.config('SET', 'maxmemory', '0'));

  const open = async (options: Parameters<typeof openRedisStore>[1] = {}) => {
    const store = await openRedisStore({ url: `127.0.0.1:${server.port}` }, options);
    onTestFinished(() => store.close());
    return store;
  };
  const fill = () => client.config('SET', 'maxmemory', '1');

  it.each([
    ['one by one', {}, {}],
    ['with stop-when-over', {}, { stopWhenOver: true }],
    ['without scripts', { scripts: 'never' }, {}],
    ['without scripts, with stop-when-over', { scripts: 'never' }, { stopWhenOver: true }],
  ] as const)(
    'refuses hits of exhausted limits, reads, and counts nothing, %s',
    async (_, given, options) => {
      const store = await open(given);
      const ask = (key: string, terms: GivenTerms = {}) =>
        submit(store, [counterOp({ key, limit: 3, ...terms })], options);
      const [spent, begun, absent] = [randomUUID(), randomUUID(), randomUUID()];
      await Promise.all([ask(spent, { hits: 3 }), ask(begun, { hits: 2 })]);
      await fill();
      // The same key again in the same call, by a larger limit and by a smaller one: only the second is exhausted.
      const answers = await Promise.all([
        ask(spent),
        ask(spent, { limit: 9 }),
        ask(spent, { hits: 0 }),
        ask(begun),
        ask(begun, { limit: 1 }),
        ask(begun, { hits: 2 }),
        ask(begun, { negative: true }),
        ask(absent),
      ]);
      const reported = answers.map(([op]) => op!.error ?? op!.after);
      expect(reported).toMatchObject([
        4,
        rejectsWrites,
        3,
        rejectsWrites,
        3,
        rejectsWrites,
        rejectsWrites,
        rejectsWrites,
      ]);
      expect(await client.mget(spent, begun, absent)).toEqual(['3', '2', null]);
    },
  );

  it('limits hits of exhausted sliding windows and buckets, and of no other key of a request', async () => {
    const store = await open();
    for (const bound of [new SlidingWindow(twoHourly), new TokenBucket({ ...twoHourly, burst: 2 })]) {
      const key = randomUUID();
      const op = () => counterOp({ key, bound, limit: bound.capacity, hits: 2 });
      await submit(store, [op()]);
      await fill();
      const [one, other] = await submit(store, [op(), counterOp({ key: randomUUID() })]);
      expect([one!.error, one!.over, other!.error]).toEqual([
        undefined,
        true,
        expect.objectContaining(rejectsWrites),
      ]);
      await client.config('SET', 'maxmemory', '0');
    }
  });

  it.each([
    ['of a fixed window', {}],
    ['of a bucket', { bound: new TokenBucket({ ...twoHourly, burst: 10 }) }],
  ])('commits what is reserved and reserves nothing, %s', async (_, given: Partial<ReservedCounter>) => {
    const store = await open();
    const stem = randomUUID();
    const counters = (amount?: number) => [reservedCounter({ stem, ...given, amount })];
    const reserve = (id: string) => submitCall(store, reserveCall({ id, counters: counters(3) }));
    await Promise.all(['released', 'committed'].map(reserve));
    await fill();
    await expect(reserve('new')).rejects.toMatchObject(rejectsWrites);
    const settle = async (id: string, amount: number) =>
      (await submitCall(store, settleCall({ id, counters: counters(amount), unknown: 'charge' }))).outcome;
    expect(await settle('released', 0)).toBe('settled');
    expect(await settle('committed', 2)).toBe('settled');
    expect(await settle('committed', 2)).toBe('repeated');
    // It would leave a record.
    await expect(settle('unknown', 1)).rejects.toMatchObject(rejectsWrites);
    const look = await submitCall(store, lookCall(counters()));
    expect(look.counters[0]).toMatchObject({ used: 2, reserved: 0, open: 0 });
    await client.config('SET', 'maxmemory', '0');
    expect((await reserve('new')).outcome).toBe('reserved');
  });
});
