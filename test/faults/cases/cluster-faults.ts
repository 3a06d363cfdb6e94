import { keySlot } from '../../../limiter/stores/redis/cluster/cluster-topology.ts';
import { eventually } from '../../support/eventually.ts';
import { redisProgram } from '../../support/find-server.ts';
import { type ClusterMember, type RedisCluster, startRedisCluster } from '../../support/redis-cluster.ts';
import { domain, nameInKey } from '../counter-plan.ts';
import {
  type CasePlace,
  type FaultCase,
  type FaultScene,
  type StoreInDanger,
  slowestMs,
} from '../fault-case.ts';
import { unreplicated } from './sentinel-failover.ts';

/** A cluster, and what is done to it; members that are not well at the end are not asked what they hold. */
function clusterInDanger(
  act: (cluster: RedisCluster, scene: FaultScene) => Promise<void>,
  {
    args = [],
    survivors = (members) => members,
  }: {
    args?: string[];
    survivors?: (members: readonly ClusterMember[]) => readonly ClusterMember[];
  } = {},
) {
  return async ({ program }: CasePlace): Promise<StoreInDanger> => {
    const cluster = await startRedisCluster({ path: program(redisProgram), args });
    return {
      env: { REDIS_TYPE: 'cluster', REDIS_URL: cluster.url },
      act: (scene) => act(cluster, scene),
      held: () => countersInCluster(cluster, survivors(cluster.members)),
      stop: () => cluster.stop(),
    };
  };
}

async function countersInCluster(
  cluster: RedisCluster,
  members: readonly ClusterMember[],
): Promise<Map<string, number>> {
  const lists = await Promise.all(members.map(({ client }) => client.keys(`${domain}_*`)));
  const keys = [...new Set(lists.flat())];
  const values = await cluster.valuesOf(keys, members);
  // A key that only a replica has still is none of the cluster's.
  return new Map(keys.flatMap((key, i) => (values[i] == null ? [] : [[nameInKey(key), Number(values[i])]])));
}

const needs = [redisProgram];

const failover: FaultCase = {
  name: 'cluster-failover',
  what: 'One of three masters is killed (`kill -9`) and stays away; its replica takes over. What Redis acknowledged and had not replicated is lost with it',
  needs,
  bounds: { slowestMs, minErrors: 1, lost: unreplicated, overAdmitted: unreplicated },
  prepare: clusterInDanger(
    async (cluster, { outage }) => {
      const [victim, ...survivors] = cluster.members as [ClusterMember, ...ClusterMember[]];
      await victim.server.kill('SIGKILL');
      await eventually(
        async () => {
          if ((await cluster.ownerOf(0, survivors)) === victim) throw new Error('no replica took over');
        },
        { timeoutMs: 40_000 },
      );
      await outage();
    },
    { survivors: (members) => members.slice(1) },
  ),
};

const paused: FaultCase = {
  name: 'cluster-node-paused',
  what: 'One of three masters hangs (`SIGSTOP`) and goes on (`SIGCONT`) before a replica takes over: its keys fail at once after `STORE_BREAKER_SILENCE`, the others are counted',
  needs,
  bounds: { slowestMs: 1500, minErrors: 1, opened: 0 },
  prepare: clusterInDanger(
    async ({ members: [victim] }, { load, outage }) => {
      await victim?.server.kill('SIGSTOP');
      await outage();
      // Anyone who is asked now is answered, by the nodes that are left or without the one that hangs. On a busy machine, answers without
      // it come in bursts.
      await eventually(() => {
        const well = load.latest(100).filter(({ outcome }) => outcome !== 'ERROR').length;
        if (well < 20) throw new Error(`of 100 requests ${well} were counted by the other nodes`);
      });
      await victim?.server.kill('SIGCONT');
    },
    { args: ['--cluster-node-timeout', '60000'] },
  ),
};

/** Makes all counters of the load live in one slot. */
const tag = '{moving}';

async function moveSlot(cluster: RedisCluster, { load, outage }: FaultScene): Promise<void> {
  const slot = keySlot(tag);
  const owner = await cluster.ownerOf(slot);
  const others = cluster.members.slice(0, 3).filter((member) => member !== owner);
  for (const target of [...others, owner]) {
    const sent = load.answers.length;
    await eventually(() => {
      if (load.answers.length < sent + 100) throw new Error('nothing is answered');
    });
    await cluster.moveSlot(slot, target);
  }
  await outage();
  const stats = await Promise.all(cluster.members.map(({ client }) => client.info('errorstats')));
  for (const word of ['ASK', 'MOVED']) {
    if (!stats.join().includes(`errorstat_${word}:`)) throw new Error(`no node answered ${word}`);
  }
}

const migration: FaultCase = {
  name: 'cluster-slot-migration',
  what: 'The slot of all counters moves from node to node and back; `ASK` and `MOVED` are followed, and nothing fails',
  needs,
  keyPadding: tag,
  bounds: { slowestMs, errors: 0, opened: 0 },
  prepare: clusterInDanger(moveSlot),
};

export const clusterNodeCases: readonly FaultCase[] = [failover, paused];
export const clusterSlotCases: readonly FaultCase[] = [migration];
