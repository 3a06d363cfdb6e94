import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { RuleStat, type RuleStats } from '../stats/registry/rule-stats.ts';
import {
  Assessment,
  assessRefund,
  assessRemembered,
  assessTotal,
  countAssessment,
  marksOf,
  marksReached,
  nearThreshold,
  type Threshold,
} from './assess.ts';

function threshold(requestsPerUnit: number, shadowMode = false, ratio = 0.8): Threshold {
  return {
    rule: { shadowMode },
    capacity: requestsPerUnit,
    nearThreshold: nearThreshold(requestsPerUnit, ratio),
  };
}

function assessed(limit: Threshold, before: number, hits: number): Assessment {
  const assessment = new Assessment();
  assessTotal(limit, hits, before + hits, 0, assessment);
  return assessment;
}

/** The decisions of the Go service. */
const table = [
  { limit: 10, n: 8, before: 7, hits: 1, code: 'OK', remaining: 2, near: 0, over: 0, within: 1, shadow: 0 },
  { limit: 10, n: 8, before: 8, hits: 1, code: 'OK', remaining: 1, near: 1, over: 0, within: 1, shadow: 0 },
  { limit: 10, n: 8, before: 9, hits: 1, code: 'OK', remaining: 0, near: 1, over: 0, within: 1, shadow: 0 },
  {
    limit: 10,
    n: 8,
    before: 10,
    hits: 1,
    code: 'OVER',
    remaining: 0,
    near: 0,
    over: 1,
    within: 0,
    shadow: 1,
  },
  { limit: 10, n: 8, before: 5, hits: 4, code: 'OK', remaining: 1, near: 1, over: 0, within: 4, shadow: 0 },
  { limit: 10, n: 8, before: 7, hits: 5, code: 'OVER', remaining: 0, near: 2, over: 2, within: 0, shadow: 2 },
  { limit: 10, n: 8, before: 9, hits: 3, code: 'OVER', remaining: 0, near: 1, over: 2, within: 0, shadow: 2 },
  {
    limit: 10,
    n: 8,
    before: 0,
    hits: 15,
    code: 'OVER',
    remaining: 0,
    near: 2,
    over: 5,
    within: 0,
    shadow: 5,
  },
  { limit: 10, n: 8, before: 10, hits: 0, code: 'OK', remaining: 0, near: 0, over: 0, within: 0, shadow: 0 },
  {
    limit: 10,
    n: 8,
    before: 11,
    hits: 0,
    code: 'OVER',
    remaining: 0,
    near: 0,
    over: 0,
    within: 0,
    shadow: 0,
  },
  { limit: 0, n: 0, before: 0, hits: 1, code: 'OVER', remaining: 0, near: 0, over: 1, within: 0, shadow: 1 },
  { limit: 1, n: 0, before: 0, hits: 1, code: 'OK', remaining: 0, near: 1, over: 0, within: 1, shadow: 0 },
];

