import { expect, it } from 'vitest';

import { longTestDefects, withDefect } from '../mutants/long-test-defects.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { compareTimes } from '../support/second-tries.ts';
import { problemsOf } from './problems.ts';
import { type SoakReport, soak } from './soak.ts';
import { connectionCount } from './soak-load.ts';

describeWithServer('a limiter under load for 8 seconds', redisProgram, (redisPath) => {
  it('answers rightly, keeps nothing, and ends well', async () => {
    const report = await soak({ redisPath, seed: 7, durationMs: 8_000 });
    expect(problemsOf(report)).toEqual([]);
    // An idle machine has 40,000. What is asked is that the load was one.
    compareTimes(() => {
      expect(report.answered).toBeGreaterThan(6_000);
      expect(report.connectionsOpened).toBeGreaterThan(connectionCount);
    });
  }, 120_000);
});

describeWithServer('a limiter with a known defect', redisProgram, (redisPath) => {
  it('is found in seconds', async () => {
    const report = await withDefect(longTestDefects.soak, () =>
      soak({ redisPath, seed: 7, durationMs: 4_000 }),
    );
    expect(problemsOf(report)).toContainEqual(expect.stringMatching(/^arrayBuffers grew from /));
  }, 150_000);
});

it('is distinguished from one that went wrong', () => {
  const memory = (heapUsed: number) => ({ heapUsed, arrayBuffers: 1_000 });
  const good: SoakReport = {
    answered: 1,
    failed: 0,
    faultCount: 0,
    faults: [],
    connectionsOpened: 1,
    connectionsLeft: 0,
    rulesLoaded: 6,
    happened: { failedCalls: 1, newRules: 1, reachedLimits: 1, connectionsEnded: 1 },
    memory: [20e6, 24e6, 26e6, 24e6, 26e6].map(memory),
    exitCode: 0,
    complaints: [],
  };
  expect(problemsOf(good)).toEqual([]);
  expect(problemsOf({ ...good, memory: [20e6, 24e6, 25e6, 26e6, 27e6].map(memory) })).toEqual([
    'heapUsed grew from 20000000 to 26000000 bytes',
  ]);
  const happened = { ...good.happened, failedCalls: 0, newRules: 0 };
  expect(problemsOf({ ...good, happened })).toEqual([
    'failedCalls: none in this run',
    'newRules: none in this run',
  ]);
  expect(problemsOf({ ...good, faultCount: 3, faults: ['a'], connectionsLeft: 2, exitCode: 1 })).toEqual([
    'a',
    '2 faults more',
    '2 connections were left',
    'the limiter ended with 1',
  ]);
});
