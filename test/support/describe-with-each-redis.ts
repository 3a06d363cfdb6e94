import { describe, it } from 'vitest';
import { describeWithServer } from './describe-with-server.ts';
import { findServer, redisProgram, valkeyProgram } from './find-server.ts';

/**
 * A suite that runs on Redis, and on Valkey where that is found. Not every system has Valkey as a package, so its want skips
 * the suite everywhere, with the reason in its name.
 */
export function describeWithEachRedis(name: string, suite: (path: string) => void): void {
  describeWithServer(name, redisProgram, suite);
  const found = findServer(valkeyProgram);
  if ('path' in found) describe(`${name} (Valkey)`, () => suite(found.path));
  else describe.skip(`${name} (Valkey: ${found.missing})`, () => it('runs', () => {}));
}
