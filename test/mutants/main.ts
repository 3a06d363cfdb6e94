/**
 * `npx node test/mutants/main.ts [--json] [--list] [TEXT]`: tries the mutants whose defect, file or declaration contains the text.
 * `--list` only names them.
 */
import { parseArgs } from 'node:util';
import { mutants } from './mutants.ts';
import { runMutants } from './run-mutants.ts';

const { values, positionals } = parseArgs({
  options: { json: { type: 'boolean' }, list: { type: 'boolean' } },
  allowPositionals: true,
});
const [text = ''] = positionals;
const chosen = mutants.filter(({ defect, file, within }) => `${defect} ${file} ${within}`.includes(text));
if (chosen.length === 0) {
  console.error(`no mutant contains ${JSON.stringify(text)}; --list names all`);
  process.exit(2);
}
if (values.list) {
  for (const { defect, file, within } of chosen) console.log(`${defect} (${file}, ${within})`);
  process.exit(0);
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
