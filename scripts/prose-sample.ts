/**
 * `npm run prose-sample`: prints sentences of the documents mixed with sentences of other projects. A reader who does not know their
 * source can mark the sentences that a technical writer would rewrite.
 */
import { globSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { defineFlags, explaining, FlagError, scriptFlags } from '../test/support/script-flags.ts';
import { projectRoot } from './commands.ts';
import { mixSentences, type Sentence, sentencesIn, shareOfMarked } from './prose/sample.ts';

const documents = ['README.md', 'docs/start.md', 'docs/rules.md', 'docs/troubleshooting.md'];
const count = 100;

const flags = defineFlags({
  help: `Usage: npm run prose-sample -- <flags>

Prints ${count} sentences from ${documents.join(', ')}, mixed with ${count} sentences from the files in the other folder (.md, .rst, .txt, .html,
.sgml). Its lines have numbers, but no sources. The same seed and files give the same sample.

  --seed <n>          required; a whole number
  --beside <folder>   required; a folder with texts of other projects
  --marked <numbers>  prints the share of marked sentences for each source, and these sentences with their sources: "3 17 ..."
Exit status: 0, or 2 for a wrong command line or a folder with too few sentences.
`,
  rows: {
    seed: { type: 'number', min: 0, max: Number.MAX_SAFE_INTEGER, whole: true },
    beside: { type: 'string' },
    marked: { type: 'string' },
  },
  read: ({ seed, beside, marked }) => {
    if (seed === undefined || beside === undefined) throw new FlagError('give --seed and --beside');
    return { seed, beside, marked };
  },
});

function sentencesOfFiles(root: string, paths: readonly string[]): Promise<string[][]> {
  return Promise.all(paths.map((path) => sentencesIn(readFileSync(join(root, path), 'utf8'), extname(path))));
}

const { seed, beside, marked } = scriptFlags(flags);
const ours = await sentencesOfFiles(projectRoot, documents);
const others = globSync('**/*.{md,rst,txt,html,sgml}', { cwd: beside }).sort();
const theirs = await sentencesOfFiles(beside, others);
explaining(flags.help, () => {
  const sample = mixSentences({ ours: ours.flat(), theirs: theirs.flat() }, { seed, count });
  if (marked === undefined) {
    for (const [index, { text }] of sample.entries()) console.log(`${index + 1}. ${text}`);
    return;
  }
  const numbers = marked
    .split(/[\s,]+/)
    .filter(Boolean)
    .map(Number);
  const shares = shareOfMarked(sample, numbers);
  console.log(`ours: ${shares.ours}%, theirs: ${shares.theirs}%`);
  for (const number of numbers) print(number, sample[number - 1]!);
});

function print(number: number, { text, source }: Sentence): void {
  console.log(`${number}. (${source}) ${text}`);
}
