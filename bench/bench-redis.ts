import { execFileSync } from 'node:child_process';

import { findServer, redisProgram } from '../test/support/find-server.ts';
import { type RedisServer, startRedis } from '../test/support/redis-server.ts';

/** A Redis for a measurement, on the given core where the system has `taskset`; undefined when there is no program. */
export async function startRedisIfFound(core: number | undefined): Promise<RedisServer | undefined> {
  const found = findServer(redisProgram);
  if ('missing' in found) return undefined;
  const server = await startRedis({ path: found.path });
  if (core !== undefined) execFileSync('taskset', ['-apc', String(core), String(server.pid)]);
  return server;
}
