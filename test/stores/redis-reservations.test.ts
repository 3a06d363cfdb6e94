/** Reservations in a real Redis: what the script does to counters and to what it keeps beside them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FixedWindow } from '../../limiter/stores/bound.ts';
import type { ReservedCounter } from '../../limiter/stores/reservations/reservation-store.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { eventually } from '../support/eventually.ts';
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import {
  lookCall,
  reserveCall,
  reservedCounter,
  settleCall,
  submitCall,
} from '../support/reservation-calls.ts';
import { reservationStoreSuite, suiteBounds } from './reservation-store.suite.ts';

describeWithEachRedis('reservations in Redis', (path) => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await startRedis({ path });
  });
  afterAll(() => server.stop());

  it('gives back all that has expired to who looks, however many', async () => {
    const bounds = { maxReservations: 1000, recordMs: 600_000 };
    const store = await openRedisStore({ url: `127.0.0.1:${server.port}` }, { reservations: bounds });
    try {
      const counter = (given: Partial<ReservedCounter> = {}) =>
        reservedCounter({ stem: '1{looked}', bound: new FixedWindow(1000), ...given });
      const ids = Array.from({ length: 300 }, (_, i) => `looked-${i}`);
      await Promise.all(
        ids.map((id) =>
          submitCall(
            store.reservations,
            reserveCall({ id, counters: [counter({ amount: 1, ttlMs: 1000 })] }),
          ),
        ),
      );
      const look = async () => (await submitCall(store.reservations, lookCall([counter()]))).counters[0]!;
      expect(await look()).toMatchObject({ used: 300, open: 300 });
      // Longer than their TTL, and than Redis' clock may differ from this one's in what it rounds.
      await new Promise((resolve) => setTimeout(resolve, 1500));
      expect(await look()).toMatchObject({ used: 0, reserved: 0, open: 0, givenBack: 300 });
    } finally {
      await store.close();
    }
  });

  it('stops at what is settled when it gives back what has expired', async () => {
    const bounds = { maxReservations: 1000, recordMs: 600_000 };
    const store = await openRedisStore({ url: `127.0.0.1:${server.port}` }, { reservations: bounds });
    try {
      const counter = (given: Partial<ReservedCounter> = {}) =>
        reservedCounter({ stem: '1{settled}', bound: new FixedWindow(100), ...given });
      const ids = Array.from({ length: 100 }, (_, i) => `settled-${i}`);
      const each = (submit: (id: string) => Promise<unknown>) => Promise.all(ids.map(submit));
      await each((id) =>
        submitCall(store.reservations, reserveCall({ id, counters: [counter({ amount: 1 })] })),
      );
      await each((id) =>
        submitCall(store.reservations, settleCall({ id, counters: [counter({ amount: 0 })] })),
      );
      const reserve = (id: string, given: Partial<ReservedCounter>) =>
        submitCall(store.reservations, reserveCall({ id, counters: [counter(given)] }));
      await reserve('expires', { amount: 1, ttlMs: 1 });
      await eventually(async () => {
        const { outcome, counters } = await reserve('too much', { amount: 101 });
        expect(outcome).toBe('refused');
        expect(counters[0]).toMatchObject({ used: 0, open: 0 });
      });
      const { counters } = await submitCall(store.reservations, lookCall([counter()]));
      expect(counters[0]).toMatchObject({ used: 0, open: 0 });
    } finally {
      await store.close();
    }
  });

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
