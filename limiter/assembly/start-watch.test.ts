import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { SlowStartReporter } from './slow-start.ts';

function watched(): { timers: ManualTimers; reported: string[]; watch: SlowStartReporter } {
  const timers = new ManualTimers();
  const reported: string[] = [];
  const clock = { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs };
  const onWaiting = (start: { waitsFor: string; seconds: number }) =>
    reported.push(`${start.waitsFor} ${start.seconds}`);
  return { timers, reported, watch: new SlowStartReporter({ clock, timers }, onWaiting) };
}

describe('a start that takes long', () => {
  it('is reported after 10 s, then every minute, with what it waits for by then', () => {
    const { timers, reported, watch } = watched();
    watch.waitsFor = 'store';
    timers.advance(9_999);
    expect(reported).toEqual([]);
    timers.advance(1);
    expect(reported).toEqual(['store 10']);
    watch.waitsFor = 'rules';
    timers.advance(120_000);
    expect(reported).toEqual(['store 10', 'rules 70', 'rules 130']);
  });

  it('is notified of no more when it is over, early or late', () => {
    for (const afterMs of [5_000, 100_000]) {
      const { timers, reported, watch } = watched();
      timers.advance(afterMs);
      const reportedBefore = reported.length;
      watch.end();
      timers.advance(600_000);
      expect([reported.length, timers.size]).toEqual([reportedBefore, 0]);
    }
  });
});
