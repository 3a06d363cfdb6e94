import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SortWindow } from './replay.ts';

interface Numbered {
  timeMs: number;
  number: number;
}

function sorted(size: number, times: readonly number[]): { taken: Numbered[]; late: (number | undefined)[] } {
  const taken: Numbered[] = [];
  const window = new SortWindow<Numbered>(size, (element) => taken.push(element));
  const late = times.map((timeMs, number) => window.add({ timeMs, number }));
  window.finish();
  return { taken, late };
}

describe('SortWindow', () => {
  it('puts everything in order that is at most its size away from its place', () => {
    const shuffled = fc.record({ size: fc.integer({ min: 0, max: 20 }), jitters: fc.array(fc.nat(20)) });
    fc.assert(
      fc.property(shuffled, ({ size, jitters }) => {
        // Moved back by at most `size` places, since the times of two neighbors differ by one.
        const places = jitters.map((jitter, timeMs) => ({ timeMs, at: timeMs + Math.min(jitter, size) }));
        const times = places.sort((a, b) => a.at - b.at).map(({ timeMs }) => timeMs);
        const { taken, late } = sorted(size, times);
        expect(late.every((ms) => ms === undefined)).toBe(true);
        expect(taken.map(({ timeMs }) => timeMs)).toEqual(jitters.map((_, timeMs) => timeMs));
      }),
    );
  });

  it('never hands over an earlier time after a later one, and loses nothing that was not too late', () => {
    fc.assert(
      fc.property(fc.nat(5), fc.array(fc.nat(50)), (size, times) => {
        const { taken, late } = sorted(size, times);
        const handed = taken.map(({ timeMs }) => timeMs);
        expect(handed).toEqual(handed.toSorted((a, b) => a - b));
        expect(taken.length).toBe(late.filter((ms) => ms === undefined).length);
      }),
    );
  });

  it('keeps the order of equal times', () => {
    expect(sorted(2, [5, 5, 4, 5, 5]).taken.map(({ number }) => number)).toEqual([2, 0, 1, 3, 4]);
  });

  it('reports by how much an element is too late', () => {
    expect(sorted(0, [5_000, 2_000]).late).toEqual([undefined, 3_000]);
  });
});
