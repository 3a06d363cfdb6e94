import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ChildProgram } from './child-program.ts';
import { temporaryFolder } from './temporary-folder.ts';

const support = import.meta.dirname;
const modules = resolve(support, '../../node_modules');
const module = (name: string): string => JSON.stringify(join(support, name));

/**
 * Runs two files as the gate does. `isBusy` says whether cases of the property take `seconds` of processor time each. By default, many cases
 * fit between the limit and the end of the process. `isBusy` may ask `isFirst`, and `hasFailed`, which a property may set.
 */
export async function gateWithProperty(
  isBusy: string,
  { property = '() => burn()', seconds = 0.01 }: { property?: string; seconds?: number } = {},
) {
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
      let hasFailed = false;
      function burn() {
        const start = process.cpuUsage();
        while (${isBusy} && process.cpuUsage(start).user < ${seconds} * 1e6);
        return true;
      }
      describe('a (suite)', () => {
        it('hangs?', () => fc.assert(fc.property(fc.nat(), ${property})));
      });
      it('is beside it', () => appendFileSync('beside.tries', '.'));
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
  const tries = (name: string): number => {
    const path = join(folder, `${name}.tries`);
    return existsSync(path) ? readFileSync(path, 'utf8').length : 0;
  };
  return { code, output: program.output, tries: [tries('hangs'), tries('beside'), tries('plain')] };
}
