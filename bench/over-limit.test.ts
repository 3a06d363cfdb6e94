import { expect, it } from 'vitest';
import { costlyOverLimit, maxToAllowed, type OverLimitFigures, overLimitLine } from './over-limit.ts';

const cheap: OverLimitFigures = { load: '4 x 1', allowedUs: 16.04, overLimitUs: 17, ratio: 1.06 };
const costly: OverLimitFigures = { load: '8 x 50', allowedUs: 2, overLimitUs: 5.1, ratio: 2.55 };

it('compares the cost of a hit over limit for Redis with its target', () => {
  expect(overLimitLine({ target: 'weir, Redis' }, [cheap, costly])).toBe(
    'weir, Redis, CPU of Redis for a hit over limit to an allowed hit, target 1.2: ' +
      '1.06 (4 x 1: 17.0 to 16.0 µs), 2.55 (8 x 50: 5.1 to 2.0 µs)',
  );
});

it('names the loads under which hits over limit cost too much', () => {
  expect(costlyOverLimit([cheap, { ...cheap, ratio: maxToAllowed }])).toEqual([]);
  expect(costlyOverLimit([cheap, costly])).toEqual([
    'a hit over limit takes 2.55 times the CPU of Redis for an allowed hit under 8 x 50, at most 1.2 is allowed',
  ]);
});
