import { expect, it } from 'vitest';
import { longTestDefects, withDefect } from '../mutants/long-test-defects.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { failureModeCases } from './cases/failure-modes.ts';
import { breaches } from './fault-figures.ts';
import { runFaultCase } from './fault-run.ts';
import { testPace } from './fault-suite.ts';

describeWithServer('a limiter with a known defect', redisProgram, () => {
  it('is found while Redis is away', { timeout: 150_000 }, async () => {
    const local = failureModeCases.find(({ name }) => name === 'mode-local')!;
    const pace = { ...testPace, outageMs: 1500 };
    const { figures } = await withDefect(longTestDefects.faults, () => runFaultCase(local, pace));
    expect(breaches(figures, local.bounds)).toContainEqual(
      expect.stringMatching(/^lost is \d+, more than 100$/),
    );
  });
});
