import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { Seldom } from './seldom.ts';

describe('by a clock', () => {
  function toldBy(clock: ManualClock): { told: [string, number][]; seldom: Seldom<string> } {
    const told: [string, number][] = [];
    return { told, seldom: new Seldom<string>(clock, (detail, times) => told.push([detail, times]), 1_000) };
  }

  it('tells at once, then once an interval how often it happened', () => {
    const clock = new ManualClock(5);
    const { told, seldom } = toldBy(clock);
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

  it('tells of each kind by itself, of at most 128', () => {
    const clock = new ManualClock(5);
    const { told, seldom } = toldBy(clock);
    seldom.note('a', 'often');
    seldom.note('b', 'often');
    seldom.note('c', 'rare');
    clock.ms += 1_000;
    seldom.note('d', 'often');
    expect(told.splice(0)).toEqual([
      ['a', 1],
      ['c', 1],
      ['d', 2],
    ]);
    for (let kind = 0; kind < 126; kind += 1) seldom.note('known', `${kind}`);
    for (let kind = 126; kind < 1_000; kind += 1) seldom.note('beyond', `${kind}`);
    expect(told.filter(([detail]) => detail === 'known')).toHaveLength(126);
    expect(told.filter(([detail]) => detail === 'beyond')).toEqual([['beyond', 1]]);
  });
});

describe('by timers', () => {
  function toldBy(timers: ManualTimers): { told: [string, number][]; seldom: Seldom<string> } {
    const told: [string, number][] = [];
    const seldom = new Seldom<string>(timers, (detail, times) => told.push([detail, times]), 60_000);
    return { told, seldom };
  }

  it('tells the first loss at once and the rest of a burst a minute later', () => {
    const timers = new ManualTimers();
    const { told, seldom } = toldBy(timers);
    for (let i = 0; i < 10; i++) seldom.note(`${i}`);
    expect(told).toEqual([['0', 1]]);
    timers.advance(60_000);
    expect(told.splice(0)).toEqual([
      ['0', 1],
      ['9', 9],
    ]);
    timers.advance(120_000);
    expect(told).toEqual([]);
    expect(timers.size).toBe(0);
    seldom.note('again', '', 2);
    expect(told).toEqual([['again', 2]]);
  });

  it('tells what is left at its end', () => {
    const timers = new ManualTimers();
    const { told, seldom } = toldBy(timers);
    seldom.note('a');
    seldom.note('b', '', 4);
    seldom.close();
    expect(told).toEqual([
      ['a', 1],
      ['b', 4],
    ]);
    expect(timers.size).toBe(0);
  });
});
