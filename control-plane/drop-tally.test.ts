import { expect, it } from 'vitest';
import { ManualTimers } from '../test/support/manual-timers.ts';
import { DropTally } from './notifications.ts';

function tally(): { timers: ManualTimers; told: number[]; drops: DropTally } {
  const timers = new ManualTimers();
  const told: number[] = [];
  return { timers, told, drops: new DropTally(timers, (count) => told.push(count)) };
}

it('tells the first loss at once and the rest of a burst a minute later', () => {
  const { timers, told, drops } = tally();
  for (let i = 0; i < 10; i++) drops.add(1);
  expect(told).toEqual([1]);
  timers.advance(60_000);
  expect(told).toEqual([1, 9]);
  timers.advance(120_000);
  expect(told).toEqual([1, 9]);
  expect(timers.size).toBe(0);
  drops.add(2);
  expect(told).toEqual([1, 9, 2]);
});

it('tells what is left at its end', () => {
  const { timers, told, drops } = tally();
  drops.add(1);
  drops.add(4);
  drops.close();
  expect(told).toEqual([1, 4]);
  expect(timers.size).toBe(0);
});
