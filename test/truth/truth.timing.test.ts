import { expect, it } from 'vitest';
import { longTestDefects } from '../mutants/long-test-defects.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { apiServerProgram } from '../support/find-server.ts';
import { runTruth } from './truth-run.ts';

describeWithServer('statuses, while things happen by chance for 20 seconds', apiServerProgram, () => {
  it('are true, and those of a control plane with a known defect are not', async () => {
    const report = await runTruth({
      seed: 1,
      durationMs: 20_000,
      progress: (line) => console.info(line),
      defectAtEnd: longTestDefects.truth,
    });
    expect(report.history, report.violations.join('\n')).toEqual([]);
    expect(report.violations).toEqual([]);
    expect(report.quietMoments).toBeGreaterThan(1);
    expect(report.underDefect[0]).toMatch(/^\S+: Ready=/);
  }, 240_000);
});
