import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { LogThrottle } from './log-throttle.ts';

describe('by a clock', () => {
  function reportedBy(clock: ManualClock): { reported: [string, number][]; throttle: LogThrottle<string> } {
    const reported: [string, number][] = [];
    return {
      reported,
      throttle: new LogThrottle<string>(clock, (detail, times) => reported.push([detail, times]), 1_000),
    };
  }

  it('reports at once, then once an interval how often it happened', () => {
    const clock = new ManualClock(5);
    const { reported, throttle } = reportedBy(clock);
    for (const detail of ['a', 'b', 'c']) throttle.note(detail);
    clock.ms += 999;
    throttle.note('d');
    clock.ms += 1;
    throttle.note('e');
    expect(reported).toEqual([
      ['a', 1],
      ['e', 4],
    ]);
  });

  it('reports each kind by itself, of at most 128', () => {
    const clock = new ManualClock(5);
    const { reported, throttle } = reportedBy(clock);
    throttle.note('a', 'often');
    throttle.note('b', 'often');
    throttle.note('c', 'rare');
    clock.ms += 1_000;
    throttle.note('d', 'often');
    expect(reported.splice(0)).toEqual([
      ['a', 1],
      ['c', 1],
      ['d', 2],
    ]);
    for (let kind = 0; kind < 126; kind += 1) throttle.note('known', `${kind}`);
    for (let kind = 126; kind < 1_000; kind += 1) throttle.note('beyond', `${kind}`);
    expect(reported.filter(([detail]) => detail === 'known')).toHaveLength(126);
    expect(reported.filter(([detail]) => detail === 'beyond')).toEqual([['beyond', 1]]);
  });
});

describe('by timers', () => {
  function reportedBy(timers: ManualTimers): { reported: [string, number][]; throttle: LogThrottle<string> } {
    const reported: [string, number][] = [];
    const throttle = new LogThrottle<string>(
      timers,
      (detail, times) => reported.push([detail, times]),
      60_000,
    );
    return { reported, throttle };
  }

  it('reports the first loss at once and the rest of a burst a minute later', () => {
    const timers = new ManualTimers();
    const { reported, throttle } = reportedBy(timers);
    for (let i = 0; i < 10; i++) throttle.note(`${i}`);
    expect(reported).toEqual([['0', 1]]);
    timers.advance(60_000);
    expect(reported.splice(0)).toEqual([
      ['0', 1],
      ['9', 9],
    ]);
    timers.advance(120_000);
    expect(reported).toEqual([]);
    expect(timers.size).toBe(0);
    throttle.note('again', '', 2);
    expect(reported).toEqual([['again', 2]]);
  });

  it('says what is left at its end', () => {
    const timers = new ManualTimers();
    const { reported, throttle } = reportedBy(timers);
    throttle.note('a');
    throttle.note('b', '', 4);
    throttle.close();
    expect(reported).toEqual([
      ['a', 1],
      ['b', 4],
    ]);
    expect(timers.size).toBe(0);
  });
});
