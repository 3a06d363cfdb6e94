import { expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { apiServerProgram } from '../support/find-server.ts';
import { runTruth } from './truth-run.ts';

describeWithServer('statuses, while things happen by chance for 20 seconds', apiServerProgram, () => {
  it('are true', async () => {
    const report = await runTruth({ seed: 1, durationMs: 20_000, progress: (line) => console.info(line) });
    expect(report.history, report.violations.join('\n')).toEqual([]);
    expect(report.violations).toEqual([]);
    expect(report.quietMoments).toBeGreaterThan(1);
  }, 240_000);
});
