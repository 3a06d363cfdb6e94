/** Reservations in a real Redis: what the script does to counters and to what it keeps beside them. */
import { afterAll, beforeAll, describe } from 'vitest';
import { openClusterStore } from '../support/cluster-stores.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
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

describeWithEachRedis('reservations in a Redis Cluster', (path) => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await startRedisCluster({ path });
  });
  afterAll(() => cluster?.stop());

  const open = async () => {
    const store = await openClusterStore({ url: cluster.url }, { reservations: suiteBounds });
    return { counters: store, reservations: store.reservations };
  };

  describe('with counters of one hash tag', () => reservationStoreSuite(open, { onePlace: false }));
  describe('with a slot for each window', () =>
    reservationStoreSuite(open, { onePlace: false, isTagged: false }));
});
