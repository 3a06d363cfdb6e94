/** summary-reporter.nightly.test.ts has the other reasons. */
import { describe, expect, it } from 'vitest';
import { gate } from './gate-run.ts';
import { faultsProject } from './second-tries.ts';

const retried = 'passed only when tried again: ';

describe('a test that fails once', () => {
  it('fails the run', async () => {
    const { code, output, tries } = await gate(`expect(isFirst, 'planted').toBe(false);`);
    expect({ code, tries }).toEqual({ code: 1, tries: 1 });
    expect(output).toContain('planted: expected true to be false');
    expect(output).toMatch(/\n0 passed, 1 failed\n$/);
  });

  it('is tried again if the time of a wait was up', async () => {
    const { code, output, tries } = await gate(
      'await eventually(() => expect(isFirst).toBe(false), { timeoutMs: 100 });',
    );
    expect({ code, tries }).toEqual({ code: 0, tries: 2 });
    expect(output).toContain(
      `\n${retried}a.test.ts > one (expected true to be false // Object.is equality)\nseed of the property tests: 77\n1 passed, 0 failed\n`,
    );
  });

  it('fails the run if it finds something among faults, whatever else happened', async () => {
    const head = 'let nowMs = 58_000; Date.now = () => nowMs;';
    const body = `if (isFirst) nowMs += 3000; expect(isFirst ? ['countedTwice is 1'] : []).toEqual([]);`;
    const run = await gate(body, { head, project: faultsProject, file: 'a.timing.test.ts' });
    expect(run).toMatchObject({ code: 1, tries: 1, output: expect.stringContaining('countedTwice is 1') });
  });

  it('is tried again among faults if a comparison of times failed', async () => {
    const body = 'compareTimes(() => expect(isFirst ? 400 : 4).toBeLessThan(350));';
    const run = await gate(body, { project: faultsProject, file: 'a.timing.test.ts' });
    expect(run).toMatchObject({ code: 0, tries: 2, output: expect.stringContaining(retried) });
  });

  it('is tried again if a minute ended during a short test', async () => {
    const head = 'let nowMs = 58_000; Date.now = () => nowMs;';
    const fails = 'expect(isFirst).toBe(false);';
    const short = await gate(`if (isFirst) nowMs += 3000; ${fails}`, { head });
    expect(short).toMatchObject({ code: 0, tries: 2, output: expect.stringContaining(retried) });
    const long = await gate(`if (isFirst) nowMs += 40_000; ${fails}`, { head });
    expect(long).toMatchObject({ code: 1, tries: 1 });
  });
});
