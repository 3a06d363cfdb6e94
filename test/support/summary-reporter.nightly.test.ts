import { describe, expect, it } from 'vitest';
import { gate } from './gate-run.ts';

const retried = 'passed only when tried again: ';

describe('a test that fails once', () => {
  it.each([
    [
      'vitest',
      'Test timed out in ',
      'await new Promise((resolve) => { if (!isFirst) resolve(undefined); });',
    ],
    [
      'expect.poll',
      'expected true to be false',
      'await expect.poll(() => isFirst, { timeout: 100 }).toBe(false);',
    ],
  ])('is tried again if the time of %s was up', async (_, reason, body) => {
    const { code, output, tries } = await gate(body);
    expect({ code, tries }).toEqual({ code: 0, tries: 2 });
    const retriedLine = `${retried}a.test.ts > one (${reason}`;
    expect(output).toContain(`\n${retriedLine}`);
    expect(output).toMatch(/\)\nseed of the property tests: 77\n1 passed, 0 failed\n$/);
  });

  it('is tried again if it measures time', async () => {
    const run = await gate('expect(isFirst).toBe(false);', { file: 'a.timing.test.ts' });
    expect(run).toMatchObject({ code: 0, tries: 2, output: expect.stringContaining(retried) });
  });

  it('fails the run with its first error if something else tried it again', async () => {
    const { code, output, tries } = await gate(`expect(isFirst, 'planted').toBe(false);`, { setup: '' });
    expect({ code, tries }).toEqual({ code: 1, tries: 2 });
    expect(output).toContain(
      `\n${retried}a.test.ts > one\nAssertionError: planted: expected true to be false`,
    );
    expect(output).toMatch(/\n0 passed, 1 failed\n$/);
  });
});

describe('a property', () => {
  it('is not tried again, and reports seed, path and the smallest case', async () => {
    const { code, output, tries } = await gate(
      'fc.assert(fc.property(fc.nat(1000), (n) => !isFirst || n < 500));',
    );
    expect({ code, tries }).toEqual({ code: 1, tries: 1 });
    expect(output).toMatch(
      /Property failed after \d+ tests\n\{ seed: 77, path: "[\d:]+", endOnFailure: true \}/,
    );
    expect(output).toContain('Counterexample: [500]\n');
    expect(output).toMatch(/\nseed of the property tests: 77\n0 passed, 1 failed\n$/);
  });

  it('is not tried again when its time is up', async () => {
    const body = `await fc.assert(fc.asyncProperty(fc.nat(), async () => {
      if (isFirst) await new Promise(() => {});
    }));`;
    const run = await gate(body);
    expect(run).toMatchObject({ code: 1, tries: 1, output: expect.stringContaining('timed out in 2000ms') });
  });
});
