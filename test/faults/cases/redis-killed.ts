import { redisProgram } from '../../support/find-server.ts';
import { type RedisServer, startRedis } from '../../support/redis-server.ts';
import {
  type CasePlace,
  type FaultCase,
  type FaultScene,
  type StoreInDanger,
  slowestMs,
} from '../fault-case.ts';
import { heldInRedis } from '../held-in-redis.ts';

/** With these Redis holds what it answered, whatever happens to it. */
export const keepsEverything: readonly string[] = ['--appendonly', 'yes', '--appendfsync', 'always'];

/** A single Redis without TLS, and what is done to it. */
export function redisInDanger(
  args: readonly string[],
  act: (redis: RedisServer, scene: FaultScene) => Promise<void>,
  env: Record<string, string> = {},
) {
  return async ({ program }: CasePlace): Promise<StoreInDanger> => {
    const redis = await startRedis({ path: program(redisProgram), args: [...args] });
    return {
      env: { REDIS_URL: `127.0.0.1:${redis.port}`, ...env },
      act: (scene) => act(redis, scene),
      held: () => heldInRedis({ port: redis.port }),
      stop: () => redis.stop(),
    };
  };
}

export async function killAndRestart(redis: RedisServer, { outage }: FaultScene): Promise<void> {
  await redis.kill('SIGKILL');
  await outage();
  await redis.start();
}

const killed: FaultCase = {
  name: 'redis-killed',
  what: 'Redis is killed (`kill -9`) and started again; it writes every command to disk before it answers',
  needs: [redisProgram],
  bounds: { slowestMs, minErrors: 1, minOpened: 1 },
  prepare: redisInDanger(keepsEverything, killAndRestart),
};

const killedWithoutPersistence: FaultCase = {
  name: 'redis-killed-without-persistence',
  what: 'The same with a Redis that keeps nothing: the counters are lost with it, and their limits begin anew',
  needs: [redisProgram],
  bounds: {
    slowestMs,
    minErrors: 1,
    minOpened: 1,
    lost: Number.POSITIVE_INFINITY,
    overAdmitted: Number.POSITIVE_INFINITY,
  },
  prepare: redisInDanger([], killAndRestart),
};

const paused: FaultCase = {
  name: 'redis-paused',
  what: 'Redis hangs (`SIGSTOP`) and goes on (`SIGCONT`)',
  needs: [redisProgram],
  bounds: { slowestMs, minErrors: 1, minOpened: 1 },
  prepare: redisInDanger(keepsEverything, async (redis, { outage }) => {
    await redis.kill('SIGSTOP');
    await outage();
    await redis.kill('SIGCONT');
  }),
};

export const redisKilledCases: readonly FaultCase[] = [killed, killedWithoutPersistence, paused];
