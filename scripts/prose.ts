/**
 * `npm run prose`: lints the documents. Most findings are errors. prose.json records the numbers of the other findings, which may only
 * fall. CONTRIBUTING.md explains the kinds.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineFlags, explaining, FlagError, scriptFlags } from '../test/support/script-flags.ts';
import { projectRoot } from './commands.ts';
import { type Finding, findingsOf, type Kind, kinds, type Ratchet, ratchets } from './prose/lint.ts';
import { proseTexts } from './prose/texts.ts';

const recordFile = join(projectRoot, 'prose.json');

const flags = defineFlags({
  help: `Usage: npm run prose -- [${kinds.join(' | ')}] [FILE or COMMAND ...] [--check | --write]

Lints the documents and the texts of settings, fields, help and API descriptions. Without a kind, it prints the number of
findings of each kind. With a kind or files, it prints the findings.

  --check   prints the errors, and the findings of each kind that has more than prose.json records. It fails if there are
            any, or fewer than recorded
  --write   records the numbers of ${ratchets.join(', ')}, unless one rose
Exit status: 0 if there are no errors and all numbers are as recorded, 1 otherwise, 2 for a wrong command line.
`,
  rows: { check: { type: 'boolean' }, write: { type: 'boolean' } },
  takesWords: true,
  read: (values, words) => ({ ...values, words }),
});

type Counts = Record<Kind, number>;
type Recorded = Record<Ratchet, number>;

export function countsOf(findings: readonly Finding[]): Counts {
  const counts = Object.fromEntries(kinds.map((kind) => [kind, 0])) as Counts;
  for (const { kind } of findings) counts[kind]++;
  return counts;
}

function isRatchet(kind: Kind): kind is Ratchet {
  return ratchets.some((ratchet) => ratchet === kind);
}

/** Returns in `rose` the kinds with more findings than recorded, and in `fell` those with fewer. Errors are never recorded. */
export function compareCounts(counts: Counts, recorded: Recorded): { rose: Kind[]; fell: Kind[] } {
  const allowed = (kind: Kind): number => (isRatchet(kind) ? recorded[kind] : 0);
  return {
    rose: kinds.filter((kind) => counts[kind] > allowed(kind)),
    fell: kinds.filter((kind) => counts[kind] < allowed(kind)),
  };
}

function readRecord(): Recorded {
  return JSON.parse(readFileSync(recordFile, 'utf8')) as Recorded;
}

function describeCount(kind: Kind, count: number, recorded: Recorded): string {
  return isRatchet(kind)
    ? `${kind}: ${count}, and ${recorded[kind]} are recorded`
    : `${kind}: ${count}, and none is allowed`;
}

function print(findings: readonly Finding[]): void {
  for (const { source, line, column, kind, message } of findings) {
    console.log(`${source}:${line}:${column}: ${message} [${kind}]`);
  }
}

async function main(): Promise<number> {
  const { words, ...values } = scriptFlags(flags);
  const wanted = kinds.filter((kind) => words.includes(kind));
  const files = words.filter((name) => !kinds.some((kind) => kind === name));
  const all = await proseTexts(projectRoot);
  const texts = all.filter(({ source }) => files.length === 0 || files.includes(source));
  explaining(flags.help, () => {
    if (texts.length === 0) throw new FlagError(`no document or command is called ${files.join(', ')}`);
  });
  const findings = await findingsOf(texts);
  const shown = wanted.length === 0 ? findings : findings.filter(({ kind }) => wanted.includes(kind));
  if (files.length > 0) {
    print(shown);
    return 0;
  }
  const counts = countsOf(findings);
  const recorded = readRecord();
  const { rose, fell } = compareCounts(counts, recorded);
  if (values.check || values.write) {
    print(findings.filter(({ kind }) => rose.includes(kind)));
    for (const kind of rose) console.error(describeCount(kind, counts[kind], recorded));
    if (values.write && rose.length === 0) {
      const numbers = Object.fromEntries(ratchets.map((kind) => [kind, counts[kind]]));
      writeFileSync(recordFile, `${JSON.stringify(numbers, null, 2)}\n`);
    }
    if (values.check && fell.length > 0) {
      console.error(`prose.json is out of date, run "npm run prose -- --write": fewer ${fell.join(', ')}`);
    }
    return rose.length > 0 || (values.check && fell.length > 0) ? 1 : 0;
  }
  if (wanted.length > 0) print(shown);
  for (const kind of wanted.length > 0 ? wanted : kinds) {
    console.log(describeCount(kind, counts[kind], recorded));
  }
  return rose.length > 0 ? 1 : 0;
}

if (import.meta.main) process.exitCode = await main();
