import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { Pace } from './pacing.ts';

function pace(run: (nowMs: number) => void, burst = 1) {
  const timers = new ManualTimers();
  const clock = { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs };
  const options = { clock, timers, gatherMs: 10, intervalMs: 100, burst };
  const paced = new Pace({ ...options, run: () => run(timers.nowMs) });
  return { timers, paced };
}

describe('Pace', () => {
  it('runs once for what is asked within the time of gathering', () => {
    const runs: number[] = [];
    const { timers, paced } = pace((nowMs) => runs.push(nowMs));
    paced.ask();
    timers.advance(9);
    paced.ask();
    expect(runs).toEqual([]);
    timers.advance(1000);
    expect(runs).toEqual([10]);
  });

  it('keeps the interval in a storm and runs once after it', () => {
    const runs: number[] = [];
    const { timers, paced } = pace((nowMs) => runs.push(nowMs));
    for (let i = 0; i < 1000; i++) {
      paced.ask();
      timers.advance(1);
    }
    timers.advance(1000);
    expect(runs).toEqual([10, 110, 210, 310, 410, 510, 610, 710, 810, 910, 1010]);
  });

  it('lets a few runs come at once after a rest, and no more', () => {
    const runs: number[] = [];
    const { timers, paced } = pace((nowMs) => runs.push(nowMs), 3);
    for (let i = 0; i < 500; i++) {
      paced.ask();
      timers.advance(1);
    }
    timers.advance(1000);
    expect(runs).toEqual([10, 20, 30, 110, 210, 310, 410, 510]);
  });

  it('runs again for what is asked during a run', () => {
    const runs: number[] = [];
    const { timers, paced } = pace((nowMs) => {
      runs.push(nowMs);
      if (runs.length === 1) paced.ask();
    });
    paced.ask();
    timers.advance(1000);
    expect(runs).toEqual([10, 110]);
  });

  it('gathers again after a rest', () => {
    const runs: number[] = [];
    const { timers, paced } = pace((nowMs) => runs.push(nowMs));
    paced.ask();
    timers.advance(500);
    paced.ask();
    timers.advance(500);
    expect(runs).toEqual([10, 510]);
  });

  it('never runs once it is closed', () => {
    const runs: number[] = [];
    const { timers, paced } = pace((nowMs) => runs.push(nowMs));
    paced.ask();
    paced.close();
    paced.ask();
    timers.advance(1000);
    expect(runs).toEqual([]);
    expect(timers.size).toBe(0);
  });
});
