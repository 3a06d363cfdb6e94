/**
 * `npm test`: installs the servers that the selected tests need, and runs the tests. It passes its arguments to vitest. `npm run
 * test:unit` (`--unit`) runs only the tests beside the sources, which need no servers. `npm run test:nightly` (`--nightly`) runs the
 * tests that are too long for the gate.
 */
import { join } from 'node:path';
import { runWithSecondRun } from '../test/support/second-run.ts';
import { capture, projectRoot, run } from './commands.ts';
import { neededServers } from './needed-servers.ts';
import { installServers } from './test-servers.ts';

const [, selected] = /^--(unit|nightly)$/.exec(process.argv[2] ?? '') ?? [];
const args = process.argv.slice(selected === undefined ? 2 : 3);
const isUnit = selected === 'unit';
// vitest.config.ts reads it.
if (selected !== undefined) process.env['TESTS'] = selected;

/** Returns absolute paths. Undefined if vitest does not accept the arguments; vitest then reports the mistake when it runs. */
function selectedFiles(): string[] | undefined {
  const { status, stdout } = capture('vitest', ['list', '--filesOnly', ...args]);
  if (status !== 0) return undefined;
  return Array.from(stdout.matchAll(/^\[\w+\] (.*\.test\.ts)$/gm), ([, path = '']) =>
    join(projectRoot, path),
  );
}

const files = selectedFiles();
if (files?.length === 0) {
  const elsewhere = isUnit ? '; those below test/ start programs, and npm test runs them' : '';
  console.error(
    `no test${isUnit ? ' beside the sources' : ''} is selected by "${args.join(' ')}": ` +
      `a filter is a part of the path of a *.test.ts file${elsewhere}`,
  );
  process.exitCode = 1;
} else {
  if (!isUnit && files !== undefined) installServers(neededServers(files));
  process.exitCode = runWithSecondRun((extra) => run('vitest', ['run', ...(extra ?? args)]));
}
