import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { counterOp, submit, totalOf } from '../../../test/support/counter-ops.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { openMemoryStore } from '../../../test/support/open-memory-store.ts';
import type { AlgorithmBound } from '../../algorithms/algorithm-bound.ts';
import { SlidingWindow } from '../../algorithms/sliding-window.ts';
import { TokenBucket } from '../../algorithms/token-bucket.ts';
import type { MemoryStore } from './memory-store.ts';

describe('MemoryStore', () => {
  it('answers before submit returns', () => {
    const op = counterOp({ key: 'a' });
    let answered = false;
    openMemoryStore().submit([op], { stopWhenOver: false }, () => {
      answered = true;
    });
    expect([answered, op.after]).toEqual([true, 1]);
  });

  it('learns no less from a lease than from what was counted since it was taken', async () => {
    const store = openMemoryStore();
    const learn = (after: number, given: object) => store.learn(counterOp({ key: 'a', after, ...given }));
    learn(50, { leased: 9, fromLease: true });
    expect(await totalOf(store, { key: 'a', hits: 0 })).toBe(59);
    learn(70, {});
    learn(51, { leased: 8, fromLease: true });
    expect(await totalOf(store, { key: 'a', hits: 0 })).toBe(70);
    learn(60, {});
    expect(await totalOf(store, { key: 'a', hits: 0 })).toBe(60);
  });

  it('ends a counter with its life, which starts with its first hit', async () => {
    const clock = new ManualClock();
    const store = openMemoryStore({ clock });
    await totalOf(store, { key: 'a', ttlSeconds: 10 });
    clock.ms += 9_999;
    expect(await totalOf(store, { key: 'a', ttlSeconds: 10 })).toBe(2);
    clock.ms += 1;
    expect(await totalOf(store, { key: 'a', ttlSeconds: 10 })).toBe(1);
  });

  it('holds no counter for a look or a refund', async () => {
    const store = openMemoryStore();
    await totalOf(store, { key: 'a', hits: 0 });
    await totalOf(store, { key: 'b', negative: true });
    expect(store.size).toBe(0);
  });

  it('drops the counters nearest to their end when full', async () => {
    const store = openMemoryStore({ maxCounters: 2 });
    await totalOf(store, { key: 'long', ttlSeconds: 3600 });
    await totalOf(store, { key: 'short', ttlSeconds: 60 });
    await totalOf(store, { key: 'new', ttlSeconds: 3600 });
    expect([store.size, store.evicted]).toEqual([2, 1]);
    expect(await totalOf(store, { key: 'long', hits: 0 })).toBe(1);
    expect(await totalOf(store, { key: 'short', hits: 0 })).toBe(0);
  });

  it('reports a size that falls when traffic has ended', async () => {
    const clock = new ManualClock();
    const store = openMemoryStore({ clock });
    for (let i = 0; i < 25_000; i += 1) await totalOf(store, { key: `k${i}`, ttlSeconds: 1 });
    clock.ms += 1000;
    expect([store.size, store.size, store.size]).toEqual([15_000, 5_000, 0]);
  });

  it('drops the counters nearest to their end when their bytes are too many', async () => {
    const store = openMemoryStore({ maxBytes: 2_000 });
    await totalOf(store, { key: 'long'.padEnd(700), ttlSeconds: 3600 });
    await totalOf(store, { key: 'short'.padEnd(700), ttlSeconds: 60 });
    expect(store.bytes).toBeGreaterThan(1_400);
    await totalOf(store, { key: 'new'.padEnd(700), ttlSeconds: 3600 });
    expect([store.size, store.evicted]).toEqual([2, 1]);
    expect(store.bytes).toBeLessThanOrEqual(2_000);
    expect(await totalOf(store, { key: 'long'.padEnd(700), hits: 0 })).toBe(1);
    expect(await totalOf(store, { key: 'short'.padEnd(700), hits: 0 })).toBe(0);
  });

  it('rejects a key that is too long for it, and keeps what it has', async () => {
    const store = openMemoryStore({ maxBytes: 2_000 });
    await totalOf(store, { key: 'a' });
    const [op, other] = await submit(store, [counterOp({ key: 'é'.repeat(1_000) }), counterOp({ key: 'a' })]);
    expect(op?.error?.message).toBe(
      'a counter key of 1000 characters does not fit into the 2000 bytes of the memory store',
    );
    expect([other?.after, other?.error, store.size]).toEqual([2, undefined, 1]);
  });

  it('keeps a counter that took the name of an ended one, whatever has to make room', async () => {
    const clock = new ManualClock();
    const store = openMemoryStore({ clock, maxBytes: 20_000 });
    await totalOf(store, { key: 'a', ttlSeconds: 1 });
    for (let i = 0; i < 100; i += 1) await totalOf(store, { key: `ended-${i}`, ttlSeconds: 1 });
    clock.ms += 1000;
    await totalOf(store, { key: 'a', ttlSeconds: 60 });
    await totalOf(store, { key: 'large'.padEnd(19_500), ttlSeconds: 3600 });
    expect([store.size, await totalOf(store, { key: 'a', hits: 0 })]).toEqual([2, 1]);
  });

  it('finds by its place no counter that had to go, nor that of another store or key', async () => {
    const [store, other] = [openMemoryStore({ maxCounters: 1 }), openMemoryStore()];
    let place: unknown;
    const total = async (of: MemoryStore, key: string) => {
      const op = counterOp({ key, place });
      await submit(of, [op]);
      place = op.counter.place;
      return op.after;
    };
    expect([await total(store, 'a'), await total(store, 'a')]).toEqual([1, 2]);
    expect([await total(other, 'a'), await total(store, 'a')]).toEqual([1, 3]);
    await totalOf(store, { key: 'b' });
    expect(await total(store, 'a')).toBe(1);
    expect(await total(store, 'c')).toBe(1);
  });

  it('does not grow when every second brings new counters', async () => {
    const clock = new ManualClock();
    const store = openMemoryStore({ clock, maxCounters: 200 });
    for (let second = 0; second < 50; second += 1) {
      const ops = Array.from({ length: 100 }, (_, i) => counterOp({ key: `${second}:${i}`, ttlSeconds: 1 }));
      await submit(store, ops);
      clock.ms += 1000;
    }
    expect(store.size).toBe(0);
    expect(store.evicted).toBe(0);
  });

  it('counts as a plain map with ends does, in any order of things', () => {
    const step = fc.record({
      key: fc.constantFrom('a', 'b', 'c'),
      hits: fc.nat(5),
      negative: fc.boolean(),
      ttlSeconds: fc.integer({ min: 1, max: 5 }),
      passMs: fc.constantFrom(0, 1, 999, 1000, 2500),
      // Several plans may share a counter.
      place: fc.constantFrom(undefined, 0, 1),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 50 }), (steps) => {
        const clock = new ManualClock();
        const store = openMemoryStore({ clock });
        const model = new Map<string, { value: number; end: number }>();
        const places = new Map<string, unknown>();
        for (const { key, hits, negative, ttlSeconds, passMs, place } of steps) {
          const its = place === undefined ? undefined : places.get(`${key}${place}`);
          clock.ms += passMs;
          if ((model.get(key)?.end ?? 0) <= clock.ms) model.delete(key);
          const held = model.get(key);
          const after = negative ? Math.max(0, (held?.value ?? 0) - hits) : (held?.value ?? 0) + hits;
          if (held !== undefined) held.value = after;
          else if (!negative && hits > 0) model.set(key, { value: after, end: clock.ms + ttlSeconds * 1000 });
          const op = counterOp({ key, hits, negative, ttlSeconds, place: its });
          store.submit([op], { stopWhenOver: false }, () => {});
          places.set(`${key}${place}`, op.counter.place);
          expect(op.after).toBe(after);
        }
      }),
    );
  });

  it('answers with an error once closed', async () => {
    const store = openMemoryStore();
    await store.close();
    const [op] = await submit(store, [counterOp({ key: 'a' })]);
    expect(op?.error?.message).toBe('memory store is closed');
  });

  describe('counters with bounds', () => {
    const minute = 60_000_000;
    const bucket = new TokenBucket({ requests: 60, burst: 60, windowMicros: minute });
    const sliding = new SlidingWindow({ requests: 60, windowMicros: minute });
    const ask = async (
      store: MemoryStore,
      bound: AlgorithmBound,
      key: string,
      hits: number,
    ): Promise<number> => {
      const given = { key, hits, bound, limit: bound.capacity, ttlSeconds: 120 };
      const [op] = await submit(store, [counterOp(given)]);
      return op!.applied;
    };

    it.each<[string, AlgorithmBound]>([
      ['a bucket', bucket],
      ['a sliding window', sliding],
    ])('of %s live as long as they say anything, however often they are hit', async (_, bound) => {
      const clock = new ManualClock(Date.UTC(2026, 0, 1));
      const store = openMemoryStore({ clock });
      let passed = 0;
      for (let second = 0; second < 600; second++) {
        passed += await ask(store, bound, 'key', 2);
        passed += await ask(store, bound, 'key', 1);
        clock.ms += 1000;
      }
      // The bound is what the rate permits in ten minutes, and one burst.
      expect(passed).toBeLessThanOrEqual(660);
      expect(passed).toBeGreaterThan(560);
      expect(store.size).toBe(1);
      clock.ms += 600_000;
      expect(store.size).toBe(0);
    });

    it('go by their present end when there is no room', async () => {
      const clock = new ManualClock(Date.UTC(2026, 0, 1));
      const store = openMemoryStore({ clock, maxCounters: 2 });
      await ask(store, bucket, 'grown', 1);
      await ask(store, bucket, 'small', 5);
      await ask(store, bucket, 'grown', 59);
      await ask(store, bucket, 'new', 1);
      expect(await ask(store, bucket, 'grown', 5)).toBe(0);
    });

    it('that another store reported live from the last time on', async () => {
      const clock = new ManualClock(Date.UTC(2026, 0, 1));
      const store = openMemoryStore({ clock });
      for (const seconds of [0, 100]) {
        clock.ms += seconds * 1000;
        const held = bucket.take(bucket.stateAt(undefined, clock.ms * 1000), 60);
        store.learn(counterOp({ key: 'key', bound: bucket, after: 60, held, ttlSeconds: 120 }));
      }
      clock.ms += 30_000;
      expect(await ask(store, bucket, 'key', 31)).toBe(0);
      expect(await ask(store, bucket, 'key', 30)).toBe(30);
    });
  });
});
