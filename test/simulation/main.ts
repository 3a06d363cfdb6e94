/** `npm run simulate`: ends with an error when something did not hold; `help` has the flags. */
import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { projectRoot } from '../../scripts/commands.ts';
import { longTestDefects } from '../mutants/long-test-defects.ts';
import { mutated } from '../mutants/mutant-source.ts';
import { defineFlags, scriptFlags } from '../support/script-flags.ts';

/** Of the events that a known seed has: seeds differ. */
const enoughEvents = 1 / 4;

/** How long a failure is looked for in shorter histories. */
const shrinkMs = 120_000;

const flags = defineFlags({
  help: `Usage: npm run simulate -- [--faults <n>] [--seed <n>] [--with-defect]

Runs three replicas of the control plane with ten limiters in one thread, on virtual time and an API server in memory, changes
objects and injects faults by chance, and checks all the time that what must hold does. Needs no servers.

  --faults <n>   changes and faults, 100 to 10000000 (default 20000: about a minute)
  --seed <n>     of all that happens (default: another one each time): the same seed is the same run
  --with-defect  runs a control plane with a known defect: nothing found is the error
  --log          prints what the replicas log as well

At the end the report as JSON; after a violation, which ends the run, the shortest history that was found to lead to one.
Exit status: 0 when all held, 1 when something did not or too little happened to judge (with --with-defect: 0 when something did not
hold, else 1), 2 for a wrong command line.
`,
  rows: {
    faults: { type: 'number', min: 100, max: 10_000_000, whole: true, default: 20_000 },
    seed: { type: 'number', min: 0, max: 2 ** 31, whole: true, default: randomInt(2 ** 31) },
    'with-defect': { type: 'boolean' },
    log: { type: 'boolean' },
  },
});

/** Sources on disk stay unchanged. */
function loadWithDefect(): void {
  const defect = longTestDefects.simulation;
  const path = join(projectRoot, defect.file);
  const source = mutated(readFileSync(path, 'utf8'), defect);
  registerHooks({
    load: (url, context, next) => {
      const isChanged = url.startsWith('file:') && fileURLToPath(url) === path;
      return isChanged ? { format: 'module-typescript', source, shortCircuit: true } : next(url, context);
    },
  });
}

const { faults: count, seed, 'with-defect': withDefect, log } = scriptFlags(flags);
if (withDefect) loadWithDefect();
// After the hook, which changes what is loaded.
const { laterElections, missingEvents, planOf, runSteps, shrunk } = await import('./run-simulation.ts');
console.log(`simulate: seed ${seed}, ${count} changes and faults`);
const plan = planOf(seed, count);
const report = await runSteps(seed, plan, log ? console.log : undefined);
const hasFailed = report.violations.length > 0;
if (hasFailed && !withDefect) {
  const { steps, report: shortest } = await shrunk(
    seed,
    plan.slice(0, report.steps),
    report.violations,
    shrinkMs,
  );
  console.log(`the shortest history that was found, of ${steps.length} steps:`);
  for (const line of shortest.history) console.log(line);
}
const { history: _, pairs, ...rest } = report;
const { never, ...together } = pairs;
console.log(JSON.stringify({ ...rest, pairs: together }, null, 1));
if (never.length > 0) console.log(`never together: ${never.join('; ')}`);
for (const { kind, what } of report.violations) console.error(`${kind}: ${what}`);
const missing = hasFailed ? [] : missingEvents(report, count, enoughEvents);
for (const event of missing) console.error(event);
const tooShort =
  laterElections(report) === 0 ? ', in a run too short for a second election: give more --faults' : '';
if (hasFailed) console.log(`simulate: seed ${seed}, ${report.violations.length} wrong`);
else if (missing.length > 0) console.log(`simulate: seed ${seed}, too little happened`);
else console.log(`simulate: nothing wrong${tooShort}`);
// What was killed in the simulation may hold the process.
const isAsExpected = withDefect ? hasFailed : !hasFailed && missing.length === 0;
process.exit(isAsExpected ? 0 : 1);
