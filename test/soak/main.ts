/** `npm run soak -- [--minutes N]`: ten minutes, unless told otherwise; ends with an error when something was wrong. */
import { parseArgs } from 'node:util';

import { findServer, redisProgram } from '../support/find-server.ts';
import { soak } from './soak.ts';
import { verdict } from './verdict.ts';

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '10' } } });
const minutes = Number(values.minutes);
const redis = findServer(redisProgram);
if (!(minutes >= 1)) {
  console.error('npm run soak -- [--minutes N], at least one');
  process.exitCode = 2;
} else if ('missing' in redis) {
  console.error(redis.missing);
  process.exitCode = 2;
} else {
  const durationMs = minutes * 60_000;
  const report = await soak({ redisPath: redis.path, durationMs, progress: (line) => console.log(line) });
  console.log(JSON.stringify(report, null, 2));
  const problems = verdict(report);
  for (const problem of problems) console.error(problem);
  console.log(problems.length === 0 ? 'soak: nothing wrong' : `soak: ${problems.length} things wrong`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
