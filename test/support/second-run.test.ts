/** second-run.nightly.test.ts has the properties whose cases return. */
import { describe, expect, it } from 'vitest';
import { gateWithProperty } from './property-gate.ts';

const endless = Number.POSITIVE_INFINITY;
const took = 'took more than 0.25 s of processor time';

describe('a property with a case that does not return', () => {
  it('runs again alone when all else has run, with the tests behind it, and passes if it returns then', async () => {
    const { output, ...run } = await gateWithProperty('isFirst', { seconds: endless });
    expect(run).toEqual({ code: 0, tries: [2, 1, 1] });
    expect(output).toContain(
      `a case does not return: hangs.test.ts > a (suite) > hangs? ${took}, seed 77: its process ends\n`,
    );
    expect(output).toContain(
      '\ninterrupted, as a case took more than 0.25 s of processor time, runs again: hangs.test.ts > a (suite) > hangs?\n' +
        'not run, as its process was ended, runs again: hangs.test.ts > is beside it\nseed of',
    );
    expect(output.match(/^\d+ passed, .*$/gm)).toEqual(['3 passed, 0 failed, 1 skipped']);
  });

  it('fails by its name if it does not return then either', async () => {
    const { output, ...run } = await gateWithProperty('true', { seconds: endless });
    expect(run).toEqual({ code: 1, tries: [2, 0, 1] });
    expect(output.match(/^a case does not return: /gm)).toHaveLength(2);
    expect(output).toMatch(
      /\ninterrupted, as .*: hangs\.test\.ts > a \(suite\) > hangs\?\nnot run, as .*: hangs\.test\.ts > is beside it\nseed of .*\n1 passed, 2 failed, 1 skipped\n$/,
    );
  });
});
