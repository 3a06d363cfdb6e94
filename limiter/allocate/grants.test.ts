import { describe, expect, it } from 'vitest';
import { exactBucket, hitsOf, nothing, refillingBucket } from './buckets.ts';
import { fairLevel } from './fair-level.ts';
import { Grants } from './grants.ts';

const window = [0, 60_000] as const;

function report(grants: Grants, allowed: number, isDenied: boolean, nowMs: number, windowMs: number) {
  const used = { allowed, denied: isDenied ? 1 : 0 };
  const { over, returned } = grants.report(used, nowMs, windowMs, 1_000);
  return { over, returned };
}

describe('what a client may still use', () => {
  /** The grants of a client that reported while it had nothing else. */
  const exact = (): Grants => {
    const grants = new Grants(false, -20_000);
    grants.send(nothing, -20_000, 1);
    report(grants, 0, true, -10_000, -60_000);
    return grants;
  };

  it('is not less for what another limiter may have sent', () => {
    const grants = new Grants(false, 0);
    grants.send(exactBucket(100), 0, 21_000);
    report(grants, 30, false, 1_000, 0);
    grants.arrived(0);
    report(grants, 30, false, 5_000, 0);
    expect(grants.mayUseIn(...window)).toBe(100);
    report(grants, 30, false, 10_000, 0);
    expect(grants.mayUseIn(...window)).toBe(70);
  });

  it('is used up by hits that can be of it; what another limiter may have sent is bounded', () => {
    const grants = new Grants(false, 0);
    const reported = (allowed: number, nowMs: number) => grants.report({ allowed, denied: 0 }, nowMs, 0, 300);
    expect(reported(200, 0)).toMatchObject({ own: 0, over: 0 });
    grants.send(exactBucket(70), 0, 21_000);
    expect(reported(90, 1_000)).toMatchObject({ own: 70, over: 0 });
    expect(reported(90, 2_000)).toMatchObject({ own: 0, over: 80 });
    // The next reports are only about this grant.
    expect(reported(0, 7_000)).toMatchObject({ own: 0, over: 0 });
    expect(reported(80, 8_000)).toMatchObject({ own: 70, over: 10 });
  });

  it('is the rest of the old grant and the new one, until a report that was made after it arrived', () => {
    const grants = exact();
    grants.send(exactBucket(100), 0, 21_000);
    expect(report(grants, 60, false, 5_000, 0)).toEqual({ over: 0, returned: 0 });
    grants.send(exactBucket(50), 5_000, 26_000);
    expect(grants.mayUseIn(...window)).toBe(90);
    // The report may have been made before: it counts for the old grant first, and nothing returns.
    expect(report(grants, 45, false, 10_000, 0)).toEqual({ over: 0, returned: 0 });
    expect(grants.mayUseIn(...window)).toBe(45);
    expect(report(grants, 5, false, 15_000, 0)).toEqual({ over: 0, returned: 0 });
    expect(report(grants, 41, false, 15_100, 0)).toEqual({ over: 1, returned: 0 });
  });

  it('gives the rest of the old grant back with that report', () => {
    const grants = exact();
    grants.send(exactBucket(100), 0, 21_000);
    grants.send(exactBucket(50), 1_000, 22_000);
    expect(report(grants, 30, false, 6_900, 0)).toEqual({ over: 0, returned: 0 });
    expect(report(grants, 10, false, 7_000, 0)).toEqual({ over: 0, returned: 60 });
    expect(grants.mayUseIn(...window)).toBe(50);
  });

  it('releases it sooner if it is known what arrived', () => {
    const grants = exact();
    grants.send(exactBucket(100), 0, 21_000);
    grants.send(exactBucket(50), 1_000, 22_000);
    grants.arrived(1_000);
    // The client's transport has the grant, but it may take effect a moment later.
    expect(report(grants, 20, false, 2_900, 0)).toEqual({ over: 0, returned: 0 });
    expect(report(grants, 10, false, 3_000, 0)).toEqual({ over: 0, returned: 70 });
  });

  it('is charged to every window that it reaches into, and to none after', () => {
    const grants = exact();
    grants.send(exactBucket(100), 50_000, 71_000);
    expect([0, 60, 120].map((start) => grants.mayUseIn(start * 1000, start * 1000 + 60_000))).toEqual([
      100, 100, 0,
    ]);
    grants.renew(121_000);
    expect(grants.mayUseIn(120_000, 180_000)).toBe(100);
    expect(report(grants, 0, false, 121_000, 120_000)).toEqual({ over: 0, returned: 100 });
  });

  it('of a bucket that changes is the larger of both; one that begins full adds its tokens', () => {
    const grants = new Grants(true, 0);
    grants.send({ tokens: 10, perFill: 2, fillSeconds: 1, isFresh: true }, 0, 21_000);
    grants.send({ tokens: 4, perFill: 4, fillSeconds: 1, isFresh: false }, 5_000, 26_000);
    expect(grants.mayUseIn(...window)).toBe(10 + 4 * 60);
    grants.send({ tokens: 4, perFill: 1, fillSeconds: 1, isFresh: true }, 6_000, 27_000);
    expect(grants.mayUseIn(...window)).toBe(10 + 4 + 4 * 60);
    // The first grants are of no use in later windows once they are known to be replaced.
    report(grants, 1, false, 15_000, 0);
    expect(grants.mayUseIn(16_000, 20_000)).toBe(4 + 4);
  });

  it('of a bucket that refills is what was reported and what may come after, if that is less', () => {
    const grants = new Grants(true, 0);
    grants.send({ tokens: 10, perFill: 10, fillSeconds: 1, isFresh: true }, 0, 90_000);
    const mayUse = (used: number) => grants.mayUseIn(...window, used);
    report(grants, 5, false, 5_000, 0);
    expect(mayUse(5)).toBe(10 + 10 * 60);
    report(grants, 5, false, 40_000, 0);
    expect(mayUse(10)).toBe(10 + 10 + 10 * 26);
    grants.send({ tokens: 2, perFill: 2, fillSeconds: 1, isFresh: false }, 40_000, 90_000);
    report(grants, 0, false, 44_000, 0);
    expect(mayUse(10)).toBe(10 + 10 + 10 * 22);
    // After the report that shows the last grant, only this one can be used.
    report(grants, 0, false, 46_000, 0);
    expect(mayUse(10)).toBe(10 + 2 + 2 * 20);
    expect(grants.mayUseIn(...window)).toBe(10 + 10 * 60);
  });
});

