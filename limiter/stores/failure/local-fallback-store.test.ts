import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { counterOp, type GivenOperation, submit } from '../../../test/support/counter-ops.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { openMemoryStore } from '../../../test/support/open-memory-store.ts';
import { FixedWindow } from '../../algorithms/fixed-window.ts';
import { TokenBucket } from '../../algorithms/token-bucket.ts';
import { callAbandoned, failOp, type Operation } from '../operation.ts';
import type { Store, SubmitOptions } from '../store.ts';
import { StoreError } from '../store-error.ts';
import {
  deliveryIntervalMs,
  keysPerDelivery,
  LocalFallbackStore,
  type LocalFallbackStoreOptions,
  lastDeliveriesMs,
} from './local-fallback-store.ts';

type Mode = 'up' | 'down' | 'reply lost' | 'request lost';

/** Counts like any store while `up`; otherwise fails, with or without counting first. */
class FailingStore implements Store {
  mode: Mode = 'up';
  readonly counters = openMemoryStore();
  /** Keys that fail while it is `up`. */
  failing: RegExp | undefined;
  /** Counts, but answers only at `release`. */
  holds = false;
  readonly #held: (() => void)[] = [];
  /** The keys of each request that reached the store. */
  readonly asked: string[][] = [];

  submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    const taken = ops.filter(({ key }) => this.failing?.test(key) !== true);
    if (this.mode === 'up' || this.mode === 'reply lost') this.counters.submit(taken, options, () => {});
    if (this.mode === 'up') this.asked.push(ops.map(({ key }) => key));
    const notCounted = this.mode === 'down';
    const error = new StoreError(notCounted ? 'away' : 'lost', { transient: true, notCounted });
    const away = new StoreError('away', { transient: true, notCounted: true });
    for (const op of ops) if (!taken.includes(op)) failOp(op, away);
    if (this.mode !== 'up') for (const op of ops) failOp(op, error);
    if (this.holds) this.#held.push(done);
    else done();
  }

  release(): void {
    this.holds = false;
    for (const done of this.#held.splice(0)) done();
  }

  total(key: string): number {
    const op = counterOp({ key, hits: 0 });
    this.counters.submit([op], { stopWhenOver: false }, () => {});
    return op.after;
  }

  ping = () => Promise.resolve();
  close = () => Promise.resolve();
}

function setUp(options: Partial<LocalFallbackStoreOptions> = {}) {
  const inner = new FailingStore();
  const timers = new ManualTimers();
  const clock = new ManualClock();
  const reported: { counters: number; reason: string }[] = [];
  const store = new LocalFallbackStore({
    store: inner,
    local: openMemoryStore({ clock }),
    clock,
    timers,
    maxOwedKeys: 1000,
    maxOwedBytes: 1_000_000,
    onUndelivered: (undelivered) => reported.push(undelivered),
    ...options,
  });
  return { inner, timers, clock, store, reported };
}

const ask = async (store: Store, given: GivenOperation) => {
  const [op] = await submit(store, [counterOp(given)]);
  return op?.error?.message ?? op?.after;
};

