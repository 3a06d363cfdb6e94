/**
 * `npm run cost-of-change`: counts the hand-written files that touch each field of a rule, algorithm, setting, reason and flag,
 * and the imports that form cycles. Compares the counts with cost-of-change.json. docs/testing.md explains the numbers.
 */
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineFlags, FlagError, scriptFlags } from '../test/support/script-flags.ts';
import { projectRoot } from './commands.ts';
import { baseCommit, committedText, withCommit } from './cost-of-change/committed.ts';
import { type Cycles, cyclesOf } from './cost-of-change/cycles.ts';
import { ruleWords } from './cost-of-change/fields.ts';
import { type Kind, kinds, type Touched, touchedNames } from './cost-of-change/names.ts';
import { withSources } from './cost-of-change/project.ts';
import {
  type CostRecord,
  compare,
  correctedBase,
  type Measurement,
  newlyCorrected,
  nextRecord,
  recordText,
  sumOf,
} from './cost-of-change/record.ts';

const recordName = 'cost-of-change.json';
const configName = 'tsconfig.sources.json';
const recordFile = join(projectRoot, recordName);

const flags = defineFlags({
  help: `Usage: npm run cost-of-change -- [${kinds.join(' | ')} | cycles] [--files] [--check | --write]

Counts the hand-written files that touch each name, and the import cycles, and compares them with cost-of-change.json. No number
may rise above the committed one: that of the commit where this branch began or, on the main branch, of the last commit. If
BEFORE_PUSH names the last commit before a push to the main branch, its numbers apply instead.
Without a kind, it prints the sum and the ten worst names of each kind. With a kind, it prints all of its names.

  --files   also prints the files of each name
  --check   prints only differences from the record
  --write   records the counts, unless one rose without an explanation
Exit status: 0 if all counts are as recorded, 1 if a count rose or the record is out of date, 2 for a wrong command line.
`,
  rows: { files: { type: 'boolean' }, check: { type: 'boolean' }, write: { type: 'boolean' } },
  takesWords: true,
  read: (values, words) => {
    const known = [...kinds, 'cycles'] as const;
    const kind = known.find((one) => one === words[0]);
    if (words.length > (kind === undefined ? 0 : 1))
      throw new FlagError(`${words.join(' ')}: no kind; take ${known.join(', ')}`);
    if (values.check && values.write) throw new FlagError('--check and --write: take one of them');
    return { ...values, kind };
  },
});

/** Measures the project in a folder. */
export function measureCost(root: string, configFile: string): Measurement {
  return withSources(root, configFile, ruleWords, (sources) => ({
    touched: touchedNames(sources),
    cycles: cyclesOf(sources.imports),
  }));
}

/** Measures the project of a commit with the packages that are installed now. */
export function measureCommit(root: string, commit: string, configFile: string): Measurement {
  return withCommit(root, commit, (folder) => {
    const packages = join(root, 'node_modules');
    if (existsSync(packages)) symlinkSync(packages, join(folder, 'node_modules'));
    return measureCost(folder, configFile);
  });
}

/** Returns the record in Git, with the corrections that Git does not have yet. Undefined if Git has no record. */
function baseOf(record: CostRecord): CostRecord | undefined {
  const place = [projectRoot, recordName, process.env['BEFORE_PUSH']] as const;
  const committed = committedText(...place);
  if (committed === undefined) return undefined;
  const base = parsedRecord(committed);
  const corrected = newlyCorrected(record, base);
  if (corrected.length === 0) return base;
  return correctedBase(
    base,
    corrected,
    measureCommit(projectRoot, baseCommit(...place)!, configName).touched,
  );
}

/** Records of earlier commits have no corrections. */
const parsedRecord = (text: string): CostRecord => ({
  corrections: [],
  ...(JSON.parse(text) as Omit<CostRecord, 'corrections'>),
});

/** Chosen: this many names of five kinds fit on a screen. */
const worst = 10;

export function kindText(kind: Kind, touched: Touched, max: number, withFiles: boolean): string {
  const byCount = [...touched].sort(([, a], [, b]) => b.length - a.length);
  const rows = byCount.slice(0, max).flatMap(([name, files]) => {
    const row = `  ${String(files.length).padStart(3)}  ${name}`;
    return withFiles ? [row, ...files.map((file) => `         ${file}`)] : [row];
  });
  return [`${kind}: ${touched.size} names, ${sumOf(touched.values())} in sum`, ...rows].join('\n');
}

export function cyclesText({ groups, imports }: Cycles, withFiles: boolean): string {
  const rows = groups.map((group) => `  ${group.join('\n    ')}`);
  return [
    `cycles: ${groups.length}, with ${groups.flat().length} files and ${imports.length} imports in them`,
    ...(withFiles ? rows : []),
  ].join('\n');
}

/** Prints how the measurement differs from the record. Returns whether the record is up to date. */
function report(measured: Measurement, isWriting: boolean): boolean {
  const record = existsSync(recordFile) ? parsedRecord(readFileSync(recordFile, 'utf8')) : undefined;
  const base = record && (baseOf(record) ?? record);
  const { problems, changes } =
    record === undefined ? { problems: [], changes: [] } : compare(record, base ?? record, measured);
  for (const problem of problems) console.log(problem);
  if (problems.length > 0) {
    if (isWriting) console.log('cost-of-change.json is unchanged: counts rose without an explanation');
    return false;
  }
  if (isWriting) {
    writeFileSync(recordFile, recordText(nextRecord(record, base, measured)));
    console.log(changes.length === 0 ? 'no count differs from the record' : changes.join('\n'));
    return true;
  }
  if (changes.length === 0 && record !== undefined) return true;
  console.log(`${changes.join('\n')}\ncost-of-change.json is out of date: npm run cost-of-change -- --write`);
  return false;
}

function main(): void {
  const { kind, files: withFiles, check, write } = scriptFlags(flags);
  const measured = measureCost(projectRoot, configName);
  if (!check && !write) {
    for (const one of kind === undefined ? kinds : kinds.filter((name) => name === kind)) {
      const max = kind === undefined ? worst : Number.POSITIVE_INFINITY;
      console.log(`${kindText(one, measured.touched[one], max, withFiles)}\n`);
    }
    const isOfCycles = kind === 'cycles';
    if (kind === undefined || isOfCycles) console.log(`${cyclesText(measured.cycles, isOfCycles)}\n`);
  }
  if (!report(measured, write)) process.exitCode = 1;
}

if (import.meta.main) main();
