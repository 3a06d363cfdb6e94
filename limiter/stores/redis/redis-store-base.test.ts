import { describe, expect, it } from 'vitest';
import { type StartRetryOptions, startWithRetry } from './redis-store-base.ts';

/** Time passes only by sleeping; the first `failures` attempts fail. */
function start(failures: number, given: Partial<StartRetryOptions> = {}) {
  let nowMs = 0;
  const waits: number[] = [];
  const retries: unknown[] = [];
  let attempts = 0;
  const ended = startWithRetry({
    attempt: async () => {
      attempts += 1;
      if (attempts <= failures) throw new Error(`refused ${attempts}`);
    },
    label: 'host:6379',
    stopped: () => false,
    monotonicMs: () => nowMs,
    sleep: async (ms) => {
      waits.push(ms);
      nowMs += ms;
    },
    random: () => 1,
    onRetry: ({ waitMs, elapsedMs, error }) => retries.push([waitMs, elapsedMs, error.message]),
    ...given,
  });
  return { ended, waits, retries };
}

describe('startWithRetry', () => {
  it('waits not at all when the first attempt succeeds', async () => {
    const { ended, waits } = start(0);
    await ended;
    expect(waits).toEqual([]);
  });

  it('doubles its waits from 1 s to 30 s', async () => {
    const { ended, waits } = start(8);
    await ended;
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
  });

  it('takes half of each wait away at most', async () => {
    const { ended, waits } = start(3, { random: () => 0 });
    await ended;
    expect(waits).toEqual([500, 1000, 2000]);
  });

  it('reports each retry before it waits', async () => {
    const { ended, retries } = start(2);
    await ended;
    expect(retries).toEqual([
      [1000, 0, 'refused 1'],
      [2000, 1000, 'refused 2'],
    ]);
  });

  it('gives up when an attempt fails after the longest time', async () => {
    const { ended, waits } = start(99, { initialMs: 100, maxMs: 200, maxElapsedMs: 350 });
    await expect(ended).rejects.toThrow(
      'timed out waiting for Redis connection to host:6379 after 500 ms: refused 4',
    );
    expect(waits).toEqual([100, 200, 200]);
  });

  it('ends with the last error when stopped', async () => {
    const { ended, waits } = start(99, { stopped: () => true });
    await expect(ended).rejects.toThrow('refused 1');
    expect(waits).toEqual([]);
  });
});
