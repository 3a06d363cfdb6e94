import { beforeEach, describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { silenceSeconds, watchHeartbeat } from './worker-thread.ts';

describe('watchHeartbeat', () => {
  let timers: ManualTimers;
  let asked: (() => void)[];
  let silences: number;
  let end: () => void;
  beforeEach(() => {
    timers = new ManualTimers();
    asked = [];
    silences = 0;
    end = watchHeartbeat(
      timers,
      () => new Promise((resolve) => asked.push(() => resolve(undefined))),
      () => {
        silences += 1;
      },
    );
  });

  it('asks one question at a time', async () => {
    timers.advance(4_999);
    expect(asked).toHaveLength(0);
    timers.advance(10_001);
    expect(asked).toHaveLength(1);
    asked[0]?.();
    await Promise.resolve();
    timers.advance(5_000);
    expect(asked).toHaveLength(2);
  });

  it('reports the silence once', () => {
    timers.advance(5_000 + silenceSeconds * 1_000 - 1);
    expect(silences).toBe(0);
    timers.advance(1);
    expect(silences).toBe(1);
    timers.advance(1_000_000);
    expect([silences, timers.size]).toEqual([1, 0]);
  });

  it('restarts the count with each answer', async () => {
    timers.advance(30_000);
    asked[0]?.();
    await Promise.resolve();
    timers.advance(30_000);
    expect([asked.length, silences]).toEqual([2, 0]);
  });

  it('ends', () => {
    end();
    expect(timers.size).toBe(0);
  });
});
