import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { marksOf, marksReached, nearThreshold } from './thresholds.ts';

describe('nearThreshold', () => {
  it.each([
    [100, 0.29, 29],
    [10, 0.8, 8],
    [20, 0.8, 16],
    [4_294_967_295, 0.8, 3_435_973_888],
    [16_777_217, 1, 16_777_216],
    [16_777_219, 1, 16_777_219],
    [5, 0, 0],
    // The Go service has no room for this limit.
    [4_294_967_296, 0.8, 3_435_973_836],
    [1_000_000_000_001, 0.5, 500_000_000_000],
    [Number.MAX_SAFE_INTEGER, 1, Number.MAX_SAFE_INTEGER],
  ])('of %d by %d is %d, in 32-bit floats if the limit has 32 bits', (limit, ratio, near) => {
    expect(nearThreshold(limit, ratio)).toBe(near);
  });
});

describe('marksOf', () => {
  it('is undefined without marks', () => {
    expect(marksOf([], 10)).toBeUndefined();
  });

  it.each([
    [[50, 80, 100], 10, [5, 8, 10]],
    // No threshold is reached before its percentage is used.
    [[50, 95], 7, [4, 7]],
    [[1], 1, [1]],
    // A limit that blocks all requests has no used hits until the first request.
    [[50, 100], 0, [1, 1]],
  ])('is at %j percent of %d with %j hits', (percents, capacity, hits) => {
    expect(marksOf(percents, capacity)?.hits).toEqual(hits);
  });

  it('is exact for every limit up to 2^53 - 1', () => {
    const percent = fc.integer({ min: 1, max: 100 });
    fc.assert(
      fc.property(percent, fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }), (mark, capacity) => {
        const needed = BigInt(marksOf([mark], capacity)!.hits[0]!);
        expect(needed * 100n >= BigInt(mark) * BigInt(capacity)).toBe(true);
        expect((needed - 1n) * 100n < BigInt(mark) * BigInt(capacity)).toBe(true);
      }),
      { numRuns: caseCount(500) },
    );
  });
});

describe('marksReached', () => {
  it('counts those at or below what is used', () => {
    const marks = marksOf([50, 80], 10)!;
    expect([0, 4, 5, 7, 8, 99].map((used) => marksReached(marks, used))).toEqual([0, 0, 1, 1, 2, 2]);
  });
});
