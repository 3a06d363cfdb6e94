import { afterEach, expect } from 'vitest';
import { InProcessLimiter, type InProcessLimiterOptions } from './in-process-limiter.ts';
import { ManualTimers } from './manual-timers.ts';

/**
 * Starts limiters for the tests of a file, with what these have in common. After each test its limiters are stopped, and
 * have left no timer.
 */
export function limitersOfSuite(
  common: () => InProcessLimiterOptions,
): (
  env?: Readonly<Record<string, string>>,
  options?: Partial<InProcessLimiterOptions>,
) => Promise<InProcessLimiter> {
  const running: { limiter: InProcessLimiter; timers: InProcessLimiterOptions['timers'] }[] = [];
  afterEach(async () => {
    const ended = running.splice(0);
    await Promise.all(ended.map(({ limiter }) => limiter.stop()));
    for (const { timers } of ended) if (timers instanceof ManualTimers) expect(timers.size).toBe(0);
  });
  return async (env = {}, options = {}) => {
    const all = { ...common(), ...options };
    const limiter = await InProcessLimiter.start({ ...all, env: { ...all.env, ...env } });
    running.push({ limiter, timers: all.timers });
    return limiter;
  };
}
