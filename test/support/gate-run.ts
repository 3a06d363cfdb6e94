import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ChildProgram } from './child-program.ts';
import { temporaryFolder } from './temporary-folder.ts';

const support = import.meta.dirname;
const modules = resolve(support, '../../node_modules');

export interface GateRun {
  code: number | null;
  output: string;
  /** How many tries there were. */
  tries: number;
}

/** Runs one test as the gate does, with one of its setup files; `body` may ask `isFirst`. `head` runs before the test is declared. */
export async function gate(
  body: string,
  { setup = 'property-cases.ts', file = 'a.test.ts', project = '', args = [] as string[], head = '' } = {},
): Promise<GateRun> {
  const folder = temporaryFolder();
  symlinkSync(modules, join(folder, 'node_modules'));
  const setupFiles = setup === '' ? [] : [join(support, setup)];
  const config = `export default { test: { name: ${JSON.stringify(project)}, setupFiles: ${JSON.stringify(setupFiles)}, retry: 1, pool: 'forks', maxWorkers: 1,
    reporters: ['default', ${JSON.stringify(join(support, 'summary-reporter.ts'))}] } };`;
  writeFileSync(join(folder, 'vitest.config.ts'), config);
  const text = `import { appendFileSync, existsSync } from 'node:fs';
    import fc from 'fast-check';
    import { expect, it } from 'vitest';
    import { eventually } from ${JSON.stringify(join(support, 'eventually.ts'))};
    import { compareTimes } from ${JSON.stringify(join(support, 'second-tries.ts'))};
    ${head}
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
