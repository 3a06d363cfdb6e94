import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { projectRoot } from '../../scripts/commands.ts';

/**
 * The files that start `weir` as a program, and their lines that name it. Anything else runs it by `runWeir`, which takes a tenth
 * of the CPU time.
 */
const allowed: Record<string, number> = {
  // Servers.
  'test/support/control-plane-process.ts': 1,
  'test/support/limiter-process.ts': 1,
  'test/support/pod-process.ts': 2,
  // The start itself: the version, and an older Node.
  'test/cli/cli.test.ts': 3,
  // What waits for changes until a signal ends it.
  'test/cli/rule-tests.test.ts': 2,
  'test/operate/watch.test.ts': 2,
  // Pipes of a shell, and the environment in /proc/self/environ.
  'test/cli/contained-files.test.ts': 2,
  'test/cli/diff.test.ts': 3,
  // kubectl finds the program by its name.
  'test/control-plane/kubectl-weir.test.ts': 1,
  // Commands of documents, as people type them.
  'test/cli/init.test.ts': 2,
  'test/e2e/cluster-examples.test.ts': 1,
  'test/e2e/adopt-first-pages.test.ts': 10,
  'test/e2e/adopt-go-service.test.ts': 1,
  // Examples of help texts that a shell runs.
  'test/cli/help-examples.test.ts': 1,
  // Scripts for a shell.
  'test/e2e/document-commands.test.ts': 1,
  'test/e2e/example-commands.test.ts': 1,
  'test/e2e/gitops-document.test.ts': 2,
  'test/package/pipelines.test.ts': 2,
  // The end of the process: by a signal, and once its connections are closed.
  'test/cli/ask-tls.test.ts': 1,
  'test/operate/commands.test.ts': 1,
  'test/operate/pods.test.ts': 1,
  // The program of an image or a release.
  'test/image/dockerfile.test.ts': 2,
  'test/package/release.nightly.test.ts': 2,
};

const supports = ['weir-program.ts', 'weir-program.test.ts', 'weir-command.ts'];
const start = /\bspawnWeir\(|\bweirProgram\b|\bbin\/(?:kubectl-)?weir\b/;
const other = /^import |^ *(?:\*|\/\*\*|\/\/)/;

it('is started by these files alone', () => {
  const found: Record<string, number> = {};
  for (const path of readdirSync(join(projectRoot, 'test'), { recursive: true, encoding: 'utf8' })) {
    if (!path.endsWith('.ts') || supports.some((name) => path === join('support', name))) continue;
    const lines = readFileSync(join(projectRoot, 'test', path), 'utf8').split('\n');
    const starts = lines.filter((line) => start.test(line) && !other.test(line)).length;
    if (starts > 0) found[`test/${path}`] = starts;
  }
  expect(found).toEqual(allowed);
});
