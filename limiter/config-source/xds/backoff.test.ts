import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type BackoffOptions, backoffMs } from './xds-session.ts';

const defaults: BackoffOptions = {
  initialMs: 10_000,
  maxMs: 60_000,
  factor: 1.6,
  jitter: true,
  exactFirst: false,
  random: () => 0.5,
};
const waits = (options: Partial<BackoffOptions>) =>
  [0, 1, 2, 3, 4, 1_000].map((attempt) => backoffMs({ ...defaults, ...options }, attempt));

describe('backoffMs', () => {
  const cases: [what: string, options: Partial<BackoffOptions>, waitsMs: number[]][] = [
    ['grows by default, and varies from the first on', {}, [13_000, 13_000, 17_800, 25_480, 35_000, 35_000]],
    ['begins with the initial wait', { exactFirst: true }, [10_000, 13_000, 17_800, 25_480, 35_000, 35_000]],
    ['without jitter', { jitter: false }, [10_000, 16_000, 25_600, 40_960, 60_000, 60_000]],
    ['stays with a factor of 0.5', { factor: 0.5 }, [10_000, 10_000, 10_000, 10_000, 10_000, 10_000]],
    [
      'grows by the factor up to the maximum',
      { factor: 2, jitter: false },
      [10_000, 20_000, 40_000, 60_000, 60_000, 60_000],
    ],
    [
      'with jitter is somewhere between the initial wait and the one due',
      { factor: 2, random: () => 0.25 },
      [12_500, 12_500, 17_500, 22_500, 22_500, 22_500],
    ],
    [
      'is the maximum where that is below the initial wait',
      { maxMs: 5_000 },
      [5_000, 5_000, 5_000, 5_000, 5_000, 5_000],
    ],
    ['stays with a factor of 0', { factor: 0 }, [10_000, 10_000, 10_000, 10_000, 10_000, 10_000]],
  ];
  it.each(cases)('%s', (_, options, waitsMs) => {
    expect(waits(options)).toEqual(waitsMs);
  });

  it('is always between the initial wait and the maximum', () => {
    const bounds = fc.tuple(fc.integer({ min: 1, max: 1e8 }), fc.integer({ min: 0, max: 1e8 }));
    const factor = fc.double({ min: 0, max: 1_000, noNaN: true });
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(
        bounds,
        factor,
        fc.tuple(fc.boolean(), fc.boolean()),
        random,
        fc.nat(10_000),
        (times, by, [jitter, exactFirst], point, attempt) => {
          const [initialMs, more] = times;
          const options = {
            initialMs,
            maxMs: initialMs + more,
            factor: by,
            jitter,
            exactFirst,
            random: () => point,
          };
          const waitMs = backoffMs(options, attempt);
          expect(waitMs).toBeGreaterThanOrEqual(initialMs);
          expect(waitMs).toBeLessThanOrEqual(initialMs + more);
        },
      ),
    );
  });
});
