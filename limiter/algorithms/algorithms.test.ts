import { describe, expect, it } from 'vitest';
import type { CountingAlgorithm } from './algorithm.ts';
import {
  type AlgorithmBound,
  type Charge,
  type CounterState,
  largestExactNumber,
  nothingReturned,
} from './algorithm-bound.ts';
import { FixedWindow, fixedWindow } from './fixed-window.ts';
import { SlidingWindow, slidingWindow } from './sliding-window.ts';
import { TokenBucket, tokenBucket } from './token-bucket.ts';

const minuteMicros = 60_000_000;

it.each<[string, CountingAlgorithm, number, number, number]>([
  ['for its window in a fixed window', fixedWindow, 7, 60, 60],
  ['for the next window, too, in a sliding window', slidingWindow, 7, 120, 60],
  // A token takes 8.6 s, ten take 85.7 s. A second more, because times in Redis are whole seconds.
  ['until it is full in a token bucket', tokenBucket, 7, 87, 9],
  ['until it would be full at one request in a token bucket of none', tokenBucket, 0, 601, 60],
])('a counter lives %s', (_, algorithm, requests, life, wait) => {
  const numbers = { requests, burst: 10, windowMicros: minuteMicros };
  expect(algorithm.lifeSeconds(numbers)).toBe(life);
  expect(algorithm.secondsUncounted(numbers)).toBe(wait);
});

it.each<[string, AlgorithmBound]>([
  ['fixed 7', new FixedWindow(7)],
  ['sliding 7 60000000 1 60000000', new SlidingWindow({ requests: 7, windowMicros: minuteMicros })],
  // Ten microseconds to a tick, because 10^9 x 6 x 10^7 would not be exact.
  [
    'sliding 1000000000 60000000 10 6000000',
    new SlidingWindow({ requests: 1_000_000_000, windowMicros: minuteMicros }),
  ],
  // The product is exact just yet.
  [
    `sliding 1 ${largestExactNumber} 1 ${largestExactNumber}`,
    new SlidingWindow({ requests: 1, windowMicros: largestExactNumber }),
  ],
  // A token takes 8,571,428 microseconds and 4 sevenths, ten take 85,714,285 and 5 sevenths.
  [
    'bucket 10 7 8571428 4 85714285 5',
    new TokenBucket({ requests: 7, burst: 10, windowMicros: minuteMicros }),
  ],
])('the script knows a bound as %s', (text, bound) => {
  expect(bound.scriptText).toBe(text);
});

describe('a fixed window', () => {
  const bound = new FixedWindow(10);

  it('counts as far as numbers are exact', () => {
    expect(bound.maxTaken([largestExactNumber - 3, 0, 0])).toBe(3);
    expect(bound.take([largestExactNumber - 3, 0, 0], 3)).toEqual([largestExactNumber, 0, 0]);
  });

  it('leaves it to the key how long to wait', () => {
    expect([bound.untilRoomMicros(), bound.untilUnusedMicros()]).toEqual([0, 0]);
  });

  it('returns at most what it counts', () => {
    const charge: Charge = { taken: 9, held: [9, 0, 0], others: 0, returned: nothingReturned };
    const given = (hits: number) =>
      bound.giveBackOf(charge, { held: [5, 0, 0], hits, returned: nothingReturned, nowMicros: 0 });
    expect(given(2)).toEqual({ held: [3, 0, 0], given: 2, returned: nothingReturned });
    expect(given(9)).toEqual({ held: [0, 0, 0], given: 5, returned: nothingReturned });
  });
});

describe('a sliding window', () => {
  const bound = new SlidingWindow({ requests: 10, windowMicros: minuteMicros });
  const window = 1_000;

  it('counts as far as the sum of both windows is exact', () => {
    expect(bound.maxTaken([window, 4, largestExactNumber - 10])).toBe(6);
    expect(bound.maxTaken([window, largestExactNumber, 4])).toBe(0);
  });

  it.each<[string, number, number, CounterState, number]>([
    ['all to its window', window, 2, [window, 5, 1], 2],
    ['at most what its window counts', window, 9, [window, 5, 0], 3],
    ['to the current window after the clock was set back', window + 1, 9, [window, 5, 0], 3],
    ['all to the previous window', window - 1, 2, [window, 3, 3], 2],
    ['at most what the previous window counts', window - 1, 9, [window, 0, 3], 5],
    ['nothing of an older window', window - 2, 2, [window, 5, 3], 0],
  ])('gives back %s', (_, chargedIn, hits, held, given) => {
    const charge: Charge = { taken: hits, held: [chargedIn, 0, 9], others: 0, returned: nothingReturned };
    const now = {
      held: [window, 5, 3] as const,
      hits,
      returned: nothingReturned,
      nowMicros: window * minuteMicros,
    };
    expect(bound.giveBackOf(charge, now)).toEqual({ held, given, returned: nothingReturned });
  });
});
