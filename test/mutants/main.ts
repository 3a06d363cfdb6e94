/** `npx node test/mutants/main.ts`: tries named mutants. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../scripts/commands.ts';
import { defineFlags, scriptFlags } from '../support/script-flags.ts';
import { longTestDefects } from './long-test-defects.ts';
import { type Defect, MutantError, mutated } from './mutant-source.ts';
import { mutants } from './mutants.ts';
import { runMutants } from './run-mutants.ts';

const flags = defineFlags({
  help: `Usage: npx node test/mutants/main.ts [text] [flags]

Tries the mutants whose defect, file or declaration contains the text: puts each into the sources and runs its test.

  --list   prints the mutants, and tries none
  --check  prints the mutants, also of the long tests, that no longer apply to the sources, and tries none
  --json   prints the outcomes as JSON

Exit status: 0 if each test finds its mutant, 1 if not, 2 for a wrong command line, or if no mutant contains the text.
`,
  rows: { json: { type: 'boolean' }, list: { type: 'boolean' }, check: { type: 'boolean' } },
  takesWords: true,
  read: (values, [text = '']) => ({ ...values, text }),
});
const { text, ...values } = scriptFlags(flags);
const chosen = mutants.filter(({ defect, file, within }) => `${defect} ${file} ${within}`.includes(text));
if (chosen.length === 0) {
  console.error(`no mutant contains ${JSON.stringify(text)}; --list names all`);
  process.exit(2);
}
if (values.list) {
  for (const { defect, file, within } of chosen) console.log(`${defect} (${file}, ${within})`);
  process.exit(0);
}
if (values.check) {
  const problems = [...chosen, ...Object.values(longTestDefects)].flatMap(problemsOf);
  for (const problem of problems) console.error(problem);
  process.exit(problems.length === 0 ? 0 : 1);
}
const result = await runMutants(chosen);
if (values.json) process.stdout.write(JSON.stringify(result));
else {
  for (const { defect, is, details } of result.outcomes) {
    console.log(`${is.padEnd(8)} ${defect}`);
    for (const detail of details) console.log(`           ${detail}`);
  }
  for (const failure of result.failuresWithout) console.log(`fails without a defect: ${failure}`);
}
const isGood =
  result.failuresWithout.length === 0 &&
  result.outcomes.every(
    ({ is }, index) => is === 'killed' || (is === 'timedOut' && chosen[index]!.byTimeout),
  );
process.exitCode = isGood ? 0 : 1;

/** Returns why the defect can no longer be put into the sources. */
function problemsOf(defect: Defect): string[] {
  const path = join(projectRoot, defect.file);
  if (!existsSync(path)) return [`${defect.file} is missing: ${defect.defect}`];
  try {
    mutated(readFileSync(path, 'utf8'), defect);
    return [];
  } catch (error) {
    if (error instanceof MutantError) return [`${error.message} (${defect.defect})`];
    throw error;
  }
}
