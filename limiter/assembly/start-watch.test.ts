import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { StartWatch } from './start-trouble.ts';

function watched(): { timers: ManualTimers; told: string[]; watch: StartWatch } {
  const timers = new ManualTimers();
  const told: string[] = [];
  const clock = { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs };
  const onWaiting = (start: { waitsFor: string; seconds: number }) =>
    told.push(`${start.waitsFor} ${start.seconds}`);
  return { timers, told, watch: new StartWatch({ clock, timers }, onWaiting) };
}

describe('a start that takes long', () => {
  it('is told of after 10 s, then every minute, with what it waits for by then', () => {
    const { timers, told, watch } = watched();
    watch.waitsFor = 'store';
    timers.advance(9_999);
    expect(told).toEqual([]);
    timers.advance(1);
    expect(told).toEqual(['store 10']);
    watch.waitsFor = 'rules';
    timers.advance(120_000);
    expect(told).toEqual(['store 10', 'rules 70', 'rules 130']);
  });

  it('is told of no more when it is over, early or late', () => {
    for (const afterMs of [5_000, 100_000]) {
      const { timers, told, watch } = watched();
      timers.advance(afterMs);
      const toldBefore = told.length;
      watch.end();
      timers.advance(600_000);
      expect([told.length, timers.size]).toEqual([toldBefore, 0]);
    }
  });
});
