import { expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { Seldom, SeldomByKind } from './seldom.ts';

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

it('tells of each kind by itself, of at most 64', () => {
  const clock = new ManualClock(5);
  const told: [string, number][] = [];
  const seldom = new SeldomByKind<string>(clock, 1_000, (detail, times) => told.push([detail, times]));
  seldom.note('often', 'a');
  seldom.note('often', 'b');
  seldom.note('rare', 'c');
  clock.ms += 1_000;
  seldom.note('often', 'd');
  expect(told.splice(0)).toEqual([
    ['a', 1],
    ['c', 1],
    ['d', 2],
  ]);
  for (let kind = 0; kind < 62; kind += 1) seldom.note(`${kind}`, 'known');
  for (let kind = 62; kind < 1_000; kind += 1) seldom.note(`${kind}`, 'beyond');
  expect(told.filter(([detail]) => detail === 'known')).toHaveLength(62);
  expect(told.filter(([detail]) => detail === 'beyond')).toEqual([['beyond', 1]]);
});
