/**
 * `npm run compare-tests`: compares the syntax trees of the tests of two commits, with identifiers and text blanked,
 * and lists every other difference. So it shows whether a change of names and texts has changed what is tested.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineFlags, FlagError, scriptFlags } from '../test/support/script-flags.ts';
import { blankedTree } from './blanked-tree.ts';
import { projectRoot } from './commands.ts';

const { before, after } = scriptFlags(
  defineFlags({
    help: `Usage: npm run compare-tests -- <before> [after]

Lists how the tests of two commits differ, apart from names and texts. The second commit is HEAD by default.
`,
    rows: {},
    takesWords: true,
    read: (_, [one, other = 'HEAD', ...more]) => {
      if (one === undefined || more.length > 0) throw new FlagError('give one commit or two');
      return { before: one, after: other };
    },
  }),
);

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: projectRoot, encoding: 'utf8', maxBuffer: 1 << 28 });
}

function treeOf(commit: string, path: string) {
  return blankedTree(git('show', `${commit}:${path}`), path);
}

/** Returns the ranges of lines that differ, in the file before and after, according to `git diff` of both trees. */
function differences(old: readonly { node: string; line: number }[], now: typeof old): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'weir-compare-tests-'));
  try {
    const files = [old, now].map((tree, index) => {
      const file = join(folder, String(index));
      writeFileSync(file, `${tree.map(({ node }) => node).join('\n')}\n`);
      return file;
    });
    const { stdout } = spawnSync('git', ['diff', '--no-index', '--unified=0', '--minimal', ...files], {
      encoding: 'utf8',
    });
    return [...stdout.matchAll(/^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/gm)].map(
      ([, from = '', removed = '1', to = '', added = '1']) => {
        const place = (tree: typeof old, index: string) => tree[Math.max(Number(index) - 1, 0)]?.line ?? 1;
        return `line ${place(old, from)} -> ${place(now, to)}: ${removed} nodes less, ${added} more`;
      },
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const isTest = (path: string): boolean => /^test\/.*\.ts$|\.test\.ts$/.test(path);
const changes = git('diff', '--name-status', '--find-renames=30%', '-l0', before, after).trim().split('\n');
let compared = 0;
let different = 0;
for (const [status = '', from = '', to = from] of changes.map((line) => line.split('\t'))) {
  if (!isTest(from) && !isTest(to)) continue;
  compared++;
  const found =
    status === 'A' || status === 'D'
      ? [status === 'A' ? 'added' : 'deleted']
      : differences(treeOf(before, from), treeOf(after, to));
  if (found.length === 0) continue;
  different++;
  console.log(from === to ? from : `${from} -> ${to}`);
  for (const line of found) console.log(`  ${line}`);
}
console.log(`${compared} changed test files, ${different} with other differences than names and text`);
