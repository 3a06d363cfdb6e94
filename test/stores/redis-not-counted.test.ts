/** `StoreError.notCounted`: true exactly where Redis was not asked to count, or said that it did not. */
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { keySlot } from '../../limiter/stores/redis/cluster/cluster-topology.ts';
import type { RedisStore, RedisStoreOptions } from '../../limiter/stores/redis/redis-store.ts';
import type { Store } from '../../limiter/stores/store.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { counterOp, submit } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { type ClusterMember, type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { connectStore, newRedisStore } from '../support/redis-stores.ts';

/** Why one op failed, and how that is marked. */
async function failure(
  store: Store,
  stopWhenOver = false,
  key: string = randomUUID(),
): Promise<{ message: string; notCounted: boolean | undefined }> {
  const [op] = await submit(store, [counterOp({ key })], { stopWhenOver });
  return { message: op?.error?.message ?? 'counted', notCounted: op?.error?.notCounted };
}

interface Situation {
  server: RedisServer;
  client: Redis;
  store: RedisStore;
  ask: () => ReturnType<typeof failure>;
}

interface Case {
  name: string;
  options?: Partial<RedisStoreOptions>;
  /** Defaults to true. */
  connected?: boolean;
  act: (situation: Situation) => ReturnType<typeof failure>;
  message: string | RegExp;
  notCounted: boolean;
}

const cases: Case[] = [
  {
    name: 'there is no connection',
    connected: false,
    act: ({ ask }) => ask(),
    message: 'Redis is not connected',
    notCounted: true,
  },
  {
    name: 'the store is closed',
    act: async ({ store, ask }) => {
      await store.close();
      return ask();
    },
    message: 'Redis store is closed',
    notCounted: true,
  },
  {
    name: 'no place is free',
    options: { calls: { places: 1, whenEmpty: 'ERROR', waitMs: 20 } },
    act: async ({ server, ask }) => {
      await server.kill('SIGSTOP');
      const first = ask();
      await new Promise((resolve) => setImmediate(resolve));
      const second = await ask();
      await server.kill('SIGCONT');
      expect((await first).message).toBe('counted');
      return second;
    },
    message: 'too many calls to Redis were open within 20 ms (REDIS_POOL_SIZE)',
    notCounted: true,
  },
  {
    name: 'Redis is full',
    act: async ({ client, ask }) => {
      await client.config('SET', 'maxmemory', '1');
      return ask();
    },
    message: /^Redis answered: OOM /,
    notCounted: true,
  },
  {
    name: 'the server is a replica now',
    act: async ({ client, ask }) => {
      await client.call('REPLICAOF', '127.0.0.1', '1');
      return ask();
    },
    message: /^Redis answered: READONLY /,
    notCounted: true,
  },
  {
    name: 'Redis does not answer',
    options: { timeoutMs: 200 },
    act: async ({ server, ask }) => {
      await server.kill('SIGSTOP');
      return ask();
    },
    message: 'Redis did not answer within 200 ms',
    notCounted: false,
  },
  {
    name: 'Redis dies before it answers',
    act: async ({ server, ask }) => {
      await server.kill('SIGSTOP');
      const asked = ask();
      await new Promise((resolve) => setTimeout(resolve, 50));
      await server.kill('SIGKILL');
      return asked;
    },
    message: 'connection to Redis was lost before it answered',
    notCounted: false,
  },
];

