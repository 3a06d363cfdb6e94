import { describe, expect, it } from 'vitest';
import { gateWithProperty } from './property-gate.ts';

describe('a property that takes too much processor time', () => {
  it('runs again alone when all else has run, and passes if it does not then', async () => {
    const { output, ...run } = await gateWithProperty('isFirst');
    expect(run).toEqual({ code: 0, tries: [2, 1, 1] });
    expect(output).toContain('\ninterrupted, runs again: hangs.test.ts > a (suite) > hangs?\nseed of');
    expect(output.match(/^\d+ passed, .*$/gm)).toEqual(['3 passed, 0 failed, 1 skipped']);
  });

  it('fails if it does so again', async () => {
    const { output, ...run } = await gateWithProperty('true');
    expect(run).toEqual({ code: 1, tries: [2, 1, 1] });
    expect(output).toMatch(
      /interrupted after \d+ cases, which took more than 0.25 s of processor time, seed 77/,
    );
    expect(output).toMatch(
      /\ninterrupted: hangs\.test\.ts > a \(suite\) > hangs\?\nseed of .*\n2 passed, 1 failed, 1 skipped\n$/,
    );
  });

  it('fails at once if it has a counterexample', async () => {
    const { output, ...run } = await gateWithProperty('true', { property: '(n) => burn() && n < 3' });
    expect(run).toEqual({ code: 1, tries: [1, 1, 1] });
    expect(output).toContain('Counterexample: [');
    expect(output).toMatch(/\n2 passed, 1 failed, 1 skipped\n$/);
  });

  it('fails at once if one case failed, and a later one does not return', async () => {
    const { output, ...run } = await gateWithProperty('hasFailed', {
      property: '() => { burn(); hasFailed = true; return false; }',
      seconds: Number.POSITIVE_INFINITY,
    });
    expect(output).toContain('\nfailed, and then interrupted: hangs.test.ts > a (suite) > hangs?\n');
    expect(run).toMatchObject({ code: 1, tries: [2, 1, 1] });
    expect(output).toMatch(/\n2 passed, 1 failed, 1 skipped\n$/);
  });
});
