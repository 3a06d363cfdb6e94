/** What every store of counters does, whatever holds the counters. */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AlgorithmBound } from '../../limiter/algorithms/algorithm-bound.ts';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { SlidingWindow } from '../../limiter/algorithms/sliding-window.ts';
import { TokenBucket } from '../../limiter/algorithms/token-bucket.ts';
import type { Operation } from '../../limiter/stores/operation.ts';
import type { Store } from '../../limiter/stores/store.ts';
import { anyCounter, identityOf, unambiguousKey } from '../support/any-counter.ts';
import { counterOp, type GivenTerms, submit, totalOf } from '../support/counter-ops.ts';
import type { ManualClock } from '../support/manual-clock.ts';
import { caseCount } from '../support/property-cases.ts';
import { BucketModel, CounterModel, type ModelledBound, SlidingModel } from './counter-model.ts';

const max = Number.MAX_SAFE_INTEGER;

/** One request of a random workload; keys are made unique for each run. */
const change = fc.record({
  key: fc.constantFrom('a', 'b', 'c'),
  hits: fc.oneof(
    { weight: 9, arbitrary: fc.nat(4) },
    { weight: 1, arbitrary: fc.nat(3).map((n) => max - n) },
  ),
  negative: fc.boolean(),
  limit: fc.nat(8),
  lookOnly: fc.boolean(),
  holdsBack: fc.constantFrom('alone', 'together', 'never' as const),
});
const requests = fc.array(
  fc.record({
    ops: fc.array(change, { minLength: 1, maxLength: 4 }),
    /** Wait for all answers before the next request, instead of handing it over in the same turn. */
    wait: fc.boolean(),
  }),
  { minLength: 1, maxLength: 12 },
);

const answers = (ops: Operation[]) =>
  ops.map(({ applied, after, over, error }) => ({ applied, after, over, error }));

export interface CounterStoreSuiteOptions {
  /**
   * False: requests that stop when over may all look before one of them counts, when they are under way together.
   * Defaults to true: they are taken one after another.
   */
  stopsInOrder?: boolean;
  /** What it does with ops that have bounds; `none`: it is never given any. Defaults to `counted`. */
  bounds?: 'counted' | 'refused' | 'none';
  /** What the store reads the time from; where the test cannot set it, time hardly moves within the windows. */
  clock?: ManualClock;
}

