/** How counts go out to Redis: a part of the table in redis-settings.ts. */
import { choice, duration, integer } from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsTable } from '../../process/settings/settings-reader.ts';

const scripts = choice({ values: ['auto', 'never'] });
const window = duration({ min: 0, max: 60_000 });
const poolSize = integer({ min: 0, max: 2_147_483_647 });
const onEmpty = choice({ values: ['CREATE', 'ERROR', 'WAIT'] });
const wait = duration({ min: 0, max: 3_600_000 });
const pipelineLimit = integer({ min: -2_147_483_648, max: 2_147_483_647 });
const parallelism = integer({ min: -2_147_483_648, max: 2_147_483_647 });

/** Of what only the Redis of limits per second has. */
export const ofPerSecond: readonly SettingNeed[] = [{ name: 'REDIS_PERSECOND', is: [true] }];

/** What `REDIS_POOL_SIZE=0` means, as in the Go service's client. */
const poolSizeOfZero = 4;

export const redisBatchSettings = {
  redisScripts: {
    name: 'REDIS_SCRIPTS',
    kind: scripts,
    default: 'auto',
    summary:
      '`never`: no Lua, for sharding proxies; `auto`: plain commands as soon as Redis refuses a script. Not in the Go service.',
  },
  redisPipelineWindowMs: {
    name: 'REDIS_PIPELINE_WINDOW',
    kind: window,
    default: 0,
    summary:
      'Under traffic at most one call to Redis in so long, in whole milliseconds: requests that come soon after a call are gathered. 0: what arrives in one turn of the event loop.',
  },
  redisClusterPipelineParallelism: {
    name: 'REDIS_CLUSTER_PIPELINE_PARALLELISM',
    needs: [{ name: 'REDIS_TYPE', is: ['CLUSTER'] }],
    kind: parallelism,
    default: 1,
    summary: 'Nodes that a batch asks at a time, at most `REDIS_POOL_SIZE`; 0: just that.',
  },
  redisPoolSize: {
    name: 'REDIS_POOL_SIZE',
    kind: poolSize,
    default: 10,
    summary:
      'Calls under way at a time; 0 means 4, as in the client of the Go service. One connection to each server carries them all, and each call carries what arrived together.',
  },
  redisPoolOnEmptyBehavior: {
    name: 'REDIS_POOL_ON_EMPTY_BEHAVIOR',
    kind: onEmpty,
    default: 'CREATE',
    summary:
      'What becomes of a call that found `REDIS_POOL_SIZE` others under way: after the wait `CREATE` sends it all the same and `ERROR` fails it; `WAIT` fails it after `REDIS_TIMEOUT` only.',
  },
  redisPoolOnEmptyWaitMs: {
    name: 'REDIS_POOL_ON_EMPTY_WAIT_DURATION',
    needs: [{ name: 'REDIS_POOL_ON_EMPTY_BEHAVIOR', is: ['CREATE', 'ERROR'] }],
    kind: wait,
    default: 1_000,
    summary: 'The wait of `REDIS_POOL_ON_EMPTY_BEHAVIOR`.',
  },
  redisPipelineLimit: {
    name: 'REDIS_PIPELINE_LIMIT',
    kind: pipelineLimit,
    default: 0,
    summary: 'Deprecated in the Go service: no effect. Above 0 it is warned about.',
  },
  redisPerSecondPipelineWindowMs: {
    name: 'REDIS_PERSECOND_PIPELINE_WINDOW',
    needs: ofPerSecond,
    kind: window,
    default: 0,
    summary: 'As `REDIS_PIPELINE_WINDOW`.',
  },
  redisPerSecondClusterPipelineParallelism: {
    name: 'REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM',
    needs: [{ name: 'REDIS_PERSECOND_TYPE', is: ['CLUSTER'] }],
    kind: parallelism,
    default: 1,
    summary: 'As `REDIS_CLUSTER_PIPELINE_PARALLELISM`.',
  },
  redisPerSecondPoolSize: {
    name: 'REDIS_PERSECOND_POOL_SIZE',
    needs: ofPerSecond,
    kind: poolSize,
    default: 10,
    summary: 'As `REDIS_POOL_SIZE`.',
  },
  redisPerSecondPoolOnEmptyBehavior: {
    name: 'REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR',
    needs: ofPerSecond,
    kind: onEmpty,
    default: 'CREATE',
    summary: 'As `REDIS_POOL_ON_EMPTY_BEHAVIOR`.',
  },
  redisPerSecondPoolOnEmptyWaitMs: {
    name: 'REDIS_PERSECOND_POOL_ON_EMPTY_WAIT_DURATION',
    needs: [{ name: 'REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR', is: ['CREATE', 'ERROR'] }],
    kind: wait,
    default: 1_000,
    summary: 'As `REDIS_POOL_ON_EMPTY_WAIT_DURATION`.',
  },
  redisPerSecondPipelineLimit: {
    name: 'REDIS_PERSECOND_PIPELINE_LIMIT',
    needs: ofPerSecond,
    kind: pipelineLimit,
    default: 0,
    summary: 'As `REDIS_PIPELINE_LIMIT`.',
  },
} as const satisfies SettingsTable;

/** How many calls may be under way at a time. */
export function callsAtATime(poolSize: number): number {
  return poolSize === 0 ? poolSizeOfZero : poolSize;
}

/** How many nodes of a cluster may be asked at a time. */
export function nodesAtATime(given: { parallelism: number; poolSize: number }): number {
  const most = callsAtATime(given.poolSize);
  return given.parallelism === 0 ? most : Math.min(given.parallelism, most);
}
