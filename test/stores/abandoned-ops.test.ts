/** Ops whose callers gave up before they were sent, on every store that gathers. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { callAbandoned, type Operation } from '../../limiter/stores/operation.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { counterOp, submit, totalOf } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { memcachedProgram, redisProgram } from '../support/find-server.ts';
import { openMemcacheStore } from '../support/memcache-stores.ts';
import { type MemcachedServer, startMemcached } from '../support/memcached-server.ts';
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { abandonedOpsSuite } from './abandoned-ops.suite.ts';

describeWithServer('abandoned ops in Redis', redisProgram, (path) => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis({ path });
  });
  afterAll(() => server.stop());
  const url = () => `127.0.0.1:${server.port}`;

  describe('by scripts', () => abandonedOpsSuite(() => openRedisStore({ url: url() }), { bounds: true }));
  describe('without scripts', () =>
    abandonedOpsSuite(() => openRedisStore({ url: url() }, { scripts: 'never' })));

  it('are left out after thousands of turns behind a Redis that hangs', async () => {
    const calls = { places: 1, whenEmpty: 'WAIT', waitMs: 0 } as const;
    const store = await openRedisStore({ url: url() }, { calls, timeoutMs: 60_000 });
    onTestFinished(() => store.close());
    const key = randomUUID();
    await server.kill('SIGSTOP');
    const first = submit(store, [counterOp({ key })]);
    const caller = { abandoned: false };
    const behind: Promise<Operation[]>[] = [];
    for (let turn = 0; turn < 5_000; turn++) {
      await new Promise(setImmediate);
      behind.push(submit(store, [counterOp({ key, caller })]));
    }
    caller.abandoned = true;
    const last = submit(store, [counterOp({ key })]);
    await server.kill('SIGCONT');
    expect((await first)[0]?.after).toBe(1);
    expect(new Set((await Promise.all(behind)).flat().map(({ error }) => error))).toEqual(
      new Set([callAbandoned]),
    );
    expect((await last)[0]?.after).toBe(2);
    expect(await totalOf(store, { key, hits: 0 })).toBe(2);
  });
});

describeWithServer('abandoned ops in Redis Cluster', redisProgram, (path) => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster({ path });
  });
  afterAll(() => cluster?.stop());
  abandonedOpsSuite(() => openClusterStore({ url: cluster.url }), { bounds: true });
});

describeWithServer('abandoned ops in memcache', memcachedProgram, (path) => {
  let server: MemcachedServer;
  beforeAll(async () => {
    server = await startMemcached({ path });
  });
  afterAll(() => server.stop());
  abandonedOpsSuite(async () => openMemcacheStore(server.address));
});
