/**
 * `npm run prose-sample`: prints sentences of the documents mixed with sentences of other projects, so that a reader who does not know
 * which is which can mark those that a technical writer would rewrite.
 */
import { globSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { projectRoot } from './commands.ts';
import { mixSentences, type Sentence, sentencesIn, shareOfMarked } from './prose/sample.ts';

const documents = ['README.md', 'docs/start.md', 'docs/rules.md', 'docs/troubleshooting.md'];
const count = 100;

const usage = `Usage: npm run prose-sample -- --seed N --beside FOLDER [--marked "3 17 ..."]

Prints ${count} sentences from ${documents.join(', ')}, mixed with ${count} sentences from the files in FOLDER (.md, .rst, .txt, .html,
.sgml). Its lines have numbers, but no sources. The same seed and files give the same sample.

  --marked <numbers>  prints the share of marked sentences for each source, and these sentences with their sources
Exit status: 0, or 2 for a wrong command line or a folder with too few sentences.
`;

function sentencesOfFiles(root: string, paths: readonly string[]): Promise<string[][]> {
  return Promise.all(paths.map((path) => sentencesIn(readFileSync(join(root, path), 'utf8'), extname(path))));
}

async function main(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seed: { type: 'string' },
      beside: { type: 'string' },
      marked: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return console.log(usage);
  const { seed, beside, marked } = values;
  if (seed === undefined || !/^\d+$/.test(seed)) throw new TypeError('--seed takes a whole number');
  if (beside === undefined) throw new TypeError('--beside takes a folder with texts of other projects');
  const ours = await sentencesOfFiles(projectRoot, documents);
  const theirs = await sentencesOfFiles(
    beside,
    globSync('**/*.{md,rst,txt,html,sgml}', { cwd: beside }).sort(),
  );
  const sample = mixSentences({ ours: ours.flat(), theirs: theirs.flat() }, { seed: Number(seed), count });
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
}

function print(number: number, { text, source }: Sentence): void {
  console.log(`${number}. (${source}) ${text}`);
}

await main(process.argv.slice(2)).catch((error: unknown) => {
  if (!(error instanceof TypeError)) throw error;
  console.error(`${error.message}\n\n${usage}`);
  process.exitCode = 2;
});