describe('buckets that refill', () => {
  it('let through in a window what they are for', () => {
    for (const windowSeconds of [1, 7, 20, 60, 3_600]) {
      for (let hits = 1; hits < 2_000; hits += hits < 100 ? 1 : 37) {
        const bucket = refillingBucket(hits + 0.5, windowSeconds, true);
        expect(hitsOf(bucket, windowSeconds)).toBe(hits);
        expect(bucket.tokens).toBeLessThanOrEqual(Math.max(1, hits / 2));
      }
    }
    expect(refillingBucket(0.9, 60, true)).toEqual(nothing);
  });
});

describe('buckets for a number of hits', () => {
  it('get no others in the longest window', () => {
    expect(hitsOf(exactBucket(3), 366 * 86_400)).toBe(3);
  });
});

describe('the fair level', () => {
  const claims = (needs: readonly number[]) =>
    needs.map((need) => ({ weight: 1, used: 0, charged: 0, need }));

  it('gives a client that needs less what it needs, and divides the rest', () => {
    expect(fairLevel(claims([10, 90, 200]), 150, 0)).toEqual({
      ...{ level: 70, charged: -10, ahead: -10, hungry: 2 },
    });
    expect(fairLevel(claims([10, 20]), 150, 0).level).toBe(Number.POSITIVE_INFINITY);
    const weighted = [
      { weight: 3, used: 2, charged: 5, need: 200 },
      { weight: 1, used: 0, charged: 7, need: 200 },
      { weight: 1, used: 4, charged: 9, need: 20 },
    ];
    expect(fairLevel(weighted, 120, 0)).toEqual({ level: 25, charged: 1, ahead: -16, hungry: 4 });
  });

  it('is the same for limiters that know only sums of each other', () => {
    const [ours, theirs] = [claims([10, 90, 200]), claims([40, 300])];
    const together = fairLevel([...ours, ...theirs], 300, 0).level;
    let [a, b] = [
      { level: 0, charged: 0, hungry: 0 },
      { level: 0, charged: 0, hungry: 0 },
    ];
    for (let round = 0; round < 10; round += 1) {
      a = fairLevel(ours, 300 + b.charged, b.hungry);
      b = fairLevel(theirs, 300 + a.charged, a.hungry);
    }
    expect(a.level).toBeCloseTo(together);
    expect(b.level).toBeCloseTo(together);
  });
});
