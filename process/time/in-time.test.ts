import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { inTime } from './clock.ts';

describe('inTime', () => {
  it('gives what the work gives, and leaves no timer', async () => {
    const timers = new ManualTimers();
    await expect(inTime(timers, 10, Promise.resolve('done'), 'late')).resolves.toBe('done');
    await expect(inTime(timers, 10, Promise.reject(new Error('broken')), 'late')).rejects.toThrow('broken');
    expect(timers.size).toBe(0);
  });

  it('gives what was named for work that takes longer', async () => {
    const timers = new ManualTimers();
    const waiting = inTime(timers, 10, new Promise<never>(() => {}), 'late');
    timers.advance(10);
    await expect(waiting).resolves.toBe('late');
  });
});
