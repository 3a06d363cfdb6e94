/** `npm run check`: everything that can be said about the sources without running them. */
import { run } from './commands.ts';

const steps: [string, string, string[]][] = [
  // What it has found out is kept: a second check takes a seventh of the time.
  ['types', 'tsc', ['-p', 'tsconfig.json', '--incremental', '--tsBuildInfoFile', '.cache/types.tsbuildinfo']],
  ['types of the console', 'tsc', ['-p', 'tsconfig.console.json']],
  ['lint and format', 'biome', ['check', '--error-on-warnings', '.']],
  ['generated files', 'node', ['scripts/generate.ts', '--check']],
  ['cost of change', 'node', ['scripts/cost-of-change.ts', '--check']],
  // A report: it fails only if it cannot be made.
  ['size of the house', 'node', ['scripts/measure-house.ts', '--no-walks']],
];

const failed = steps.filter(([, command, args]) => run(command, args) !== 0).map(([name]) => name);
console.log(failed.length === 0 ? 'check: all good' : `check failed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;
