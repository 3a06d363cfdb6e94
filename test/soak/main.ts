/** `npm run soak`: ten minutes of load by default, then 100,000 rejected values; soak-options.ts has the flags. */
import { findServer, redisProgram } from '../support/find-server.ts';
import { scriptFlags } from '../support/script-flags.ts';
import { problemsOf } from './problems.ts';
import { rejectedValueProblems, rejectValues } from './rejected-values.ts';
import { soak } from './soak.ts';
import { soakFlags } from './soak-options.ts';

const rejectedValues = 100_000;
const { minutes, seed } = scriptFlags(soakFlags);
const redis = findServer(redisProgram);
if ('missing' in redis) {
  console.error(redis.missing);
  process.exitCode = 2;
} else {
  const durationMs = minutes * 60_000;
  console.log(
    `soak: seed ${seed}, ${minutes} minute${minutes === 1 ? '' : 's'}, a line each ${(minutes * 60) / 5} s`,
  );
  const report = await soak({
    redisPath: redis.path,
    seed,
    durationMs,
    progress: (line) => console.log(line),
  });
  console.log(JSON.stringify(report, null, 2));
  const refusals = await rejectValues({ redisPath: redis.path, values: rejectedValues });
  console.log(JSON.stringify(refusals));
  const problems = [...problemsOf(report), ...rejectedValueProblems(refusals, rejectedValues)];
  for (const problem of problems) console.error(problem);
  console.log(problems.length === 0 ? 'soak: nothing wrong' : `soak: ${problems.length} things wrong`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
