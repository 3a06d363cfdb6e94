import { describe, expect, it } from 'vitest';
import { PacingTokenBucket } from './pacing.ts';

describe('TokenBucket', () => {
  it('gives its burst at once and nothing beyond', () => {
    const bucket = new PacingTokenBucket({ burst: 2, perSecond: 10 });
    expect([bucket.take(0), bucket.take(0), bucket.take(0)]).toEqual([true, true, false]);
    expect(bucket.waitMs(0)).toBe(100);
  });

  it('fills up to its burst, however long it rests', () => {
    const bucket = new PacingTokenBucket({ burst: 2, perSecond: 10 });
    bucket.take(0);
    expect([1, 2, 3].map(() => bucket.take(3_600_000))).toEqual([true, true, false]);
  });

  it.each([1, 3, 7, 50, 130, 333])(
    'gives a token after the wait that it reported, at %s a second',
    (perSecond) => {
      const bucket = new PacingTokenBucket({ burst: 1, perSecond });
      let nowMs = 0;
      for (let taken = 0; taken < 1_000; taken++) {
        expect(bucket.take(nowMs)).toBe(true);
        nowMs += bucket.waitMs(nowMs);
      }
      expect(nowMs).toBeGreaterThanOrEqual((999 / perSecond) * 1_000);
    },
  );

  it('reports the wait for several, beyond its burst as well', () => {
    const bucket = new PacingTokenBucket({ burst: 2, perSecond: 10 });
    expect([1, 2, 3, 12].map((times) => bucket.waitMs(0, times))).toEqual([0, 0, 100, 1_000]);
  });

  it('accepts the return of what was not needed, up to its burst', () => {
    const bucket = new PacingTokenBucket({ burst: 1, perSecond: 10 });
    bucket.take(0);
    bucket.putBack();
    bucket.putBack();
    expect([bucket.take(0), bucket.take(0)]).toEqual([true, false]);
  });

  it('loses nothing when time steps back', () => {
    const bucket = new PacingTokenBucket({ burst: 1, perSecond: 10 });
    expect(bucket.take(1_000)).toBe(true);
    expect(bucket.waitMs(900)).toBe(100);
    expect(bucket.take(1_000)).toBe(true);
  });
});