export function counterStoreSuite(
  open: () => Promise<Store>,
  { stopsInOrder = true, bounds = 'counted', clock }: CounterStoreSuiteOptions = {},
): void {
  let store: Store;
  let runs = 0;
  const suite = randomUUID();
  /** A key that no other test uses, nor another suite on the same server. */
  const fresh = (name = 'key') => `${suite}:${name}:${++runs}`;

  beforeAll(async () => {
    store = await open();
  });
  afterAll(() => store?.close());

  it('answers a ping', () => store.ping());

  it('adds hits and answers with the total', async () => {
    const key = fresh();
    expect(await totalOf(store, { key, hits: 3 })).toBe(3);
    expect(await totalOf(store, { key, hits: 4 })).toBe(7);
  });

  it('looks without counting', async () => {
    const key = fresh();
    expect(await totalOf(store, { key, hits: 0 })).toBe(0);
    expect(await totalOf(store, { key, hits: 5 })).toBe(5);
    expect(await totalOf(store, { key, hits: 0 })).toBe(5);
  });

  it('takes hits back, never below zero', async () => {
    const key = fresh();
    await totalOf(store, { key, hits: 5 });
    expect(await totalOf(store, { key, hits: 2, negative: true })).toBe(3);
    expect(await totalOf(store, { key, hits: 9, negative: true })).toBe(0);
    expect(await totalOf(store, { key, hits: 1 })).toBe(1);
  });

  it('leaves a missing key at zero when hits are taken back', async () => {
    const key = fresh();
    expect(await totalOf(store, { key, hits: 5, negative: true })).toBe(0);
    expect(await totalOf(store, { key, hits: 2 })).toBe(2);
  });

  it('counts a key that comes twice in a request twice, in order', async () => {
    const key = fresh();
    const ops = await submit(store, [counterOp({ key, hits: 2 }), counterOp({ key, hits: 3 })]);
    expect(ops.map((op) => op.after)).toEqual([2, 5]);
  });

  it('answers a request without ops', async () => {
    expect(await submit(store, [])).toEqual([]);
    expect(await submit(store, [], { stopWhenOver: true })).toEqual([]);
  });

  it('says how many hits it applied, and clears old answers', async () => {
    const op = counterOp({ key: fresh(), hits: 3, applied: 7, after: 7 });
    await submit(store, [op]);
    expect(answers([op])).toEqual([{ applied: 3, after: 3, over: false, error: undefined }]);
  });

  it('saturates at 2^53 - 1', async () => {
    const key = fresh();
    expect(await totalOf(store, { key, hits: max - 1 })).toBe(max - 1);
    expect(await totalOf(store, { key, hits: 5 })).toBe(max + 1);
    expect(await totalOf(store, { key, hits: 0 })).toBe(max);
    expect(await totalOf(store, { key, hits: max })).toBe(max + 1);
    expect(await totalOf(store, { key, hits: 3, negative: true })).toBe(max - 3);
    expect(await totalOf(store, { key, hits: max, negative: true })).toBe(0);
  });

  it.each([false, true])(
    'is over a limit of 2^53 - 1, too, if that stops when over: %s',
    async (stopWhenOver) => {
      const key = fresh();
      const isOver = async (hits: number, negative = false) => {
        const [op] = await submit(store, [counterOp({ key, hits, negative, limit: max })], { stopWhenOver });
        expect(op).toMatchObject({ applied: hits, error: undefined });
        return op!.after > op!.counter.capacity;
      };
      for (const hits of [2, max - 5, 3, 0]) expect(await isOver(hits)).toBe(false);
      for (const hits of [1, 1, 7, max]) expect(await isOver(hits)).toBe(true);
      expect(await isOver(2, true)).toBe(false);
      for (const hits of [1, 1]) expect(await isOver(hits)).toBe(false);
      expect(await isOver(1)).toBe(true);
    },
  );

  it('says to each of many callers in one turn whether it is over a limit of 2^53 - 1', async () => {
    const key = fresh();
    await totalOf(store, { key, hits: max - 10 });
    const all = await Promise.all(
      Array.from({ length: 8 }, () => submit(store, [counterOp({ key, hits: 3, limit: max })])),
    );
    expect(all.map(([op]) => op!.after > max)).toEqual([false, false, false, true, true, true, true, true]);
  });

  it('counts a request of 1,300 keys', async () => {
    const prefix = fresh('large');
    const newOps = () =>
      Array.from({ length: 1300 }, (_, i) => counterOp({ key: `${prefix}:${i}`, hits: i + 1 }));
    await submit(store, newOps());
    const ops = await submit(store, newOps());
    expect(ops.map((op) => op.after)).toEqual(ops.map((_, i) => 2 * (i + 1)));
  });

  it('gives each of many callers in one turn a total of its own', async () => {
    const key = fresh();
    const all = await Promise.all(Array.from({ length: 2000 }, () => submit(store, [counterOp({ key })])));
    expect(all.map(([op]) => op?.after)).toEqual(all.map((_, i) => i + 1));
  });

  it('keeps apart all counters with unambiguous keys', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyCounter, { minLength: 1, maxLength: 12 }), async (counters) => {
        // All of them are in the longest prefix that keys may have.
        const prefix = `${suite}:${++runs}:`.padEnd(64, 'p');
        const before = new Map<string, number>();
        for (const [index, counter] of counters.entries()) {
          const hits = 2 ** index;
          const expected = (before.get(identityOf(counter)) ?? 0) + hits;
          before.set(identityOf(counter), expected);
          expect(await totalOf(store, { key: unambiguousKey(counter, prefix), hits })).toBe(expected);
        }
      }),
      { numRuns: caseCount(30) },
    );
  });

  describe('with any workload', () => {
    for (const stopWhenOver of [false, true]) {
      it(`answers as if every request had come alone, stop when over ${stopWhenOver}`, async () => {
        await fc.assert(
          fc.asyncProperty(requests, async (list) => {
            const prefix = fresh('work');
            const model = new CounterModel();
            const pending: Promise<Operation[]>[] = [];
            const expected: unknown[] = [];
            for (const { ops, wait } of list) {
              const prefixed = ops.map((given) => counterOp({ ...given, key: `${prefix}:${given.key}` }));
              expected.push(model.submit(prefixed, stopWhenOver));
              pending.push(submit(store, prefixed, { stopWhenOver }));
              if (wait || (stopWhenOver && !stopsInOrder)) await Promise.all(pending);
            }
            expect((await Promise.all(pending)).map(answers)).toEqual(expected);
          }),
          { numRuns: caseCount(150) },
        );
      });
    }
  });

  describe('stop when over', () => {
    const stop = { stopWhenOver: true };

    it('counts every op when none would be over', async () => {
      const [a, b] = [fresh(), fresh()];
      const ops = await submit(
        store,
        [counterOp({ key: a, limit: 1 }), counterOp({ key: b, limit: 1 })],
        stop,
      );
      expect(ops.map((op) => [op.applied, op.after])).toEqual([
        [1, 1],
        [1, 1],
      ]);
    });

    it('counts only the op that would be over', async () => {
      const [full, free] = [fresh(), fresh()];
      await totalOf(store, { key: full, hits: 2 });
      await totalOf(store, { key: free, hits: 5 });
      const request = [
        counterOp({ key: free, hits: 3, limit: 10 }),
        counterOp({ key: full, limit: 2 }),
        counterOp({ key: fresh(), limit: 10 }),
      ];
      const ops = await submit(store, request, stop);
      expect(ops.map((op) => [op.applied, op.after])).toEqual([
        [0, 5],
        [1, 3],
        [0, 0],
      ]);
    });

    it('counts all when the exceeded limits hold nothing back, or when only some of those that do so together are exceeded', async () => {
      const [over, quota, spare, free] = [fresh(), fresh(), fresh(), fresh()];
      const request = () => [
        counterOp({ key: over, limit: 0, holdsBack: 'never' }),
        counterOp({ key: quota, limit: 0, holdsBack: 'together' }),
        counterOp({ key: spare, limit: 1, holdsBack: 'together' }),
        counterOp({ key: free, limit: 9 }),
      ];
      const applied = async () => (await submit(store, request(), stop)).map((op) => op.applied);
      expect(await applied()).toEqual([1, 1, 1, 1]);
      expect(await applied()).toEqual([1, 1, 1, 0]);
      expect(await applied()).toEqual([1, 1, 1, 0]);
    });

    it('still takes back hits when another op is over', async () => {
      const [full, refunded] = [fresh(), fresh()];
      await totalOf(store, { key: refunded, hits: 5 });
      const request = [
        counterOp({ key: full, hits: 2, limit: 1 }),
        counterOp({ key: refunded, hits: 3, negative: true, limit: 1, lookOnly: true }),
      ];
      const ops = await submit(store, request, stop);
      expect(ops.map((op) => [op.applied, op.after])).toEqual([
        [2, 2],
        [3, 2],
      ]);
    });

    it('looks only if the caller says so', async () => {
      const key = fresh();
      await totalOf(store, { key, hits: 4 });
      const [op] = await submit(store, [counterOp({ key, hits: 3, limit: 1, lookOnly: true })], stop);
      expect([op?.applied, op?.after]).toEqual([0, 4]);
    });

    it('judges a key that comes twice by its total before the request', async () => {
      const key = fresh();
      await totalOf(store, { key, hits: 9 });
      const request = [counterOp({ key, limit: 10 }), counterOp({ key, limit: 10 })];
      expect((await submit(store, request, stop)).map((op) => op.after)).toEqual([10, 11]);
    });

    const ordered = stopsInOrder ? it : undefined;
    ordered?.('takes whole requests in the order they came, though they come in one turn', async () => {
      const [shared, own] = [fresh(), fresh()];
      const request = () => [counterOp({ key: shared, limit: 3 }), counterOp({ key: own, limit: 100 })];
      const all = await Promise.all(Array.from({ length: 5 }, () => submit(store, request(), stop)));
      expect(all.map((ops) => ops.map((op) => op.after))).toEqual([
        [1, 1],
        [2, 2],
        [3, 3],
        [4, 3],
        [5, 3],
      ]);
    });

    it('does the same for a request of 1,300 keys', async () => {
      const prefix = fresh('large');
      const full = fresh();
      await totalOf(store, { key: full });
      const request = Array.from({ length: 1299 }, (_, i) => counterOp({ key: `${prefix}:${i}` }));
      await submit(store, request, stop);
      const ops = await submit(store, [...request, counterOp({ key: full, limit: 1 })], stop);
      expect(new Set(ops.map((op) => op.after))).toEqual(new Set([1, 2]));
      expect(ops.map((op) => op.applied)).toEqual([...request.map(() => 0), 1]);
    });
  });

  if (bounds === 'counted')
    describe('with bounds', () => boundsSuite({ store: () => store, fresh, stopsInOrder, clock }));

  const refusing = bounds === 'refused' ? it : undefined;
  refusing?.('refuses ops with bounds, each time, and counts the others', async () => {
    const bound = new FixedWindow(9);
    for (const stopWhenOver of [false, true]) {
      const [plain, tag] = [fresh(), `{${fresh()}}`];
      const request = () => [
        counterOp({ key: `${tag} 1`, bound, groupSize: 2 }),
        counterOp({ key: `${tag} 2`, bound, groupSize: 2 }),
        counterOp({ key: plain, limit: 1 }),
      ];
      for (const after of [1, 2]) {
        const ops = await submit(store, request(), { stopWhenOver });
        for (const op of ops.slice(0, 2)) {
          expect(op.error).toMatchObject({ transient: false, notCounted: true, noAnswer: true });
          expect(op.error?.message).toMatch(
            /^this Redis runs no scripts, which are necessary for limits with .* \(REDIS_SCRIPTS\)$/,
          );
        }
        expect([ops[2]?.after, ops[2]?.error]).toEqual([after, undefined]);
      }
      expect(await totalOf(store, { key: `${tag} 1`, hits: 0 })).toBe(0);
    }
  });
}

