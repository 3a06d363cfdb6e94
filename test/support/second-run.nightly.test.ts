import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ChildProgram } from './child-program.ts';
import { temporaryFolder } from './temporary-folder.ts';

const support = import.meta.dirname;
const modules = resolve(support, '../../node_modules');
const module = (name: string): string => JSON.stringify(join(support, name));

/** Runs two files as the gate does; `isBusy` says whether cases of the property take 0.1 s of processor time each. */
async function gate(isBusy: string, property = '() => burn()') {
  const folder = temporaryFolder();
  symlinkSync(modules, join(folder, 'node_modules'));
  const files = {
    'vitest.config.ts': `export default { test: { setupFiles: [${module('property-cases.ts')}], retry: 1,
      pool: 'forks', maxWorkers: 2, reporters: ['default', ${module('summary-reporter.ts')}] } };`,
    'hangs.test.ts': `import { appendFileSync, existsSync } from 'node:fs';
      import fc from 'fast-check';
      import { describe, it } from 'vitest';
      const isFirst = !existsSync('hangs.tries');
      appendFileSync('hangs.tries', '.');
      function burn() {
        const start = process.cpuUsage();
        while (${isBusy} && process.cpuUsage(start).user < 100_000);
        return true;
      }
      describe('a (suite)', () => {
        it('hangs?', () => fc.assert(fc.property(fc.nat(), ${property})));
      });
      it('is beside it', () => {});
      it.skip('never runs', () => {});`,
    'plain.test.ts': `import { appendFileSync } from 'node:fs';
      import { it } from 'vitest';
      it('passes', () => appendFileSync('plain.tries', '.'));`,
    'run.ts': `import { spawnSync } from 'node:child_process';
      import { runWithSecondRun } from ${module('second-run.ts')};
      process.exitCode = runWithSecondRun((args) =>
        spawnSync(process.execPath, [${JSON.stringify(join(modules, 'vitest/vitest.mjs'))}, 'run', ...(args ?? [])],
          { stdio: 'inherit' }).status);`,
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const program = new ChildProgram({
    command: process.execPath,
    args: ['run.ts'],
    cwd: folder,
    env: {
      ...process.env,
      NO_COLOR: '1',
      PROPERTY_SEED: '77',
      PROPERTY_CPU_SECONDS: '0.25',
      VITEST: undefined,
    },
  });
  const { code } = await program.ended;
  const tries = (name: string): number => readFileSync(join(folder, `${name}.tries`), 'utf8').length;
  return { code, output: program.output, tries: [tries('hangs'), tries('plain')] };
}

describe('a property that takes too much processor time', () => {
  it('runs again alone when all else has run, and passes where it does not then', async () => {
    const { output, ...run } = await gate('isFirst');
    expect(run).toEqual({ code: 0, tries: [2, 1] });
    expect(output).toContain('\ninterrupted, runs again: hangs.test.ts > a (suite) > hangs?\nseed of');
    expect(output.match(/^\d+ passed, .*$/gm)).toEqual(['3 passed, 0 failed, 1 skipped']);
  });

  it('fails where it does so again', async () => {
    const { output, ...run } = await gate('true');
    expect(run).toEqual({ code: 1, tries: [2, 1] });
    expect(output).toMatch(
      /interrupted after \d cases, which took more than 0.25 s of processor time, seed 77/,
    );
    expect(output).toMatch(
      /\ninterrupted: hangs\.test\.ts > a \(suite\) > hangs\?\nseed of .*\n2 passed, 1 failed, 1 skipped\n$/,
    );
  });

  it('fails at once where it has a counterexample', async () => {
    const { output, ...run } = await gate('true', '(n) => burn() && n < 3');
    expect(run).toEqual({ code: 1, tries: [1, 1] });
    expect(output).toContain('Counterexample: [');
    expect(output).toMatch(/\n2 passed, 1 failed, 1 skipped\n$/);
  });
});
