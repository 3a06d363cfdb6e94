import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isExactBucket } from '../../rules/algorithms/token-bucket.ts';
import { type BoundModel, BucketModel, SlidingModel } from '../../test/stores/counter-model.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import type { AlgorithmBound, CounterState } from './algorithm-bound.ts';
import { SlidingWindow } from './sliding-window.ts';
import { TokenBucket } from './token-bucket.ts';

/** Shortly after 2026-11-22T12:00:00Z. */
const start = 1_795_348_800_123_456;

const seconds = fc.oneof(
  fc.constantFrom(1, 30, 60, 300, 3600, 86_400),
  fc.integer({ min: 1, max: 40_000_000 }),
);
const requests = fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 10_000_000 }));

/** Steps in parts of a window and of the limit, so that edges occur often. */
const steps = fc.array(
  fc.record({
    /** Millionths of a window. */
    later: fc.oneof(fc.nat(300_000), fc.constantFrom(0, 1_000_000, 2_500_000)),
    /** Hundredths of the limit. `hits` below is a number of hits. */
    share: fc.oneof(fc.nat(40), fc.constantFrom(100, 101)),
    hits: fc.nat(3),
    byShare: fc.boolean(),
    back: fc.boolean(),
  }),
  { minLength: 1, maxLength: 40 },
);

function agree(
  bound: AlgorithmBound,
  model: BoundModel,
  windowMicros: number,
  plan: typeof steps extends fc.Arbitrary<infer T> ? T : never,
): void {
  let now = start;
  let held: CounterState | undefined;
  for (const { later, share, hits: few, byShare, back } of plan) {
    now += Math.floor((later / 1_000_000) * windowMicros);
    const hits = byShare ? Math.floor((bound.capacity * share) / 100) : few;
    held = bound.stateAt(held, now);
    const room = bound.room(held, now);
    expect(BigInt(room)).toBe(model.room(now));
    if (back && hits > 0) {
      held = bound.giveBack(held, hits, now);
      model.giveBack(now, hits);
    } else if (hits <= room) {
      held = bound.take(held, hits);
      model.take(now, hits);
    }
    for (const few of [1, 2, hits, bound.capacity]) expectWait(bound, held, now, few);
    expectUnused(bound, held, now);
  }
}

function roomAt(bound: AlgorithmBound, held: CounterState, at: number): number {
  return bound.room(bound.stateAt(held, at), at);
}

/** Expects that the wait until so many hits pass is neither too short nor too long. */
function expectWait(bound: AlgorithmBound, held: CounterState, now: number, hits: number): void {
  const wait = bound.untilRoomMicros(held, now, hits);
  if (hits > bound.capacity) return;
  expect(wait === 0).toBe(hits <= roomAt(bound, held, now));
  expect(roomAt(bound, held, now + wait)).toBeGreaterThanOrEqual(hits);
  if (wait > 0) expect(roomAt(bound, held, now + wait - 1)).toBeLessThan(hits);
}

/** Expects that a counter differs from a new one just until it is unused. */
function expectUnused(bound: AlgorithmBound, held: CounterState, now: number): void {
  const wait = bound.untilUnusedMicros(held, now);
  const isNew = (at: number): boolean =>
    isDeepStrictEqual(bound.stateAt(held, at), bound.stateAt(undefined, at));
  expect(isNew(now + wait)).toBe(true);
  if (wait > 0) expect(isNew(now + wait - 1)).toBe(false);
}

describe('a sliding window', () => {
  it("admits just what Cloudflare's formula allows", () => {
    fc.assert(
      fc.property(requests, seconds, steps, (limit, length, plan) => {
        const windowMicros = length * 1_000_000;
        fc.pre(limit * windowMicros <= Number.MAX_SAFE_INTEGER);
        const bound = new SlidingWindow({ requests: limit, windowMicros });
        agree(bound, new SlidingModel(limit, windowMicros), windowMicros, plan);
      }),
      { numRuns: caseCount(500) },
    );
  });

  it('admits nothing beyond it, and hardly less, if its numbers are too large for microseconds', () => {
    const large = fc.oneof(
      fc.integer({ min: 10_000_000, max: 4_294_967_295 }),
      fc.integer({ min: 10_000_000, max: Number.MAX_SAFE_INTEGER }),
    );
    fc.assert(
      fc.property(
        large,
        fc.integer({ min: 86_400, max: 315_360_000 }),
        fc.array(fc.nat(1_200_000)),
        (limit, length, laters) => {
          const windowMicros = length * 1_000_000;
          const bound = new SlidingWindow({ requests: limit, windowMicros });
          const model = new SlidingModel(limit, windowMicros);
          let now = start;
          let held: CounterState | undefined;
          for (const later of laters) {
            now += later * length;
            held = bound.stateAt(held, now);
            const room = bound.room(held, now);
            const exact = Number(model.room(now));
            expect(room).toBeLessThanOrEqual(exact);
            // A tick. A window has fewer ticks the larger the limit is.
            const tick = Math.max(limit / 100_000, (11 * limit ** 2) / Number.MAX_SAFE_INTEGER);
            expect(room).toBeGreaterThanOrEqual(exact - Math.ceil(tick));
            for (const hits of [1, Math.ceil(limit / 3), limit]) expectWait(bound, held, now, hits);
            held = bound.take(held, Math.ceil(room / 2));
            model.take(now, Math.ceil(room / 2));
          }
        },
      ),
      { numRuns: caseCount(200) },
    );
  });

  it('keeps the next window if the clock went back over its edge, takes later ones for now, forgets older ones', () => {
    const bound = new SlidingWindow({ requests: 10, windowMicros: 60_000_000 });
    const window = Math.floor(start / 60_000_000);
    expect(bound.stateAt([window + 1, 3, 4], start)).toEqual([window + 1, 3, 4]);
    expect(bound.stateAt([window + 9, 3, 4], start)).toEqual([window, 0, 7]);
    const max = Number.MAX_SAFE_INTEGER;
    expect(bound.stateAt([window + 9, max, 4], start)).toEqual([window, 0, max]);
    expect(bound.stateAt([window - 1, 3, 4], start)).toEqual([window, 4, 0]);
    expect(bound.stateAt([window - 2, 3, 4], start)).toEqual([window, 0, 0]);
  });

  it('waits a window for more than ever passes at once', () => {
    const bound = new SlidingWindow({ requests: 10, windowMicros: 60_000_000 });
    const held = bound.take(bound.stateAt(undefined, start), 10);
    for (const hits of [11, Number.MAX_SAFE_INTEGER])
      expect(bound.untilRoomMicros(held, start, hits)).toBe(60_000_000);
  });

  it('lets no request pass by a limit of 0', () => {
    const bound = new SlidingWindow({ requests: 0, windowMicros: 60_000_000 });
    expect(bound.room(bound.stateAt(undefined, start), start)).toBe(0);
    expect(bound.untilRoomMicros(bound.stateAt(undefined, start), start)).toBe(60_000_000);
  });
});

