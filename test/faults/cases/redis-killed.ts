import { eventually } from '../../support/eventually.ts';
import { redisProgram } from '../../support/find-server.ts';
import { httpAsk } from '../../support/http-ask.ts';
import { type LimiterProcess, startLimiter } from '../../support/limiter-process.ts';
import { type RedisServer, startRedis } from '../../support/redis-server.ts';
import { domain } from '../counter-plan.ts';
import { countersInRedis, withRedis } from '../counters-in-redis.ts';
import {
  type CasePlace,
  defaultSettings,
  type FaultCase,
  type FaultScene,
  type StoreInDanger,
  slowestMs,
} from '../fault-case.ts';

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
      held: () => countersInRedis({ port: redis.port }),
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
  guardedBy: 'redis-killed',
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

const leased = 300;
const maxLease = 15;
const leasing = { LEASES: 'on', LEASE_SHARE: '5%', REDIS_SCRIPTS: 'auto' };

/** What a limiter says to so many hits of one counter, one after another, until one of them fails. */
async function countAt(
  { ports }: LimiterProcess,
  value: string,
  hits: number,
): Promise<{ ok: number; asked: number }> {
  const entries = [{ key: `limit_${leased}`, value }];
  const body = JSON.stringify({ domain, descriptors: [{ entries }] });
  let ok = 0;
  for (let asked = 1; asked <= hits; asked += 1) {
    const { status } = await httpAsk(ports.http, '/json', { method: 'POST', body });
    if (status === 200) ok += 1;
    else if (status !== 429) return { ok, asked };
  }
  return { ok, asked: hits };
}

/** The hits that a counter and its ledger hold. */
async function chargedIn(
  { port }: RedisServer,
  value: string,
): Promise<{ counter: number; outstanding: number }> {
  return withRedis({ port }, async (client) => {
    const [key = ''] = await client.keys(`${domain}_limit_${leased}_${value}_*`);
    const outstanding = await client.hget(`weir:lease:{${key}}`, 't');
    return { counter: Number(await client.get(key)), outstanding: Number(outstanding ?? 0) };
  });
}

/**
 * Another limiter is killed: what it held stays charged, and no more. Then Redis is: the limiter spends what it holds, then
 * the failure mode decides. Then Redis is back: nobody else got what the other limiter held, and everybody the rest.
 */
async function killWithLeases(folder: string, redis: RedisServer, scene: FaultScene): Promise<void> {
  const { limiter } = scene;
  const rules = { RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: '.' };
  const url = { REDIS_URL: `127.0.0.1:${redis.port}` };
  const other = await startLimiter({ env: { ...defaultSettings, ...rules, ...url, ...leasing } });
  const before = await countAt(other, 'killed', 20);
  await other.program.stop('SIGKILL');
  const { counter, outstanding } = await chargedIn(redis, 'killed');
  // Some of the outstanding ones were spent since it was last reported; on a busy machine all of them.
  const lost = counter - before.ok;
  must(before.ok === 20 && lost >= 0 && lost <= maxLease && outstanding >= Math.max(1, lost), {
    before,
    counter,
    outstanding,
  });

  // 12 hits: 1, 2, 5 and 11 of them took leases, so that 10 are left.
  await countAt(limiter, 'away', 12);
  await redis.kill('SIGKILL');
  const away = await countAt(limiter, 'away', leased);
  must(away.ok >= 1 && away.ok <= maxLease && away.asked === away.ok + 1, away);
  await scene.outage();
  await redis.start();
  let ok = 0;
  // The breaker lets a few through at first.
  await eventually(async () => {
    const after = await countAt(limiter, 'killed', leased);
    ok += after.ok;
    must(after.asked === leased, after);
  });
  must(ok === leased - counter, { counter, ok });
}

function must(holds: boolean, reported: unknown): void {
  if (!holds) throw new Error(`not as it must be: ${JSON.stringify(reported)}`);
}

const leases: FaultCase = {
  name: 'leases',
  what: 'With `LEASES=on` another limiter is killed (`kill -9`), then Redis, which is started again. What the other one held stays charged, and the limiter spends what it holds before `STORE_FAILURE_MODE` decides',
  needs: [redisProgram],
  bounds: { slowestMs, minErrors: 1, minOpened: 1 },
  prepare: async ({ program, folder }) => {
    const redis = await startRedis({ path: program(redisProgram), args: [...keepsEverything] });
    return {
      env: { REDIS_URL: `127.0.0.1:${redis.port}`, ...leasing },
      act: (scene) => killWithLeases(folder, redis, scene),
      settled: () => leasesAreBack(redis),
      held: () => countersInRedis({ port: redis.port }),
      stop: () => redis.stop(),
    };
  },
};

/** All but that of the other limiter. */
function leasesAreBack({ port }: RedisServer): Promise<void> {
  return withRedis({ port }, (client) =>
    eventually(async () => {
      const ledgers = (await client.keys('weir:lease:*')).filter((key) => !key.includes('_killed_'));
      for (const key of ledgers) must((await client.hget(key, 't')) === '0', key);
    }),
  );
}

export const leaseCases: readonly FaultCase[] = [leases];

export const redisKilledCases: readonly FaultCase[] = [killed, killedWithoutPersistence, paused];
