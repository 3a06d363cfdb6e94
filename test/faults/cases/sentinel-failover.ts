import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../../support/eventually.ts';
import { redisProgram } from '../../support/find-server.ts';
import { type SentinelTrio, startSentinelTrio } from '../../support/redis-sentinels.ts';
import { countersInRedis } from '../counters-in-redis.ts';
import {
  type CasePlace,
  type FaultCase,
  type FaultScene,
  type StoreInDanger,
  slowestMs,
} from '../fault-case.ts';

/** What Redis may have acknowledged and not yet replicated when it is killed: far less than is answered in 0.1 s. */
export const unreplicated = 50;

/** More where the machine is busy. */
const failover = { timeoutMs: 40_000 };

async function startTrio({ program }: CasePlace): Promise<StoreInDanger> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-fault-sentinels-'));
  const trio = await startSentinelTrio({ path: program(redisProgram), folder });
  return {
    env: { REDIS_TYPE: 'sentinel', REDIS_URL: trio.url },
    act: (scene) => killMaster(trio, scene),
    held: async () => countersInRedis({ port: await trio.masterPort() }),
    stop: async () => {
      await trio.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function killMaster(
  { servers: [master], masterPort }: SentinelTrio,
  { outage }: FaultScene,
): Promise<void> {
  await master.kill('SIGKILL');
  await eventually(async () => {
    if ((await masterPort()) === master.port)
      throw new Error('the sentinels made no other server the master');
  }, failover);
  await outage();
}

const killed: FaultCase = {
  name: 'sentinel-failover',
  what: 'The master is killed (`kill -9`) and stays away; the sentinels make its replica the master. What Redis acknowledged and had not replicated is lost with it',
  needs: [redisProgram],
  bounds: { slowestMs, minErrors: 1, minOpened: 1, lost: unreplicated, overAdmitted: unreplicated },
  prepare: startTrio,
};

export const sentinelFailoverCases: readonly FaultCase[] = [killed];