it.each<[string, AlgorithmBound]>([
  ['a sliding window', new SlidingWindow({ requests: 100, windowMicros: 60_000_000 })],
  ['a token bucket', new TokenBucket({ requests: 70, burst: 100, windowMicros: 60_000_000 })],
])('%s has no more room when the clock goes back', (_, bound) => {
  const hits = fc.array(fc.tuple(fc.nat(40_000_000), fc.nat(100)), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(hits, fc.oneof(fc.nat(3_000_000), fc.nat(400_000_000)), (taken, backMicros) => {
      let now = start;
      let held: CounterState | undefined;
      for (const [later, count] of taken) {
        now += later;
        held = bound.stateAt(held, now);
        held = bound.take(held, Math.min(count, bound.room(held, now)));
      }
      const then = now - backMicros;
      expect(bound.room(bound.stateAt(held, then), then)).toBeLessThanOrEqual(bound.room(held!, now));
    }),
    { numRuns: caseCount(500) },
  );
});

describe('a token bucket', () => {
  it('admits just what a bucket of real numbers allows', () => {
    fc.assert(
      fc.property(requests, requests, seconds, steps, (rate, burst, length, plan) => {
        const windowMicros = length * 1_000_000;
        const numbers = { requests: rate, burst, windowMicros };
        fc.pre(isExactBucket(numbers));
        agree(new TokenBucket(numbers), new BucketModel(rate, burst, windowMicros), windowMicros, plan);
      }),
      { numRuns: caseCount(500) },
    );
  });

  it('cuts a time beyond a full bucket to that', () => {
    const bound = new TokenBucket({ requests: 60, burst: 10, windowMicros: 60_000_000 });
    expect(bound.stateAt([start + 99_000_000, 5, 60], start)).toEqual([start + 10_000_000, 0, 60]);
  });

  it('keeps the time under a new rate, the rest rounded up', () => {
    const bound = new TokenBucket({ requests: 7, burst: 10, windowMicros: 60_000_000 });
    expect(bound.stateAt([start + 5_000_000, 2, 3], start)).toEqual([start + 5_000_001, 0, 7]);
    expect(bound.stateAt([start + 5_000_000, 0, 3], start)).toEqual([start + 5_000_000, 0, 7]);
  });

  it('waits a window for more than its burst', () => {
    const bound = new TokenBucket({ requests: 60, burst: 10, windowMicros: 60_000_000 });
    const held = bound.stateAt(undefined, start);
    for (const hits of [11, Number.MAX_SAFE_INTEGER])
      expect(bound.untilRoomMicros(held, start, hits)).toBe(60_000_000);
  });

  it('lets no request pass by 0 requests or a burst of 0', () => {
    for (const numbers of [
      { requests: 0, burst: 9 },
      { requests: 9, burst: 0 },
    ]) {
      const bound = new TokenBucket({ ...numbers, windowMicros: 60_000_000 });
      expect(bound.room(bound.stateAt(undefined, start), start)).toBe(0);
      expect(bound.untilRoomMicros(bound.stateAt(undefined, start), start)).toBe(60_000_000);
    }
  });

  it('knows which numbers are too large', () => {
    const year = 31_536_000_000_000;
    expect(isExactBucket({ requests: 1_000_000, burst: 1_000_000, windowMicros: year })).toBe(true);
    expect(isExactBucket({ requests: 1, burst: 1000, windowMicros: 10 * year })).toBe(false);
    expect(isExactBucket({ requests: 4_294_967_295, burst: 4_294_967_295, windowMicros: year })).toBe(false);
  });
});
