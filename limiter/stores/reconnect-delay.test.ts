import { expect, it } from 'vitest';
import { storeReconnectDelayMs } from './reconnect-delay.ts';

it.each([
  ['at most', () => 0.999_999, [125, 250, 500, 1000, 1000, 1000]],
  ['at least', () => 0, [94, 188, 375, 750, 750, 750]],
])('waits %s twice as long after each failure, up to a second', (_, random, expected) => {
  expect([1, 2, 3, 4, 5, 5000].map((failures) => storeReconnectDelayMs(failures, random))).toEqual(expected);
});
