import { expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { Pump } from './pump.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Each attempt fails; the server asks for ten seconds. */
function setUp() {
  const waiting = ['a'];
  const attempts: string[] = [];
  const timers = new ManualTimers();
  const state = { mayRun: true };
  const pump = new Pump<string, { retryAfterMs: number }>({
    queue: { next: () => waiting.shift(), nextDueMs: () => undefined },
    concurrency: 1,
    mayRun: () => state.mayRun,
    attempt: async (entry, failures) => {
      attempts.push(`${entry} ${failures}`);
      return { retryAfterMs: 10_000 };
    },
    givenUp: (entry) => attempts.push(`${entry} given up`),
    firstRetryMs: 100,
    maxRetryMs: 1_000,
    clock: new ManualClock(),
    timers,
    random: () => 0,
  });
  return { pump, attempts, timers, state };
}

it('waits as long as the server asks for', async () => {
  const { pump, attempts, timers } = setUp();
  pump.wake();
  await turn();
  timers.advance(9_999);
  await turn();
  expect(attempts).toEqual(['a 1']);
  timers.advance(1);
  await turn();
  expect(attempts).toEqual(['a 1', 'a 2']);
});

it('tries at once what waits, when its waits are ended', async () => {
  const { pump, attempts } = setUp();
  pump.wake();
  await turn();
  pump.endWaits();
  await turn();
  expect(attempts).toEqual(['a 1', 'a 2']);
});

it('gives up what waits when nothing may run', async () => {
  const { pump, attempts, timers, state } = setUp();
  pump.wake();
  await turn();
  state.mayRun = false;
  await pump.close();
  expect(attempts).toEqual(['a 1', 'a given up']);
  expect(timers.size).toBe(0);
});