describeWithServer('what an error of Redis says of counting', redisProgram, (path) => {
  const ways = [
    { scripts: 'auto', stopWhenOver: false },
    { scripts: 'auto', stopWhenOver: true },
    { scripts: 'never', stopWhenOver: false },
  ] as const;

  for (const { scripts, stopWhenOver } of ways) {
    describe(`scripts ${scripts}, stop when over ${stopWhenOver}`, () => {
      it.each(cases)('when $name: not counted is $notCounted', async (given) => {
        const server = await startRedis({ path });
        onTestFinished(() => server.stop());
        const client = new Redis(server.port, '127.0.0.1', { protocol: 2, retryStrategy: () => null });
        client.on('error', () => {});
        onTestFinished(() => client.disconnect());
        const store = newRedisStore({ url: `127.0.0.1:${server.port}` }, { scripts, ...given.options });
        onTestFinished(() => store.close());
        if (given.connected !== false) await connectStore(store);
        const ask = () => failure(store, stopWhenOver);
        const { message, notCounted } = await given.act({ server, client, store, ask });
        expect(message).toMatch(given.message);
        expect(notCounted).toBe(given.notCounted);
      });
    });
  }

  it('knows that nothing was counted if only the look before it failed', async () => {
    const server = await startRedis({ path });
    onTestFinished(() => server.stop());
    const store = newRedisStore({ url: `127.0.0.1:${server.port}` }, { scripts: 'never', timeoutMs: 200 });
    onTestFinished(() => store.close());
    await connectStore(store);
    await server.kill('SIGSTOP');
    expect(await failure(store, true)).toEqual({
      message: 'Redis did not answer within 200 ms',
      notCounted: true,
    });
  });
});

describeWithServer('what an error of a Redis Cluster says of counting', redisProgram, (path) => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster({ path });
  });
  afterAll(() => cluster?.stop());

  const masters = () => cluster.members.slice(0, 3);

  async function keyOf(member: ClusterMember): Promise<string> {
    for (;;) {
      const key = randomUUID();
      if ((await cluster.ownerOf(keySlot(key))) === member) return key;
    }
  }

  async function open(options: Parameters<typeof openClusterStore>[1] = {}) {
    const store = await openClusterStore({ url: cluster.url }, options);
    onTestFinished(() => store.close());
    return store;
  }

  it('is that nothing was counted when the store is closed', async () => {
    const store = await open();
    await store.close();
    expect(await failure(store)).toEqual({ message: 'Redis store is closed', notCounted: true });
  });

  it('is that nothing was counted when a node is full', async () => {
    const store = await open();
    const setting = (bytes: string) =>
      Promise.all(masters().map(({ client }) => client.config('SET', 'maxmemory', bytes)));
    await setting('1');
    const { message, notCounted } = await failure(store);
    await setting('0');
    expect(message).toMatch(/^Redis answered: OOM /);
    expect(notCounted).toBe(true);
  });

  it('is that a node without an answer may have counted, and that one after it was not asked', async () => {
    const store = await open({ timeoutMs: 300, parallelism: 1 });
    const [first, second] = masters() as [ClusterMember, ClusterMember];
    const ops = [await keyOf(first), await keyOf(second)].map((key) => counterOp({ key }));
    await first.server.kill('SIGSTOP');
    await submit(store, ops);
    await first.server.kill('SIGCONT');
    expect(ops.map(({ error }) => error?.notCounted)).toEqual([false, true]);
    await eventually(async () =>
      expect((await failure(store, false, await keyOf(first))).message).toBe('counted'),
    );
  });

  it('is that nothing was counted while the node is gone, also on the others, which do not continue alone', async () => {
    const store = await open();
    const [first, second] = masters() as [ClusterMember, ClusterMember];
    const [gone, other] = [await keyOf(first), await keyOf(second)];
    await first.server.kill('SIGKILL');
    await eventually(async () =>
      expect(await failure(store, false, gone)).toEqual({
        message: expect.stringMatching(`^node 127\\.0\\.0\\.1:${first.server.port} is not connected`),
        notCounted: true,
      }),
    );
    const refusals = async () => {
      const { message, notCounted } = await failure(store, false, other);
      expect(message).toBe('Redis answered: CLUSTERDOWN The cluster is down');
      expect(notCounted).toBe(true);
    };
    await eventually(refusals, { intervalMs: 5 });
  });
});
