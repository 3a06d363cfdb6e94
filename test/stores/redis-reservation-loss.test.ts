/** What becomes of a reservation in Redis when one of its keys is deleted, as an eviction does, in each of its states. */
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import type { RedisStore } from '../../limiter/stores/redis/redis-store.ts';
import { reservationKeysOf } from '../../limiter/stores/redis/reservation-keys.ts';
import { counterOp, submit } from '../support/counter-ops.ts';
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

/** Of others on the same counter, before and after the loss: hits, and a reservation that stays open. */
const hitsBefore = 20;
const otherReserved = 30;
const reserved = 50;
const hitsAfter = 5;

type Key = 'counter' | 'hash' | 'set' | 'note';
type State = 'open' | 'expired' | 'expired, charged' | 'settled' | 'a marker';

describeWithEachRedis('a reservation of which a key is lost', (path) => {
  let server: RedisServer;
  let client: Redis;
  let store: RedisStore;
  let runs = 0;

  beforeAll(async () => {
    server = await startRedis({ path });
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
    store = await openRedisStore({ url: `127.0.0.1:${server.port}` });
  });
  afterAll(async () => {
    await store?.close();
    client.disconnect();
    await server.stop();
  });

  /** Makes a reservation in a state, deletes a key, and lets others count. */
  async function lose(key: Key, state: State) {
    runs += 1;
    const id = `id-${runs}`;
    const isMarker = state === 'a marker';
    const expires = state.startsWith('expired');
    const counter = (amount?: number, given: Partial<ReservedCounter> = {}) =>
      reservedCounter({ stem: `1{lost;run=${runs}}`, bound: new FixedWindow(1_000), amount, ...given });
    const { key: counterKey } = counter();
    const [hash, set] = reservationKeysOf(counterKey);
    const keys = { counter: counterKey, hash, set, note: `weir:reserve-note:${id}` };
    const hit = (hits: number) => submit(store, [counterOp({ key: counterKey, hits, limit: 1_000 })]);
    const settle = async (amount: number | undefined) => {
      const call = settleCall({ id, isMarker, unknown: 'charge', counters: [counter(amount)] });
      const { outcome, counters } = await submitCall(store, call);
      return { ...counters[0]!, outcome };
    };
    await hit(hitsBefore);
    const other = reserveCall({ id: `other-${runs}`, counters: [counter(otherReserved)] });
    await submitCall(store, other);
    const onExpiry = state === 'expired, charged' ? 'charge' : 'release';
    const made = reserveCall({
      ...{ id, isMarker, note: isMarker ? undefined : 'note' },
      counters: [counter(reserved, { onExpiry, ttlMs: expires ? 1 : 60_000 })],
    });
    await submitCall(store, made);
    if (expires) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      await submitCall(store, lookCall([counter(undefined, { onExpiry })]));
    }
    if (state === 'settled') await settle(40);
    const before = Number(await client.get(counterKey));
    await client.del(keys[key]);
    await hit(hitsAfter);
    const total = async () => Number(await client.get(counterKey));
    return { before, total, settle, recall: () => store.notes.recall(id) };
  }

  describe.each<State>(['open', 'expired', 'expired, charged', 'settled', 'a marker'])('%s', (state) => {
    const keys = (['counter', 'hash', 'set', 'note'] as const).filter(
      (key) => key !== 'note' || state !== 'a marker',
    );

    it.each(keys)('releases no more than was reserved without its %s', async (key) => {
      for (const actual of [0, 10, reserved, 70]) {
        const { before, total, settle } = await lose(key, state);
        const counted = await total();
        expect(counted).toBe((key === 'counter' ? 0 : before) + hitsAfter);
        const { outcome, changed, used } = await settle(actual);
        const after = await total();
        expect([used, changed]).toEqual([after, after - counted]);
        // What others counted since stays counted.
        expect(after).toBeGreaterThanOrEqual(hitsAfter);
        expect(counted - after).toBeLessThanOrEqual(reserved);
        // Without the hash nothing is known of it, and all that was used is charged.
        if (key === 'hash') expect([outcome, changed]).toEqual(['unknown', actual]);
        // A second time changes nothing; of a marker nothing is remembered.
        if (state === 'a marker') continue;
        expect((await settle(actual)).outcome).toBe('repeated');
        expect(await total()).toBe(after);
      }
    });
  });

  it('charges what was used again, and says what was lost, if the counter is gone', async () => {
    for (const state of ['open', 'a marker'] as const) {
      for (const actual of [0, 10, reserved, 70]) {
        const { total, settle } = await lose('counter', state);
        const { outcome, lost } = await settle(actual);
        expect([outcome, lost]).toEqual(['settled', reserved]);
        expect(await total()).toBe(hitsAfter + actual);
      }
    }
  });

  it('takes nothing of what others hold on a counter that was recreated', async () => {
    const { total, settle } = await lose('counter', 'open');
    const stem = `1{lost;run=${runs}}`;
    const counter = reservedCounter({ stem, bound: new FixedWindow(1_000), amount: 100 });
    await submitCall(store, reserveCall({ id: `later-${runs}`, counters: [counter] }));
    expect(await total()).toBe(hitsAfter + 100);
    const { reserved: open } = await settle(0);
    expect(await total()).toBeGreaterThanOrEqual(100);
    expect(open).toBeLessThanOrEqual(await total());
  });

  it('reports no loss if all keys are there', async () => {
    const { settle } = await lose('note', 'open');
    expect(await settle(10)).toMatchObject({ outcome: 'settled', lost: 0, changed: 10 - reserved });
  });

  it('is not recalled without its note, and committed by callers that know its descriptors', async () => {
    const { recall, settle } = await lose('note', 'open');
    expect(await recall()).toBeUndefined();
    expect((await settle(10)).outcome).toBe('settled');
  });
});
