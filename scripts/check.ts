/** `npm run check`: all checks of the sources that do not run them. */
import { execFile } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { projectRoot } from './commands.ts';

/** Each checker of tsc repeats a part of the work. The default of four takes nearly twice the CPU time of one. */
const checkers = String(Math.min(4, Math.ceil(availableParallelism() / 2)));
const buildInfo = ['--incremental', '--tsBuildInfoFile', '.cache/types.tsbuildinfo'];

const steps: [string, string, string[]][] = [
  // tsc stores its results, so a second check takes a seventh of the time.
  ['types', 'tsc', ['-p', 'tsconfig.json', '--checkers', checkers, ...buildInfo]],
  ['types of the console', 'tsc', ['-p', 'tsconfig.console.json']],
  ['lint and format', 'biome', ['check', '--error-on-warnings', '.']],
  ['generated files', 'node', ['scripts/generate.ts', '--check']],
  ['cost of change', 'node', ['scripts/cost-of-change.ts', '--check']],
  ['named mutants', 'node', ['test/mutants/main.ts', '--check']],
  ['prose', 'node', ['scripts/prose.ts', '--check']],
  // This step is a report. It fails only if it cannot be written.
  ['size of the house', 'node', ['scripts/measure-house.ts', '--no-walks']],
];

/** Resolves to whether the step passed. Prints its output at the end, so that the outputs of steps do not mix. */
function passes(command: string, args: readonly string[]): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { cwd: projectRoot, maxBuffer: 1 << 26 };
    execFile(command, args, options, (error, stdout, stderr) => {
      process.stdout.write(stdout);
      process.stderr.write(stderr);
      if (error !== null && typeof error.code !== 'number') console.error(`${command}: ${error.message}`);
      resolve(error === null);
    });
  });
}

// Runs all steps at once, because most of them use one core each.
const results = await Promise.all(steps.map(([, command, args]) => passes(command, args)));
const failed = steps.filter((_, index) => results[index] === false).map(([name]) => name);
console.log(failed.length === 0 ? 'check: all good' : `check failed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;
