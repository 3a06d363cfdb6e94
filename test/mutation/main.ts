/** `npm run mutants`: how many small defects of a folder its tests find. */
import { existsSync, readFileSync } from 'node:fs';
import { defineFlags, FlagError, scriptFlags } from '../support/script-flags.ts';
import { runLuaMutants } from './run-lua-mutants.ts';
import { scoreLines, shortfall, survivorsIn } from './score.ts';
import { runTypeScriptMutants } from './typescript-mutants.ts';

const flags = defineFlags({
  help: `Usage: npm run mutants -- <folder> [flags]

Changes one operator, condition or constant of the folder's sources after the other, runs the tests that reach it, and says
which changes no test noticed. Sources on disk stay as they are. TypeScript is changed by StrykerJS and tested by the tests beside
the sources of its part, such as limiter or rules. For limiter/stores, the quick tests of test/stores also run; for control-plane, the
simulation, and tests of test/control-plane that need no API server. The Lua of Redis scripts is tested by test/stores.

  --count <n>   how many mutants of each language, a sample of all, 1 to 100000 (default 500)
  --seed <n>    of the sample, 0 to 2147483647 (default 1)
  --only <lang> typescript or lua (default: both)
  --least <n>   fails below this score, or without mutants to test, 0 to 100 (default 0)
  --survivors-of <file>
                instead of a sample: what survived in the run whose output is in the file. For limiter/stores, tests that
                wait for servers run, too

500 mutants take about ten minutes on two cores. They are tested in random order: those before an interruption are a sample, too.
Exit status: 0 when the score is reached, 1 when not, or when tests fail without a mutant, 2 for a wrong command line.
`,
  rows: {
    count: { type: 'number', min: 1, max: 100_000, whole: true, default: 500 },
    seed: { type: 'number', min: 0, max: 2_147_483_647, whole: true, default: 1 },
    only: { type: 'string' },
    least: { type: 'number', min: 0, max: 100, default: 0 },
    'survivors-of': { type: 'string' },
  },
  takesWords: true,
  read: ({ 'survivors-of': earlier, ...values }, [folder, more]) => {
    if (folder === undefined || more !== undefined)
      throw new FlagError('give one folder, such as limiter/decide');
    if (!existsSync(folder)) throw new FlagError(`there is no folder ${folder}`);
    if (earlier !== undefined && !existsSync(earlier)) throw new FlagError(`there is no file ${earlier}`);
    const { only } = values;
    if (only !== undefined && only !== 'typescript' && only !== 'lua')
      throw new FlagError(`--only is typescript or lua, not "${only}"`);
    const lines = earlier === undefined ? undefined : survivorsIn(readFileSync(earlier, 'utf8'));
    return { ...values, folder: folder.replace(/\/+$/, ''), lines };
  },
});

const { folder, only, least, ...sample } = scriptFlags(flags);
const byLanguage = { lua: runLuaMutants, typescript: runTypeScriptMutants };
const lines: string[] = [];
const shortfalls: string[] = [];
for (const [language, run] of Object.entries(byLanguage)) {
  if (only !== undefined && only !== language) continue;
  const reports = await run(folder, sample);
  if (reports === undefined) continue;
  const kind = `${folder}, ${language}`;
  lines.push(...scoreLines(kind, reports));
  shortfalls.push(...[shortfall(kind, reports, least)].filter((text) => text !== undefined));
}
for (const line of lines) console.log(line);
for (const text of shortfalls) console.error(text);
if (lines.length === 0) console.log(`${folder} has nothing to change`);
process.exit(shortfalls.length === 0 && lines.length > 0 ? 0 : 1);
