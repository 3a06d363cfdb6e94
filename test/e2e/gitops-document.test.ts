/** Runs the commands of pages as they are written, and compares their output with the output that the pages show. */
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runVariables } from '../support/child-program.ts';
import { commandsToRun, projectRoot, readDocument } from '../support/documents.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { weirProgram } from '../support/weir-program.ts';

const pages = [
  { page: 'docs/gitops.md', commands: commandsToRun('docs/gitops.md') },
  { page: 'docs/check.md', commands: commandsToRun('docs/check.md') },
  { page: 'docs/pull-requests.md', commands: commandsToRun('docs/pull-requests.md') },
  { page: 'docs/security.md', commands: commandsToRun('docs/security.md') },
  { page: 'docs/comparison.md', commands: commandsToRun('docs/comparison.md') },
  { page: 'docs/settings.md', commands: commandsToRun('docs/settings.md') },
  { page: 'docs/settings-control-plane.md', commands: commandsToRun('docs/settings-control-plane.md') },
];
const blocks = pages.flatMap(({ page }) => fencedBlocks(readDocument(page)));

let folder: string;
const repository = suiteFolder();
/** The commands leave files in the temporary folder, as in a pipeline, whose machine ends. */
const TMPDIR = suiteFolder();

/** A repository with the rules of the examples, one limit changed since `main`. */
beforeAll(() => {
  folder = repository;
  const rules = join(folder, 'rules');
  cpSync(join(projectRoot, 'examples/rules'), rules, { recursive: true });
  const git = 'git -c user.name=test -c user.email=test@localhost';
  shell(`git init -q -b main && git add . && ${git} commit -q -m rules`);
  shell('git update-ref refs/remotes/origin/main main');
  const shop = join(rules, 'shop.yaml');
  writeFileSync(shop, readFileSync(shop, 'utf8').replace('requests_per_unit: 5\n', 'requests_per_unit: 3\n'));
  mkdirSync(join(folder, '.bin'));
  const program = join(folder, '.bin/weir');
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${weirProgram}' "$@"\n`);
  chmodSync(program, 0o755);
});
// Commands change it.
beforeEach(() => {
  folder = temporaryFolder();
  cpSync(repository, folder, { recursive: true });
});

interface Outcome {
  status: number | null;
  output: string;
}

/** Runs a script and returns what a person would see, in that order. */
function shell(script: string, environment: Record<string, string> = {}): Outcome {
  const { PATH = '', HOME } = process.env;
  const { status, stdout } = spawnSync('bash', ['-e', '-c', `exec 2>&1\n${script}`], {
    cwd: folder,
    encoding: 'utf8',
    env: {
      ...runVariables(),
      TMPDIR,
      HOME,
      PATH: [join(folder, '.bin'), PATH].join(delimiter),
      ...environment,
    },
  });
  return { status, output: stdout };
}

/** What stands in the block right after a command's. */
function shownAfter(command: string): string {
  const index = blocks.findIndex(({ language, text }) => language === 'sh' && text.trim() === command);
  const next = blocks[index + 1];
  expect(next?.language, `a block of output after "${command}"`).toBe('');
  return `${next?.text}\n`;
}

describe.each(pages)('$page', ({ commands }) => {
  it('has commands', () => {
    expect(commands.length).toBeGreaterThanOrEqual(1);
  });

  it.each(commands)('shows what is printed by: %s', (command) => {
    const { status, output } = shell(command);
    expect(output).toBe(shownAfter(command));
    // A comparison that finds changes says so by its status; the others mask theirs.
    expect(status).toBe(command.startsWith('git show') ? 1 : 0);
  });
});