describe('assessTotal', () => {
  it.each(table)('limit $limit, before $before, hits $hits: $code', (row) => {
    const plain = threshold(row.limit);
    expect(plain.nearThreshold).toBe(row.n);
    expect(assessed(plain, row.before, row.hits)).toMatchObject({
      over: row.code === 'OVER',
      rejected: row.code === 'OVER',
      remaining: row.remaining,
      nearLimit: row.near,
      overLimit: row.over,
      overLimitWithLocalCache: 0,
      withinLimit: row.within,
      shadowMode: 0,
    });
  });

  it.each(table)('in shadow mode, limit $limit, before $before, hits $hits: OK', (row) => {
    expect(assessed(threshold(row.limit, true), row.before, row.hits)).toMatchObject({
      over: row.code === 'OVER',
      rejected: false,
      remaining: row.remaining,
      nearLimit: row.near,
      overLimit: row.over,
      withinLimit: row.within,
      shadowMode: row.shadow,
    });
  });

  it('is exact up to 2^53 - 1', () => {
    const max = Number.MAX_SAFE_INTEGER;
    expect(assessed(threshold(max), max - 3, 1)).toMatchObject({ over: false, remaining: 2 });
    expect(assessed(threshold(max), max - 1, 1)).toMatchObject({ over: false, remaining: 0 });
    expect(assessed(threshold(max - 1), max - 3, 3)).toMatchObject({ over: true, overLimit: 1 });
  });

  it('takes a total below the hits to have been 0 before', () => {
    const assessment = new Assessment();
    assessTotal(threshold(10), 7, 2, 0, assessment);
    expect(assessment).toMatchObject({ rejected: false, remaining: 8, nearLimit: 0, withinLimit: 7 });
    assessTotal(threshold(10), 70, 12, 0, assessment);
    expect(assessment).toMatchObject({ rejected: true, nearLimit: 2, overLimit: 2, withinLimit: 0 });
    assessTotal(threshold(0), 5, 3, 0, assessment);
    expect(assessment).toMatchObject({ rejected: true, nearLimit: 0, overLimit: 5, withinLimit: 0 });
  });

  it('counts what is leased as used, and as nothing else', () => {
    const assessment = new Assessment();
    assessTotal(threshold(10), 1, 4, 5, assessment);
    expect(assessment).toMatchObject({ remaining: 1, nearLimit: 0, withinLimit: 1 });
    assessTotal(threshold(10), 1, 4, 7, assessment);
    expect(assessment).toMatchObject({ rejected: false, remaining: 0, withinLimit: 1 });
  });

  it('leaves nothing of the assessment before', () => {
    const assessment = new Assessment();
    assessRemembered(threshold(10, true), 5, assessment);
    assessTotal(threshold(10), 1, 1, 0, assessment);
    const fresh = new Assessment();
    assessTotal(threshold(10), 1, 1, 0, fresh);
    expect(assessment).toEqual(fresh);
  });

  it('never counts more near and over hits than there are, and each hit within or over', () => {
    const number = fc.oneof(fc.nat(20), fc.nat());
    fc.assert(
      fc.property(
        number,
        number,
        number,
        fc.double({ min: 0, max: 1, noNaN: true }),
        (limit, before, hits, ratio) => {
          const { nearLimit, overLimit, withinLimit, over, remaining } = assessed(
            threshold(limit, false, ratio),
            before,
            hits,
          );
          expect(over).toBe(before + hits > limit);
          expect(remaining).toBe(Math.max(0, limit - before - hits));
          expect(nearLimit + overLimit).toBeLessThanOrEqual(hits);
          expect(nearLimit).toBeGreaterThanOrEqual(0);
          expect(withinLimit === 0 || overLimit === 0).toBe(true);
        },
      ),
    );
  });
});

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
  ])('of %d by %d is %d, in 32-bit floats where the limit has 32 bits', (limit, ratio, near) => {
    expect(nearThreshold(limit, ratio)).toBe(near);
  });
});

describe('assessRemembered', () => {
  it('counts all hits over, by the local cache as well, and none near', () => {
    const assessment = new Assessment();
    assessRemembered(threshold(10), 4, assessment);
    expect(assessment).toMatchObject({
      over: true,
      rejected: true,
      remaining: 0,
      nearLimit: 0,
      overLimit: 4,
    });
    expect(assessment).toMatchObject({ overLimitWithLocalCache: 4, withinLimit: 0, shadowMode: 0 });
  });

  it('lets a rule in shadow mode pass and counts that', () => {
    const assessment = new Assessment();
    assessRemembered(threshold(10, true), 4, assessment);
    expect(assessment).toMatchObject({ over: true, rejected: false, overLimit: 4, shadowMode: 4 });
  });
});

describe('assessRefund', () => {
  it.each([
    [10, 4, 6],
    [10, 10, 0],
    [10, 50, 0],
  ])('is OK without a statistic: limit %d, %d left, %d remaining', (limit, after, remaining) => {
    const assessment = new Assessment();
    assessRefund(threshold(limit, true), after, assessment);
    const nothing = new Assessment();
    nothing.remaining = remaining;
    expect(assessment).toEqual(nothing);
  });
});

describe('countAssessment', () => {
  it('adds each amount to its statistic of the rule', () => {
    const added: [number, number][] = [];
    const stats: RuleStats = {
      ruleMetric: () => ({ key: '', slot: 0, lastUse: 0 }),
      slotOf: () => 0,
      domainNotFound: () => {},
      add: (slot, amount) => added.push([slot, amount]),
    };
    const assessment = new Assessment();
    Object.assign(assessment, {
      nearLimit: 1,
      overLimit: 2,
      overLimitWithLocalCache: 3,
      withinLimit: 4,
      shadowMode: 5,
    });
    countAssessment(stats, 70, assessment);
    expect(added.toSorted()).toEqual([
      [70 + RuleStat.overLimit, 2],
      [70 + RuleStat.nearLimit, 1],
      [70 + RuleStat.overLimitWithLocalCache, 3],
      [70 + RuleStat.withinLimit, 4],
      [70 + RuleStat.shadowMode, 5],
    ]);
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
