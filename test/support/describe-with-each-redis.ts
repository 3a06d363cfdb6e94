import { describe, it } from 'vitest';
import { describeWithServer } from './describe-with-server.ts';
import {
  findServer,
  newValkeyProgram,
  oldRedisProgram,
  redisProgram,
  type ServerProgram,
  valkeyProgram,
} from './find-server.ts';

/** Set by the part `redis-versions` of `npm run nightly`. */
const isEach = process.env['EACH_REDIS'] === 'true';

/** A suite that runs on Redis, and each night on older and newer ones and on Valkey as well. */
export function describeWithEachRedis(name: string, suite: (path: string) => void): void {
  describeWithServer(name, redisProgram, suite);
  const others = isEach ? [valkeyProgram, newValkeyProgram, oldRedisProgram] : [];
  for (const program of others) describeWithOther(program, name, suite);
}

/** As `describeWithEachRedis`, and always on Valkey: for suites of all scripts and commands, of which the servers could think differently. */
export function describeWithBothRedis(name: string, suite: (path: string) => void): void {
  describeWithEachRedis(name, suite);
  if (!isEach) describeWithOther(valkeyProgram, name, suite);
}

/** Not every system has it as a package, so its want skips the suite everywhere, with the reason in its name. */
function describeWithOther(program: ServerProgram, name: string, suite: (path: string) => void): void {
  const found = findServer(program);
  if ('path' in found) describe(`${name} (${program.command})`, () => suite(found.path));
  else describe.skip(`${name} (${program.command}: ${found.missing})`, () => it('runs', () => {}));
}