/** Runs deliveries until none is due and none continues with the next batch. */
async function deliverAll({ timers, store }: ReturnType<typeof setUp>): Promise<void> {
  for (let round = 0; round < 100 && (store.owedCounters > 0 || timers.size > 0); round += 1) {
    timers.advance(deliveryIntervalMs);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe('LocalFallbackStore', () => {
  it('continues from the last known total, and adds what it counted when the store is back', async () => {
    const parts = setUp();
    const { inner, store, timers } = parts;
    expect(await ask(store, { key: 'a', hits: 5 })).toBe(5);
    inner.mode = 'down';
    expect([await ask(store, { key: 'a', hits: 2 }), await ask(store, { key: 'b' })]).toEqual([7, 1]);
    expect([store.owedCounters, store.countedLocally]).toEqual([2, 2]);
    timers.advance(10 * deliveryIntervalMs);
    expect([inner.total('a'), store.owedCounters]).toEqual([5, 2]);
    inner.mode = 'up';
    await deliverAll(parts);
    expect([inner.total('a'), inner.total('b'), store.owedCounters, store.undelivered]).toEqual([7, 1, 0, 0]);
    expect(timers.size).toBe(0);
  });

  it('delivers a refund alone as one operation', async () => {
    const parts = setUp();
    const { inner, store } = parts;
    await ask(store, { key: 'a', hits: 5 });
    inner.mode = 'down';
    await ask(store, { key: 'a', hits: 2, negative: true });
    inner.mode = 'up';
    await deliverAll(parts);
    expect([inner.total('a'), inner.asked.at(-1)]).toEqual([3, ['a']]);
  });

  it('owes nothing of before a reset, and continues from nothing', async () => {
    const parts = setUp();
    const { inner, store, timers } = parts;
    await ask(store, { key: 'a', hits: 5 });
    await ask(store, { key: 'b', hits: 5 });
    inner.mode = 'down';
    await ask(store, { key: 'a', hits: 2 });
    await ask(store, { key: 'b', hits: 2 });
    inner.counters.remove(['a']);
    store.forget(['a']);
    expect(store.owedCounters).toBe(1);
    expect([await ask(store, { key: 'a' }), await ask(store, { key: 'b' })]).toEqual([1, 8]);
    // The delivery is in flight while the counter is reset again, and fails.
    inner.holds = true;
    timers.advance(deliveryIntervalMs);
    store.forget(['a']);
    inner.release();
    expect(store.owedCounters).toBe(1);
    inner.mode = 'up';
    await deliverAll(parts);
    expect([inner.total('a'), inner.total('b'), store.undelivered]).toEqual([0, 8, 0]);
  });

  it('learns nothing from a reply to what the store was asked before a reset', async () => {
    const { inner, store } = setUp();
    await ask(store, { key: 'b', hits: 3 });
    inner.holds = true;
    const asked = ask(store, { key: 'a', hits: 5 });
    store.forget(['a']);
    inner.release();
    expect(await asked).toBe(5);
    inner.mode = 'down';
    expect([await ask(store, { key: 'a' }), await ask(store, { key: 'b' })]).toEqual([1, 4]);
    store.forget(undefined);
    expect([await ask(store, { key: 'a' }), store.owedCounters]).toEqual([2, 2]);
  });

  it('lets pass what a bucket and a window of one rule still have room for, and owes none of it', async () => {
    for (const stopWhenOver of [false, true]) {
      const { inner, store, clock } = setUp();
      const bucket = new TokenBucket({ requests: 60, burst: 3, windowMicros: 60_000_000 });
      const window = new FixedWindow(10);
      const take = async () => {
        const ops = [bucket, window].map((bound, i) =>
          counterOp({ key: `k${i}`, bound, groupSize: 2, limit: bound.capacity }),
        );
        return (await submit(store, ops, { stopWhenOver })).map(
          ({ error, over, after }) => error ?? [over, after],
        );
      };
      expect(await take()).toEqual([
        [false, 1],
        [false, 1],
      ]);
      inner.mode = 'down';
      await take();
      await take();
      expect(await take()).toEqual([
        [true, 3],
        [false, 3],
      ]);
      clock.ms += 1000;
      expect(await take()).toEqual([
        [false, 3],
        [false, 4],
      ]);
      expect([store.owedCounters, store.undelivered]).toEqual([0, 0]);
    }
  });

  it('counts only the errors that it is for, and continues from no total of the store', async () => {
    const { inner, store } = setUp({ answersOnly: ({ message }) => message === 'away' });
    const bucket = new TokenBucket({ requests: 60, burst: 3, windowMicros: 60_000_000 });
    const take = () => ask(store, { key: 'a', bound: bucket, limit: 3 });
    await take();
    inner.mode = 'request lost';
    expect([await take(), store.countedLocally]).toEqual(['lost', 0]);
    inner.mode = 'down';
    expect([await take(), store.countedLocally]).toEqual([1, 1]);
    expect([await ask(store, { key: 'b' }), store.countedLocally]).toEqual(['away', 1]);
    await submit(store, [counterOp({ key: 'b' }), counterOp({ key: 'a', bound: bucket, limit: 3 })]);
    expect(store.countedLocally).toBe(2);
  });

  it.each([
    ['all errors', undefined, 3],
    ['some errors', () => true, 1],
  ])('continues from a corrected total, if it is for %s', async (_, answersOnly, total) => {
    const { inner, store } = setUp({ answersOnly });
    const bound = new FixedWindow(10);
    const op = counterOp({ key: 'a', hits: 5, bound });
    await submit(store, [op]);
    op.after = 2;
    store.corrected([op]);
    inner.mode = 'down';
    expect(await ask(store, { key: 'a', bound })).toBe(total);
  });

  it('counts and owes nothing that was left out, and learns nothing of it', async () => {
    const { inner, store } = setUp();
    await ask(store, { key: 'a', hits: 5 });
    inner.submit = (ops, _, done) => {
      for (const op of ops) failOp(op, callAbandoned);
      done();
    };
    expect(await ask(store, { key: 'a' })).toBe(callAbandoned.message);
    expect([store.owedCounters, store.countedLocally]).toEqual([0, 0]);
    inner.mode = 'down';
    inner.submit = FailingStore.prototype.submit;
    expect(await ask(store, { key: 'a' })).toBe(6);
  });

  it('answers with what is owed added, until it is delivered', async () => {
    const { inner, store } = setUp();
    inner.mode = 'down';
    await ask(store, { key: 'a', hits: 4 });
    inner.mode = 'up';
    expect([await ask(store, { key: 'a' }), inner.total('a')]).toEqual([5, 1]);
  });

  it('counts hits whose reply was lost for the caller, and never sends them again', async () => {
    const parts = setUp();
    const { inner, store } = parts;
    inner.mode = 'reply lost';
    expect(await ask(store, { key: 'a' })).toBe(1);
    inner.mode = 'up';
    await deliverAll(parts);
    expect([inner.total('a'), inner.asked]).toEqual([1, []]);
  });

  it('gives up a delivery whose reply was lost, and says so', async () => {
    const parts = setUp();
    const { inner, store, reported } = parts;
    inner.mode = 'down';
    await ask(store, { key: 'a' });
    inner.mode = 'reply lost';
    await deliverAll(parts);
    inner.mode = 'up';
    await deliverAll(parts);
    expect(inner.total('a')).toBe(1);
    expect([reported, store.undelivered]).toEqual([[{ counters: 1, reason: 'lost' }], 1]);
  });

  it('delivers in batches, each after the one before', async () => {
    const parts = setUp();
    const { inner, store } = parts;
    inner.mode = 'down';
    const keys = Array.from({ length: 2 * keysPerDelivery + 1 }, (_, i) => `k${i}`);
    for (const key of keys) await ask(store, { key });
    inner.mode = 'up';
    await deliverAll(parts);
    expect(inner.asked.map((batch) => batch.length)).toEqual([keysPerDelivery, keysPerDelivery, 1]);
    expect(inner.asked.flat()).toEqual(keys);
  });

  it('delivers nothing to a counter that has ended', async () => {
    const parts = setUp();
    const { inner, store, clock } = parts;
    inner.mode = 'down';
    await ask(store, { key: 'a', ttlSeconds: 10 });
    clock.ms += 10_000;
    inner.mode = 'up';
    await deliverAll(parts);
    expect([inner.asked, store.owedCounters]).toEqual([[], 0]);
  });

  it('owes no more keys and bytes than it may, and counts what it drops', async () => {
    for (const bounds of [{ maxOwedKeys: 2 }, { maxOwedBytes: 410 }]) {
      const { inner, store } = setUp(bounds);
      inner.mode = 'down';
      for (const key of ['a', 'b', 'c', 'a']) await ask(store, { key });
      expect([store.owedCounters, store.undelivered]).toEqual([2, 1]);
    }
  });

  it('holds hits back when another of the request is over', async () => {
    const { inner, store } = setUp();
    await ask(store, { key: 'over', hits: 3 });
    inner.mode = 'down';
    const ops = [counterOp({ key: 'over', limit: 3 }), counterOp({ key: 'other' })];
    await submit(store, ops, { stopWhenOver: true });
    expect(ops.map(({ after, applied }) => [after, applied])).toEqual([
      [4, 1],
      [0, 0],
    ]);
    expect(store.owedCounters).toBe(1);
  });

  it('judges what it counts beside what the store counted, by the totals of both', async () => {
    const { inner, store } = setUp();
    const limit = 1;
    const quotas = () => [
      counterOp({ key: 'lost quota', limit, holdsBack: 'together' }),
      counterOp({ key: 'quota', limit, holdsBack: 'together' }),
      counterOp({ key: 'lost other', limit: 9 }),
    ];
    for (const [quota, applied] of [
      ['with room', [1, 1]],
      ['over', [1, 0]],
    ] as const) {
      await ask(store, { key: 'lost quota', hits: 1 });
      if (quota === 'over') await ask(store, { key: 'quota', hits: 1 });
      inner.failing = /^lost/;
      const ops = quotas();
      await submit(store, ops, { stopWhenOver: true });
      inner.failing = undefined;
      expect([quota, ops[0]?.applied, ops[2]?.applied]).toEqual([quota, ...applied]);
    }
  });

  it('says what it still owed when it is closed', async () => {
    const { inner, store, reported, timers } = setUp();
    inner.mode = 'down';
    await ask(store, { key: 'a' });
    const closed = store.close();
    expect(await ask(store, { key: 'a' })).toBe('away');
    timers.advance(lastDeliveriesMs);
    await closed;
    expect([reported, timers.size]).toEqual([
      [{ counters: 1, reason: 'the limiter ended before the store accepted them' }],
      0,
    ]);
  });

  it('delivers what is still due when the store returns while it closes, or a moment later', async () => {
    const { inner, store, reported, timers } = setUp();
    inner.mode = 'down';
    await ask(store, { key: 'a', hits: 3 });
    const closed = store.close();
    timers.advance(deliveryIntervalMs);
    inner.mode = 'up';
    timers.advance(deliveryIntervalMs);
    await closed;
    expect([inner.total('a'), reported, timers.size]).toEqual([3, [], 0]);
  });

  it('adds what is on its way to answers that the store gave before it', async () => {
    const parts = setUp();
    const { store, inner, timers } = parts;
    inner.mode = 'down';
    await ask(store, { key: 'a', hits: 5 });
    inner.mode = 'up';
    inner.holds = true;
    const early = ask(store, { key: 'a' });
    timers.advance(deliveryIntervalMs);
    inner.release();
    expect([await early, inner.total('a'), store.owedCounters]).toEqual([6, 6, 0]);
    inner.mode = 'down';
    expect(await ask(store, { key: 'a' })).toBe(7);
  });

  it('loses and doubles no hit, whatever the store does and when', async () => {
    const key = fc.constantFrom('a', 'b');
    const step = fc.oneof(
      fc.record({ ask: key, hits: fc.nat(5) }),
      fc.record({ mode: fc.constantFrom<Mode>('up', 'down') }),
      fc.constant('deliver' as const),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const parts = setUp();
        const counted = new Map<string, number>();
        for (const one of steps) {
          if (one === 'deliver') {
            parts.timers.advance(deliveryIntervalMs);
            await new Promise((resolve) => setImmediate(resolve));
          } else if ('mode' in one) {
            parts.inner.mode = one.mode;
          } else {
            const total = (counted.get(one.ask) ?? 0) + one.hits;
            counted.set(one.ask, total);
            expect(await ask(parts.store, { key: one.ask, hits: one.hits })).toBe(total);
          }
        }
        parts.inner.mode = 'up';
        await deliverAll(parts);
        for (const [name, total] of counted) expect(parts.inner.total(name)).toBe(total);
        expect(parts.store.undelivered).toBe(0);
      }),
    );
  });

  it('leaves the store between what was surely counted and all that was asked, when replies get lost', async () => {
    const step = fc.record({
      mode: fc.constantFrom<Mode>('up', 'down', 'reply lost', 'request lost'),
      hits: fc.nat(5),
      deliver: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const parts = setUp();
        let sure = 0;
        let all = 0;
        for (const { mode, hits, deliver } of steps) {
          parts.inner.mode = mode;
          await ask(parts.store, { key: 'a', hits });
          all += hits;
          if (mode === 'up') sure += hits;
          if (deliver) parts.timers.advance(deliveryIntervalMs);
        }
        parts.inner.mode = 'up';
        await deliverAll(parts);
        expect(parts.inner.total('a')).toBeGreaterThanOrEqual(sure);
        expect(parts.inner.total('a')).toBeLessThanOrEqual(all);
      }),
    );
  });

  it('takes hits back as if the store had been there', async () => {
    const step = fc.record({ hits: fc.nat(5), negative: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.nat(10), fc.array(step, { maxLength: 20 }), async (first, steps) => {
        const parts = setUp();
        await ask(parts.store, { key: 'a', hits: first });
        parts.inner.mode = 'down';
        let total = first;
        for (const { hits, negative } of steps) {
          total = negative ? Math.max(0, total - hits) : total + hits;
          expect(await ask(parts.store, { key: 'a', hits, negative })).toBe(total);
        }
        parts.inner.mode = 'up';
        await deliverAll(parts);
        expect(parts.inner.total('a')).toBe(total);
      }),
    );
  });
});
