import { expect, it } from 'vitest';
import { ManualClock } from '../test/support/manual-clock.ts';
import { Seldom } from './seldom.ts';

it('tells at once, then once an interval how often it happened', () => {
  const clock = new ManualClock(5);
  const told: [string, number][] = [];
  const seldom = new Seldom<string>(clock, 1_000, (detail, times) => told.push([detail, times]));
  for (const detail of ['a', 'b', 'c']) seldom.note(detail);
  clock.ms += 999;
  seldom.note('d');
  clock.ms += 1;
  seldom.note('e');
  expect(told).toEqual([
    ['a', 1],
    ['e', 4],
  ]);
});
