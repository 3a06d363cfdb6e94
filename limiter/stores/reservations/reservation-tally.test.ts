import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../../test/support/property-cases.ts';
import { ReservationTally, roundedEnd } from './reservation-tally.ts';

describe('roundedEnd', () => {
  it('is never earlier, nor later by more than an eighth and a second', () => {
    const dayMs = 86_400_000;
    fc.assert(
      fc.property(fc.nat(dayMs), fc.nat(2 * dayMs), (nowMs, lifeMs) => {
        const endMs = roundedEnd(nowMs + lifeMs, nowMs) * 1000;
        expect(endMs).toBeGreaterThanOrEqual(nowMs + lifeMs);
        expect(endMs - nowMs).toBeLessThanOrEqual(lifeMs * 1.125 + 1_000);
      }),
    );
  });
});

describe('ReservationTally', () => {
  it('is never below what is stored, and 0 in the end, whatever others share', () => {
    const step = fc.record({
      of: fc.constantFrom('add', 'remove', 'share'),
      limiter: fc.nat(1),
      seconds: fc.nat(20),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const tallies = [new ReservationTally(true), new ReservationTally(true)];
        const shared = new Map<number, number>();
        const kept: { end: number; limiter: number }[] = [];
        let nowMs = 0;
        for (const { of, limiter, seconds } of steps) {
          nowMs += seconds * 100;
          const tally = tallies[limiter]!;
          const open = kept.filter(({ end }) => end * 1000 > nowMs);
          const own = open.filter((one) => one.limiter === limiter);
          if (of === 'add') {
            const end = Math.ceil(nowMs / 1000) + 1 + seconds;
            kept.push({ end, limiter });
            tally.add(end, 1);
          } else if (of === 'remove' && own.length > 0) {
            kept.splice(kept.indexOf(own[seconds % own.length]!), 1);
            tally.removeOne(nowMs);
          } else if (of === 'share') {
            for (const [end, count] of tally.takeUnshared())
              shared.set(end, Math.max(0, (shared.get(end) ?? 0) + count));
            tally.learn(new Map([...shared].filter(([end]) => end * 1000 > nowMs)));
          }
          const still = kept.filter((one) => one.limiter === limiter && one.end * 1000 > nowMs);
          expect(tally.totalAt(nowMs)).toBeGreaterThanOrEqual(still.length);
        }
        for (const tally of tallies) expect(tally.totalAt(nowMs + 60_000)).toBe(0);
      }),
      { numRuns: caseCount(500) },
    );
  });

  it('shares nothing while nothing changes', () => {
    const tally = new ReservationTally(true);
    tally.add(5, 1);
    expect([tally.takeUnshared(), tally.takeUnshared()]).toEqual([new Map([[5, 1]]), new Map()]);
  });
});
