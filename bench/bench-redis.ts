import { execFileSync } from 'node:child_process';
import { connect } from 'node:net';

import { findServer, redisProgram } from '../test/support/find-server.ts';
import { type RedisServer, startRedis } from '../test/support/redis-server.ts';

/** Starts a Redis for a measurement, on the given core if the system has `taskset`. Returns undefined if there is no program. */
export async function startRedisIfFound(core: number | undefined): Promise<RedisServer | undefined> {
  const found = findServer(redisProgram);
  if ('missing' in found) return undefined;
  // Another checkout may leave other keys. The tests check the keys of this checkout.
  const server = await startRedis({ path: found.path, lifetimes: { own: [''] } });
  if (core !== undefined) execFileSync('taskset', ['-apc', String(core), String(server.pid)]);
  return server;
}

/** Returns the number of scripts that a Redis has run, as it reports it. This is the number of counting commands that limiters sent. */
export async function scriptsRun(port: number): Promise<number> {
  const socket = connect(port, '127.0.0.1').end('INFO commandstats\r\nQUIT\r\n');
  let text = '';
  for await (const chunk of socket) text += chunk;
  return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(text)?.[1] ?? 0);
}
