import { expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { apiServerProgram } from '../support/find-server.ts';
import { runTruth } from './truth-run.ts';

describeWithServer('statuses, while things happen by chance for two minutes', apiServerProgram, () => {
  it('are true', async () => {
    const report = await runTruth({ seed: 1, durationMs: 120_000, progress: (line) => console.info(line) });
    expect(report.history, report.violations.join('\n')).toEqual([]);
    expect(report.violations).toEqual([]);
    // What a run without anything to judge would have, too. On an idle machine there are over 2,000.
    expect(report.looks.ready).toBeGreaterThan(500);
    expect(report.looks.overrides).toBeGreaterThan(20);
    expect(report.looks.endedAlone).toBeGreaterThan(0);
    expect(report.calmMoments).toBeGreaterThan(1);
  }, 480_000);
});
