import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nearThreshold } from '../decide/thresholds.ts';
import { RuleStat, type RuleStats, ruleStatNames } from '../stats/registry/rule-stats.ts';
import { type AssessedLimit, Assessment } from './hit-statuses.ts';

const slot = 70;

function limitOf(requestsPerUnit: number, shadowMode = false, ratio = 0.8): AssessedLimit {
  return {
    rule: { shadowMode },
    capacity: requestsPerUnit,
    nearThreshold: nearThreshold(requestsPerUnit, ratio),
    metric: { key: '', slot, lastUse: 0 },
  };
}

function statsThat(add: RuleStats['add']): RuleStats {
  return {
    ruleMetric: (key) => ({ key, slot, lastUse: 0 }),
    slotOf: (metric) => metric.slot,
    domainNotFound: () => {},
    add,
  };
}

/** The outcome and the statistics of one assessment. */
function assessed(assess: (assessment: Assessment) => void) {
  const counts = new Array<number>(ruleStatNames.length).fill(0);
  const stats = statsThat((at, amount) => {
    counts[at - slot]! += amount;
  });
  const assessment = new Assessment(stats);
  assess(assessment);
  const { over, rejected, remaining, overLimit } = assessment;
  expect(counts[RuleStat.overLimit]).toBe(overLimit);
  const counted = {
    nearLimit: counts[RuleStat.nearLimit]!,
    overLimitWithLocalCache: counts[RuleStat.overLimitWithLocalCache]!,
    withinLimit: counts[RuleStat.withinLimit]!,
    shadowMode: counts[RuleStat.shadowMode]!,
  };
  const all = counts.reduce((sum, count) => sum + count, 0);
  const known = Object.values(counted).reduce((sum, count) => sum + count, 0);
  expect(all).toBe(known + overLimit);
  return { over, rejected, remaining, overLimit, ...counted };
}

function ofTotal(limit: AssessedLimit, before: number, hits: number) {
  return assessed((assessment) => assessment.ofTotal(limit, hits, before + hits, 0));
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

describe('an assessment of a total', () => {
  it.each(table)('limit $limit, before $before, hits $hits: $code', (row) => {
    const plain = limitOf(row.limit);
    expect(plain.nearThreshold).toBe(row.n);
    expect(ofTotal(plain, row.before, row.hits)).toEqual({
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
    expect(ofTotal(limitOf(row.limit, true), row.before, row.hits)).toMatchObject({
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
    expect(ofTotal(limitOf(max), max - 3, 1)).toMatchObject({ over: false, remaining: 2 });
    expect(ofTotal(limitOf(max), max - 1, 1)).toMatchObject({ over: false, remaining: 0 });
    expect(ofTotal(limitOf(max - 1), max - 3, 3)).toMatchObject({ over: true, overLimit: 1 });
  });

  it('takes a total below the hits to have been 0 before', () => {
    const of = (limit: number, hits: number, after: number) =>
      assessed((assessment) => assessment.ofTotal(limitOf(limit), hits, after, 0));
    expect(of(10, 7, 2)).toMatchObject({ rejected: false, remaining: 8, nearLimit: 0, withinLimit: 7 });
    expect(of(10, 70, 12)).toMatchObject({ rejected: true, nearLimit: 2, overLimit: 2, withinLimit: 0 });
    expect(of(0, 5, 3)).toMatchObject({ rejected: true, nearLimit: 0, overLimit: 5, withinLimit: 0 });
  });

  it('counts what is leased as used, and as nothing else', () => {
    const of = (leased: number) => assessed((assessment) => assessment.ofTotal(limitOf(10), 1, 4, leased));
    expect(of(5)).toMatchObject({ remaining: 1, nearLimit: 0, withinLimit: 1 });
    expect(of(7)).toMatchObject({ rejected: false, remaining: 0, withinLimit: 1 });
  });

  it('leaves nothing of the assessment before', () => {
    const assessment = new Assessment(statsThat(() => {}));
    assessment.ofFull(limitOf(10, true), 5, false);
    assessment.ofTotal(limitOf(10), 1, 1, 0);
    const { over, rejected, remaining, overLimit } = assessment;
    expect({ over, rejected, remaining, overLimit }).toEqual({
      over: false,
      rejected: false,
      remaining: 9,
      overLimit: 0,
    });
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
          const { nearLimit, overLimit, withinLimit, over, remaining } = ofTotal(
            limitOf(limit, false, ratio),
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

describe('an assessment of a full counter', () => {
  it('counts all hits over, by the local cache as well, and none near', () => {
    expect(assessed((assessment) => assessment.ofFull(limitOf(10), 4, false))).toEqual({
      over: true,
      rejected: true,
      remaining: 0,
      nearLimit: 0,
      overLimit: 4,
      overLimitWithLocalCache: 4,
      withinLimit: 0,
      shadowMode: 0,
    });
  });

  it('does not count the hits by the local cache if an override blocks them', () => {
    expect(assessed((assessment) => assessment.ofFull(limitOf(10), 4, true))).toMatchObject({
      overLimit: 4,
      overLimitWithLocalCache: 0,
    });
  });

  it('lets a rule in shadow mode pass and counts that', () => {
    expect(assessed((assessment) => assessment.ofFull(limitOf(10, true), 4, false))).toMatchObject({
      over: true,
      rejected: false,
      overLimit: 4,
      shadowMode: 4,
    });
  });
});

describe('an assessment of hits that did not fit', () => {
  it('counts all hits over, and shows what is left', () => {
    expect(assessed((assessment) => assessment.ofUncounted(limitOf(10), 4, 7))).toMatchObject({
      over: true,
      rejected: true,
      remaining: 3,
      overLimit: 4,
      withinLimit: 0,
    });
  });
});

describe('an assessment of refunded hits', () => {
  it.each([
    [10, 4, 6],
    [10, 10, 0],
    [10, 50, 0],
  ])('is OK without a statistic: limit %d, %d left, %d remaining', (limit, after, remaining) => {
    expect(assessed((assessment) => assessment.passes(limitOf(limit, true), after))).toEqual({
      over: false,
      rejected: false,
      remaining,
      nearLimit: 0,
      overLimit: 0,
      overLimitWithLocalCache: 0,
      withinLimit: 0,
      shadowMode: 0,
    });
  });
});
