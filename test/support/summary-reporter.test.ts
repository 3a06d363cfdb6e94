import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ChildProgram } from './child-program.ts';
import { temporaryFolder } from './temporary-folder.ts';

const support = import.meta.dirname;
const modules = resolve(support, '../../node_modules');

interface Run {
  code: number | null;
  output: string;
  /** How many tries there were. */
  tries: number;
}

/** Runs one test as the gate does; `body` may ask `isFirst`. */
async function gate(
  body: string,
  { isSetUp = true, file = 'a.test.ts', args = [] as string[] } = {},
): Promise<Run> {
  const folder = temporaryFolder();
  symlinkSync(modules, join(folder, 'node_modules'));
  const setup = isSetUp ? `setupFiles: [${JSON.stringify(join(support, 'property-cases.ts'))}],` : '';
  const config = `export default { test: { ${setup} retry: 1, pool: 'forks', maxWorkers: 1,
    reporters: ['default', ${JSON.stringify(join(support, 'summary-reporter.ts'))}] } };`;
  writeFileSync(join(folder, 'vitest.config.ts'), config);
  const text = `import { appendFileSync, existsSync } from 'node:fs';
    import fc from 'fast-check';
    import { expect, it } from 'vitest';
    import { eventually } from ${JSON.stringify(join(support, 'eventually.ts'))};
    it('one', async () => {
      const isFirst = !existsSync('tries');
      appendFileSync('tries', '.');
      ${body}
    }, 2000);`;
  writeFileSync(join(folder, file), text);
  const program = new ChildProgram({
    command: process.execPath,
    args: [join(modules, 'vitest/vitest.mjs'), 'run', ...args],
    cwd: folder,
    env: { ...process.env, NO_COLOR: '1', PROPERTY_SEED: '77', VITEST: undefined },
  });
  const { code } = await program.ended;
  return { code, output: program.output, tries: readFileSync(join(folder, 'tries'), 'utf8').length };
}

const retried = 'passed only when tried again: ';

describe('a test that fails once', () => {
  it('fails the run', async () => {
    const { code, output, tries } = await gate(`expect(isFirst, 'planted').toBe(false);`);
    expect({ code, tries }).toEqual({ code: 1, tries: 1 });
    expect(output).toContain('planted: expected true to be false');
    expect(output).toMatch(/\n0 passed, 1 failed\n$/);
  });

  it.each([
    ['vitest', 'await new Promise((resolve) => { if (!isFirst) resolve(undefined); });'],
    ['eventually', 'await eventually(() => expect(isFirst).toBe(false), { timeoutMs: 100 });'],
    ['expect.poll', 'await expect.poll(() => isFirst, { timeout: 100 }).toBe(false);'],
  ])('is tried again where the time of %s was up', async (_, body) => {
    const { code, output, tries } = await gate(body);
    expect({ code, tries }).toEqual({ code: 0, tries: 2 });
    expect(output).toContain(
      `\n${retried}a.test.ts > one\nseed of the property tests: 77\n1 passed, 0 failed\n`,
    );
  });

  it('is tried again where it measures time', async () => {
    const run = await gate('expect(isFirst).toBe(false);', { file: 'a.timing.test.ts' });
    expect(run).toMatchObject({ code: 0, tries: 2, output: expect.stringContaining(retried) });
  });

  it('fails the run with its first error where something else tried it again', async () => {
    const { code, output, tries } = await gate(`expect(isFirst, 'planted').toBe(false);`, { isSetUp: false });
    expect({ code, tries }).toEqual({ code: 1, tries: 2 });
    expect(output).toContain(
      `\n${retried}a.test.ts > one\nAssertionError: planted: expected true to be false`,
    );
    expect(output).toMatch(/\n0 passed, 1 failed\n$/);
  });
});

describe('a property', () => {
  it('is not tried again, and tells seed, path and the smallest case', async () => {
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
