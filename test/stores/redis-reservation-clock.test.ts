/** Reservations in a real Redis whose scripts read a time that the test sets. */
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from 'vitest';
import { program } from '../../limiter/stores/redis/lua/program.ts';
import { redisScript } from '../../limiter/stores/redis/lua/scripts.ts';
import type { Store } from '../../limiter/stores/store.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { bookProblems } from '../support/reservation-books.ts';
import {
  lookCall,
  reserveCall,
  reservedCounter,
  settleCall,
  submitCall,
} from '../support/reservation-calls.ts';
import { reservationStoreSuite, suiteBounds } from './reservation-store.suite.ts';

describeWithEachRedis('reservations in Redis, by a clock that the test sets', (path) => {
  const clock = new ManualClock(Date.UTC(2026, 5));
  const original = { ...program };
  let server: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    Object.assign(original, program);
    const source = program.source.replaceAll("pcall('TIME')", "pcall('HMGET', 'now', 'seconds', 'micros')");
    Object.assign(program, redisScript(source));
    server = await startRedis({ path, lifetimes: { own: ['now'], jitterSeconds: 3_600 } });
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
  });
  afterAll(async () => {
    // Other files run in this process afterward.
    Object.assign(program, original);
    client.disconnect();
    await server.stop();
  });

  const expectSoundBooks = async (pattern?: string) => {
    const { recordMs } = suiteBounds;
    const options = { recordMs, nowMs: clock.ms, isClockOfServer: false };
    expect(await bookProblems(client, options, pattern)).toEqual([]);
  };
  afterEach(() => expectSoundBooks());

  const setTime = () =>
    client.hset('now', 'seconds', Math.floor(clock.ms / 1000), 'micros', (clock.ms % 1000) * 1000);

  const open = async (): Promise<Store> => {
    const store = await openRedisStore({ url: `127.0.0.1:${server.port}` }, { reservations: suiteBounds });
    return {
      submit: (ops, options, done) => void setTime().then(() => store.submit(ops, options, done)),
      notes: store.notes,
      claims: store.claims,
      ping: () => store.ping(),
      close: () => store.close(),
    };
  };

  it.each([false, true])('stores no more than what can still be requested, marked: %s', async (isMarker) => {
    const store = await open();
    onTestFinished(() => store.close());
    const stem = `1{kept;${isMarker}}`;
    const of = (amount: number) => [reservedCounter({ stem, amount, ttlMs: 60_000 })];
    for (let i = 0; i < 200; i += 1) {
      const id = `kept-${i}`;
      await submitCall(store, reserveCall({ id, isMarker, counters: of(2) }));
      // Each fifth is left to expire.
      if (i % 5 > 0) await submitCall(store, settleCall({ id, isMarker, counters: of(0) }));
      clock.ms += 30_000;
    }
    // A record lives for TTL and 10 minutes, and a quarter of these longer at most.
    const max = isMarker ? 5 : Math.ceil((60 + 750) / 30) + 2;
    expect(await client.hlen(`weir:reserve:${stem}3600:`)).toBeLessThanOrEqual(max);
    expect(await client.zcard(`weir:reserve-due:${stem}3600:`)).toBeLessThanOrEqual(max);
  });

  it('forgets any number of records once no request may refer to them', async () => {
    const store = await open();
    onTestFinished(() => store.close());
    const stem = '1{forgotten}';
    const of = (amount: number) => [reservedCounter({ stem, amount, ttlMs: 60_000 })];
    for (let i = 0; i < 230; i += 1) {
      const id = `forgotten-${i}`;
      await submitCall(store, reserveCall({ id, counters: of(2) }));
      await submitCall(store, settleCall({ id, counters: of(0) }));
    }
    // When their TTL is over, they join those that wait to be forgotten. A call forgets a hundred.
    for (const laterMs of [60_000, 2 * suiteBounds.recordMs, 1, 1]) {
      clock.ms += laterMs;
      await submitCall(store, lookCall(of(0)));
    }
    expect(await client.hkeys(`weir:reserve:${stem}3600:`)).toEqual(['h']);
    expect(await client.exists(`weir:reserve-due:${stem}3600:`)).toBe(0);
  });

  reservationStoreSuite(open, { clock, expectSoundBooks });
});
