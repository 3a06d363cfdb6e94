/** `npm run truth`: ends with an error when a status was not true; `help` has the flags. */
import { randomInt } from 'node:crypto';
import { defineFlags, FlagError, scriptFlags } from '../support/script-flags.ts';
import setup from '../support/weir-program.ts';

const flags = scriptFlags(
  defineFlags({
    help: `Usage: npm run truth -- [--minutes <n> | --seconds <n>] [--seed <n>] [--with-defect]

Runs an API server, control planes and limiters, lets things happen to them by chance, and compares every second what
the statuses of objects say with what limiters decide. Needs etcd, kube-apiserver and kubectl.

  --minutes <n>  1 to 1440 (default 10)
  --seconds <n>  30 to 86400, in place of minutes; 30 are a short form for a try
  --seed <n>     of all that happens by chance (default: another one each time); times are never quite the same
  --with-defect  runs a control plane with a known defect, for as long as it takes to find it: nothing found is the error

A line about every minute and a half. At the end the report as JSON; after a violation, which ends the run, what happened
before it, and where the logs are.
Exit status: 0 when all statuses were true, 1 when one was not (with --with-defect the other way round), 2 for a wrong command line.
`,
    rows: {
      minutes: { type: 'number', min: 1, max: 1440 },
      seconds: { type: 'number', min: 30, max: 86_400 },
      'with-defect': { type: 'boolean' },
      seed: { type: 'number', min: 0, max: 2 ** 31, whole: true, default: randomInt(2 ** 31) },
    },
    read: ({ minutes, seconds, seed, 'with-defect': withDefect }) => {
      if (seconds !== undefined && minutes !== undefined)
        throw new FlagError('give --minutes or --seconds, not both');
      return { seconds: seconds ?? 60 * (minutes ?? 10), seed, withDefect };
    },
  }),
);
const { seconds, seed } = flags;
const removeProgram = await setup();
// After `setup`, which says which program that is.
const { runTruth } = await import('./truth-run.ts');
const { longTestDefects, withDefect } = await import('../mutants/long-test-defects.ts');
const run = () => runTruth({ seed, durationMs: seconds * 1000, progress: (line) => console.log(line) });
try {
  console.log(`truth: seed ${seed}, ${seconds} s`);
  const report = await (flags.withDefect ? withDefect(longTestDefects.truth, run) : run());
  const { history, violations, ...rest } = report;
  for (const line of history) console.log(line);
  console.log(JSON.stringify(rest));
  for (const violation of violations) console.error(violation);
  console.log(
    violations.length === 0 ? 'truth: nothing wrong' : `truth: seed ${seed}, ${violations.length} wrong`,
  );
  process.exitCode = violations.length > 0 === flags.withDefect ? 0 : 1;
} finally {
  removeProgram?.();
}
// A connection that was cut without a word may stay open for long.
process.exit();
