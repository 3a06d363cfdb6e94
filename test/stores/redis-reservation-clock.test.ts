/** Reservations in a real Redis whose scripts read a time that the test sets. */
import { Redis } from 'ioredis';
import { afterAll, beforeAll } from 'vitest';
import { boundedCountScript } from '../../limiter/stores/redis/bounded-scripts.ts';
import { reservationScript } from '../../limiter/stores/redis/reservation-script.ts';
import { redisScript } from '../../limiter/stores/redis/scripts.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { type BudgetStore, reservationStoreSuite, suiteBounds } from './reservation-store.suite.ts';

for (const script of [boundedCountScript, reservationScript]) {
  const source = script.source.replace("pcall('TIME')", "pcall('HMGET', 'now', 'seconds', 'micros')");
  Object.assign(script, redisScript(source));
}

describeWithEachRedis('reservations in Redis, by a clock that the test sets', (path) => {
  const clock = new ManualClock(Date.UTC(2026, 5));
  let server: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    server = await startRedis({ path });
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  const setTime = () =>
    client.hset('now', 'seconds', Math.floor(clock.ms / 1000), 'micros', (clock.ms % 1000) * 1000);

  const open = async (): Promise<BudgetStore> => {
    const store = await openRedisStore({ url: `127.0.0.1:${server.port}` }, { reservations: suiteBounds });
    const { reservations } = store;
    return {
      counters: {
        submit: (ops, options, done) => void setTime().then(() => store.submit(ops, options, done)),
        ping: () => store.ping(),
        close: () => store.close(),
      },
      reservations: {
        ...reservations,
        submit: (call, done) => void setTime().then(() => reservations.submit(call, done)),
      },
    };
  };

  reservationStoreSuite(open, { clock });
});
