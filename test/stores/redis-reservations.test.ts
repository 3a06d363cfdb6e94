/** Reservations in a real Redis: what the script does to counters and to what it keeps beside them. */
import { afterAll, beforeAll, describe } from 'vitest';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { reservationStoreSuite, suiteBounds } from './reservation-store.suite.ts';

describeWithEachRedis('reservations in Redis', (path) => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await startRedis({ path });
  });
  afterAll(() => server.stop());

  describe('as every store', () => {
    reservationStoreSuite(async () => {
      const store = await openRedisStore({ url: `127.0.0.1:${server.port}` }, { reservations: suiteBounds });
      return { counters: store, reservations: store.reservations };
    });
  });
});
