/** What becomes of reservations in Redis when an operator resets their counter. */
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { AlgorithmBound } from '../../limiter/algorithms/algorithm-bound.ts';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { SlidingWindow } from '../../limiter/algorithms/sliding-window.ts';
import { TokenBucket } from '../../limiter/algorithms/token-bucket.ts';
import type { RedisStoreAdmin } from '../../limiter/operate/store-admin/redis-store-admin.ts';
import type { RedisStore } from '../../limiter/stores/redis/redis-store.ts';
import { kindOf } from '../support/bound-kind.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { openRedisStoreAdmin } from '../support/open-store-admin.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { bookProblems } from '../support/reservation-books.ts';
import {
  lookCall,
  type ReservedCounter,
  reserveCall,
  reservedCounter,
  settleCall,
  submitCall,
  type TestCall,
} from '../support/reservation-calls.ts';

const year = 31_536_000_000_000;
const bounds: [name: string, bound: AlgorithmBound][] = [
  ['a fixed window', new FixedWindow(1_000)],
  ['a sliding window', new SlidingWindow({ requests: 1_000, windowMicros: year })],
  ['a bucket', new TokenBucket({ requests: 1_000, burst: 1_000, windowMicros: year })],
];

describeWithEachRedis('reservations on a counter that is reset', (path) => {
  let server: RedisServer;
  let client: Redis;
  let store: RedisStore;
  let admin: RedisStoreAdmin;
  let runs = 0;

  beforeAll(async () => {
    server = await startRedis({ path, lifetimes: { jitterSeconds: 10 ** 9 } });
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
    store = await openRedisStore({ url: `127.0.0.1:${server.port}` });
    admin = openRedisStoreAdmin(`127.0.0.1:${server.port}`);
  });
  afterAll(async () => {
    await admin?.close();
    await store?.close();
    client.disconnect();
    await server.stop();
  });

  /** Calls about a new counter, and its reset. */
  function counterOf(bound: AlgorithmBound = new FixedWindow(1_000)) {
    runs += 1;
    const stem = `1{reset;run=${runs}}`;
    const key = kindOf(bound) === 'fixed' ? undefined : `${stem}31536000:${kindOf(bound)}`;
    const counter = (given: Partial<ReservedCounter> = {}) =>
      reservedCounter({ stem, bound, ...(key === undefined ? {} : { key }), ...given });
    const { key: counterKey } = counter();
    return {
      reserve: (id: string, amount: number, given: Partial<TestCall & ReservedCounter> = {}) => {
        const { isMarker = false, ...terms } = given;
        return submitCall(store, reserveCall({ id, isMarker, counters: [counter({ amount, ...terms })] }));
      },
      commit: (id: string, amount: number | undefined, given: Partial<TestCall & { key: string }> = {}) => {
        const { key: own, ...terms } = given;
        const counters = [counter({ amount, ...(own === undefined ? {} : { key: own }) })];
        return submitCall(store, settleCall({ id, counters, ...terms }));
      },
      look: async () => {
        const { used, reserved, open } = (await submitCall(store, lookCall([counter()]))).counters[0]!;
        return [used, reserved, open];
      },
      reset: () => admin.remove([{ key: counterKey, perSecond: false }]),
      stem,
    };
  }

  const expectSoundBooks = async () => {
    const options = { recordMs: 600_000, nowMs: Date.now(), isClockOfServer: true };
    expect(await bookProblems(client, options)).toEqual([]);
  };

  it.each(bounds)('charge on %s what was used, once, and give nothing back', async (_, bound) => {
    const { reserve, commit, look, reset } = counterOf(bound);
    for (const id of ['less', 'more', 'same', 'none']) await reserve(`${id}-${runs}`, 100);
    await reserve(`before-${runs}`, 100);
    await commit(`before-${runs}`, 30);
    expect(await reset()).toBe(1);
    expect(await look()).toEqual([0, 0, 0]);
    // Reservations that come after it are of the new counter.
    await reserve(`after-${runs}`, 200);
    expect(await look()).toEqual([200, 200, 1]);
    const settled = { outcome: 'settled', amount: 100 };
    for (const [id, actual, total] of [
      ['less', 40, 240],
      ['more', 150, 390],
      ['same', undefined, 490],
      ['none', 0, 490],
    ] as const) {
      const charged = actual ?? 100;
      const call = await commit(`${id}-${runs}`, actual);
      expect(call).toMatchObject({ ...settled, charged, counters: [{ lost: 100, changed: charged }] });
      expect(await look()).toEqual([total, 200, 1]);
      expect((await commit(`${id}-${runs}`, actual)).outcome).toBe('repeated');
    }
    expect((await commit(`before-${runs}`, 30)).outcome).toBe('repeated');
    await commit(`after-${runs}`, 10);
    expect(await look()).toEqual([300, 0, 0]);
    await expectSoundBooks();
  });

  it('charge by markers what was used', async () => {
    const { reserve, commit, look, reset } = counterOf();
    for (let i = 0; i < 2; i += 1) await reserve('marker', 100, { isMarker: true });
    await reset();
    await reserve('marker', 50, { isMarker: true });
    const terms = { isMarker: true, unknown: 'charge' } as const;
    for (const actual of [30, 20, 10]) await commit('marker', actual, terms);
    expect(await look()).toEqual([60, 0, 0]);
    await expectSoundBooks();
  });

  it('are those of other windows no more than before', async () => {
    const { reserve, commit, look, reset, stem } = counterOf();
    await reserve('today', 100);
    await reserve('tomorrow', 300, { key: `${stem}3600:3600` });
    await reset();
    const call = await commit('tomorrow', 200, { key: `${stem}3600:3600` });
    expect(call).toMatchObject({ outcome: 'settled', counters: [{ lost: 0, changed: -100, used: 200 }] });
    expect(await look()).toEqual([0, 0, 0]);
    await expectSoundBooks();
  });

  it('leave nothing charged if they are made meanwhile', async () => {
    const { reserve, commit, look, reset } = counterOf(new FixedWindow(1_000_000));
    let made = 0;
    let isReset = false;
    const makeSome = async () => {
      while (!isReset) await reserve(`meanwhile-${made++}`, 10);
    };
    const making = [makeSome(), makeSome()];
    for (let i = 0; i < 20; i += 1) await reset();
    isReset = true;
    await Promise.all(making);
    expect(made).toBeGreaterThan(20);
    for (let i = 0; i < made; i += 1) await commit(`meanwhile-${i}`, 0);
    expect(await look()).toEqual([0, 0, 0]);
    await expectSoundBooks();
  });

  it('are any number', async () => {
    const { reserve, look, reset } = counterOf(new FixedWindow(10_000));
    await Promise.all(Array.from({ length: 1_203 }, (_, i) => reserve(`many-${i}`, 1)));
    await reset();
    expect(await look()).toEqual([0, 0, 0]);
    await expectSoundBooks();
  });
});
