import { eventually } from '../../support/eventually.ts';
import { redisProgram } from '../../support/find-server.ts';
import { type RedisServer, startRedis } from '../../support/redis-server.ts';
import { countersInRedis, withRedis } from '../counters-in-redis.ts';
import { type CasePlace, type FaultCase, type StoreInDanger, slowestMs } from '../fault-case.ts';
import { redisInDanger } from './redis-killed.ts';

const needs = [redisProgram];

const full: FaultCase = {
  name: 'redis-full',
  what: 'Redis reaches its `maxmemory` under `noeviction` and rejects writes, then has room again. Exhausted limits reject hits meanwhile without counting them',
  needs,
  bounds: { slowestMs, minErrors: 1, opened: 0 },
  rejectsUncounted: true,
  prepare: redisInDanger(['--maxmemory-policy', 'noeviction'], async ({ port }, { outage }) => {
    await withRedis({ port }, (client) => client.config('SET', 'maxmemory', '1mb'));
    await outage();
    await withRedis({ port }, (client) => client.config('SET', 'maxmemory', '0'));
  }),
};

/** A master and its replica, which exchange their roles without losing a write: the old master stays and rejects writes. */
async function demotedMaster({ program }: CasePlace): Promise<StoreInDanger> {
  const path = program(redisProgram);
  const [first, second] = [await startRedis({ path }), await startRedis({ path })];
  await withRedis({ port: second.port }, (client) => client.replicaof('127.0.0.1', first.port));
  await untilInfo(second, 'master_link_status:up');
  await untilInfo(first, 'state=online');
  return {
    env: { REDIS_URL: `127.0.0.1:${first.port}`, REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR: 'true' },
    act: async ({ outage }) => {
      await exchangeRoles(first, second);
      await outage();
      await exchangeRoles(second, first);
    },
    held: () => countersInRedis({ port: first.port }),
    stop: async () => void (await Promise.all([first.stop(), second.stop()])),
  };
}

/** The master holds writes back until its replica has them all. */
async function exchangeRoles(master: RedisServer, replica: RedisServer): Promise<void> {
  await untilInfo(master, 'state=online');
  await withRedis({ port: master.port }, (client) => client.call('FAILOVER'));
  await untilInfo(master, 'role:slave');
  await untilInfo(master, 'master_link_status:up');
  await untilInfo(replica, 'role:master');
}

async function untilInfo({ port }: RedisServer, text: string): Promise<void> {
  await withRedis({ port }, (client) =>
    eventually(async () => {
      const info = await client.info('replication');
      if (!info.includes(text)) throw new Error(`not ${text}: ${info}`);
    }),
  );
}

const demoted: FaultCase = {
  name: 'redis-read-only',
  what: 'Redis exchanges its role with its replica (`FAILOVER`) and rejects writes, then becomes the master again, with `REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR=true`',
  needs,
  bounds: { slowestMs, minErrors: 1 },
  prepare: demotedMaster,
};

/** It wants a password from the start; another one later. */
async function passwordChanged({ program }: CasePlace): Promise<StoreInDanger> {
  const redis = await startRedis({ path: program(redisProgram), args: ['--requirepass', 'right'] });
  const change = (from: string, to: string) =>
    withRedis({ port: redis.port, password: from }, async (client) => {
      await client.config('SET', 'requirepass', to);
      await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    });
  return {
    env: { REDIS_URL: `127.0.0.1:${redis.port}`, REDIS_AUTH: 'right' },
    act: async ({ outage }) => {
      await change('right', 'other');
      await outage();
      await change('other', 'right');
    },
    held: () => countersInRedis({ port: redis.port, password: 'right' }),
    stop: () => redis.stop(),
  };
}

const wrongPassword: FaultCase = {
  name: 'redis-wrong-password',
  what: 'The password of Redis is changed and its connections are closed, then it is changed back',
  needs,
  bounds: { slowestMs, minErrors: 1, minOpened: 1 },
  prepare: passwordChanged,
};

export const redisRejectsCases: readonly FaultCase[] = [full, demoted, wrongPassword];