/** Windows so long that no test sees one end, or short ones of a clock that the test sets. */
function boundsOf(windowMicros: number) {
  const sliding = { requests: 6, windowMicros };
  const bucket = { requests: 3, burst: 5, windowMicros };
  const quick = { requests: 40, burst: 2, windowMicros };
  const bound = {
    s: new SlidingWindow(sliding),
    u: new TokenBucket(bucket),
    w: new FixedWindow(7),
    y: new TokenBucket(quick),
  };
  const newBucket = (given: typeof bucket) => ({
    newModel: () => new BucketModel(given.requests, given.burst, windowMicros),
    capacity: given.burst,
  });
  const modelled = new Map<AlgorithmBound | undefined, ModelledBound>([
    [bound.s, { newModel: () => new SlidingModel(sliding.requests, windowMicros), capacity: 6 }],
    [bound.u, newBucket(bucket)],
    [bound.y, newBucket(quick)],
  ]);
  return { bound, modelled };
}

interface BoundsSuiteOptions {
  store: () => Store;
  fresh: (name?: string) => string;
  stopsInOrder: boolean;
  clock: ManualClock | undefined;
}

function boundsSuite({ store, fresh, stopsInOrder, clock }: BoundsSuiteOptions): void {
  const { bound, modelled } = boundsOf(clock === undefined ? 315_360_000_000_000 : 10_000_000);
  const hour = 3_600_000_000;

  /**
   * Ops of one group, by the names of their keys, all under one hash tag. A name in capitals is a plain one's, with few
   * hits: a total beyond 2^53 - 1 is not taken back in one step everywhere.
   */
  function groupOf(tag: string, names: string, given: GivenTerms): Operation[] {
    return [...names].map((name) => {
      const key = `{${tag}}:${name.toLowerCase()}`;
      const own = bound[name as keyof typeof bound] as AlgorithmBound | undefined;
      const limit = own?.capacity ?? 7;
      const hits = own === undefined ? (given.hits ?? 1) % 8 : (given.hits ?? 1);
      const groupSize = names.length;
      return counterOp({ ...given, key, hits, ttlSeconds: 1_000_000, limit, bound: own, groupSize });
    });
  }

  for (const stopWhenOver of [false, true]) {
    const group = fc.record({
      // A plain window and one of several limits may be one counter, which stop-when-over in two steps need not order.
      names: fc.constantFrom('A', 'B', 's', 's', 'u', 'u', 'wy', 'su', 'ws', 'wuy', stopWhenOver ? 'C' : 'W'),
      hits: fc.oneof(
        { weight: 19, arbitrary: fc.nat(4) },
        { weight: 1, arbitrary: fc.nat(3).map((n) => max - n) },
      ),
      negative: fc.oneof(
        { weight: 3, arbitrary: fc.constant(false) },
        { weight: 1, arbitrary: fc.constant(true) },
      ),
      lookOnly: fc.oneof(
        { weight: 3, arbitrary: fc.constant(false) },
        { weight: 1, arbitrary: fc.constant(true) },
      ),
      holdsBack: fc.constantFrom('alone', 'together', 'never' as const),
    });
    const workload = fc.array(
      fc.record({
        groups: fc.array(group, { minLength: 1, maxLength: 4 }),
        wait: fc.boolean(),
        /** How often it comes, in one turn. */
        times: fc.integer({ min: 1, max: 3 }),
        laterMs: fc.oneof(fc.constant(0), fc.nat(3_000), fc.nat(25_000)),
      }),
      { minLength: 1, maxLength: 12 },
    );

    it(`answers as if every request had come alone, stop when over ${stopWhenOver}`, async () => {
      // A script that a server does not know yet is sent again, behind other calls; keys of many slots reach all servers.
      const everywhere = Array.from({ length: 50 }, () => fresh());
      for (const names of ['s', 'A']) {
        const ops = everywhere.flatMap((tag) => groupOf(tag, names, { negative: true }));
        await submit(store(), ops, { stopWhenOver });
      }
      await fc.assert(
        fc.asyncProperty(workload, async (list) => {
          const tag = fresh('bounds');
          const model = new CounterModel(modelled);
          const pending: Promise<Operation[]>[] = [];
          const expected: unknown[] = [];
          if (clock !== undefined) clock.ms = 1_795_348_800_123;
          for (const { groups, wait, times, laterMs } of list) {
            if (clock !== undefined) clock.ms += laterMs;
            for (let time = 0; time < times; time += 1) {
              const ops = groups.flatMap(({ names, ...given }) => groupOf(tag, names, given));
              expected.push(model.submit(ops, stopWhenOver, (clock?.ms ?? 0) * 1000));
              pending.push(submit(store(), ops, { stopWhenOver }));
              if (wait || (stopWhenOver && !stopsInOrder)) await Promise.all(pending);
            }
          }
          expect((await Promise.all(pending)).map(answers)).toEqual(expected);
        }),
        { numRuns: caseCount(150) },
      );
    });
  }

  it('lets just as many callers of one turn pass as there is room for', async () => {
    const key = fresh();
    const tokens = new TokenBucket({ requests: 1, burst: 700, windowMicros: 24 * hour });
    const one = () => submit(store(), [counterOp({ key, limit: 700, bound: tokens })]);
    const all = (await Promise.all(Array.from({ length: 2000 }, one))).flat();
    expect(all.map((op) => op.applied)).toEqual(all.map((_, i) => (i < 700 ? 1 : 0)));
    expect(all.map((op) => op.after)).toEqual(all.map((_, i) => Math.min(700, i + 1)));
    expect(all.map((op) => op.over)).toEqual(all.map((_, i) => i >= 700));
  });

  it('counts a request of 300 groups, whose keys one call does not take', async () => {
    const tags = Array.from({ length: 300 }, () => fresh('large'));
    for (const stopWhenOver of [false, true]) {
      const ops = tags.flatMap((tag) => groupOf(tag, 'suw', {}));
      await submit(store(), ops, { stopWhenOver });
      expect(new Set(ops.map(({ applied, after }) => `${applied} ${after}`))).toEqual(
        new Set([stopWhenOver ? '1 2' : '1 1']),
      );
    }
  });

  it('says how long until one hit passes if none is left, and else until nothing is used', async () => {
    const key = fresh();
    const tokens = new TokenBucket({ requests: 1, burst: 3, windowMicros: hour });
    const take = async (hits: number) =>
      (await submit(store(), [counterOp({ key, hits, limit: 3, bound: tokens })]))[0]!;
    const waits = [await take(1), await take(1), await take(1), await take(2)].map((op) => op.waitMicros);
    for (const [i, hours] of [1, 2, 1, 1].entries()) {
      expect(waits[i]).toBeLessThanOrEqual(hours * hour);
      expect(waits[i]).toBeGreaterThan(hours * hour - 60_000_000);
    }
  });

  it('continues with the total of a plain window that becomes one of several limits', async () => {
    const tag = fresh();
    const [plain] = await submit(store(), groupOf(tag, 'W', { hits: 5 }));
    const [window] = await submit(store(), groupOf(tag, 'ws', { hits: 2 }));
    const [, other] = await submit(store(), groupOf(tag, 'ws', { hits: 1 }));
    const [again] = await submit(store(), groupOf(tag, 'W', { hits: 1 }));
    expect([plain?.after, window?.after, other?.after, again?.after]).toEqual([5, 7, 2, 8]);
  });
}

/** Once closed, a store answers with an error; needs a store of its own. */
export function closedStoreSuite(open: () => Promise<Store>): void {
  it('answers every op once when it is closed, and with an error from then on', async () => {
    const store = await open();
    const underWay = submit(store, [counterOp({ key: 'closing' })]);
    await store.close();
    const [op] = await underWay;
    expect(op?.error !== undefined || op?.after === 1).toBe(true);
    const [late] = await submit(store, [counterOp({ key: 'closing' })]);
    expect(late?.error?.message).toMatch(/ store is closed$/);
    expect(late?.error?.transient).toBe(false);
  });
}
