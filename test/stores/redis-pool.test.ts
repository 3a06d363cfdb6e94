/** REDIS_POOL_*: a hundred times as many calls at once as there are places. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Operation } from '../../limiter/stores/operation.ts';
import type { CallBounds, WhenPoolIsEmpty } from '../../limiter/stores/redis/turn-batches.ts';
import type { Store } from '../../limiter/stores/store.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { counterOp, submit, totalOf } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';

const places = 4;
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** How many of the server's `calls` each behaviour lets through while it answers none. */
const behaviours: { whenEmpty: WhenPoolIsEmpty; refused: number }[] = [
  { whenEmpty: 'CREATE', refused: 0 },
  { whenEmpty: 'WAIT', refused: 0 },
  { whenEmpty: 'ERROR', refused: 99 * places },
];

function poolSuite(
  open: (calls: CallBounds) => Promise<Store>,
  pause: () => Promise<void>,
  resume: () => Promise<void>,
): void {
  it.each(behaviours)(
    '$whenEmpty answers every call once, and continues when the server does',
    async ({ whenEmpty, refused }) => {
      const store = await open({ places, whenEmpty, waitMs: 50 });
      try {
        const key = randomUUID();
        const answers: Operation[] = [];
        await pause();
        for (let i = 0; i < 100 * places; i += 1) {
          const ops = [counterOp({ key })];
          store.submit(ops, { stopWhenOver: i % 2 === 1 }, () => answers.push(...ops));
          // What comes in one turn would be one call.
          await turn();
        }
        if (refused > 0) await eventually(() => expect(answers.length).toBe(refused));
        await resume();
        await eventually(() => expect(answers.length).toBe(100 * places));
        const failed = answers.flatMap(({ error }) => error ?? []);
        expect(new Set(failed.map(({ message }) => message))).toEqual(
          new Set(refused === 0 ? [] : ['too many calls to Redis were open within 50 ms (REDIS_POOL_SIZE)']),
        );
        expect(failed.length).toBe(refused);
        expect(await totalOf(store, { key, hits: 0 })).toBe(100 * places - refused);
        const after = Array.from({ length: 2 * places }, () => submit(store, [counterOp({ key })]));
        expect((await Promise.all(after)).flat().filter(({ error }) => error !== undefined)).toEqual([]);
        expect(new Set(answers).size).toBe(100 * places);
      } finally {
        await store.close();
      }
    },
  );
}

describeWithServer('a pool of calls under a hundred times its size', redisProgram, (path) => {
  describe('on one Redis', () => {
    let server: RedisServer;
    beforeAll(async () => {
      server = await startRedis({ path });
    });
    afterAll(() => server?.stop());
    const stop = () => server.kill('SIGSTOP');
    const go = () => server.kill('SIGCONT');
    const url = () => `127.0.0.1:${server.port}`;

    describe('with scripts', () => {
      poolSuite((calls) => openRedisStore({ url: url() }, { calls }), stop, go);
    });
    describe('without', () => {
      poolSuite((calls) => openRedisStore({ url: url() }, { calls, scripts: 'never' }), stop, go);
    });
  });

  describe('on a Redis Cluster', () => {
    let cluster: RedisCluster;
    beforeAll(async () => {
      cluster = await startRedisCluster({ path });
    });
    afterAll(() => cluster?.stop());
    const signal = async (name: 'SIGSTOP' | 'SIGCONT') => {
      await Promise.all(cluster.members.map(({ server }) => server.kill(name)));
    };
    poolSuite(
      (calls) => openClusterStore({ url: cluster.url }, { calls }),
      () => signal('SIGSTOP'),
      () => signal('SIGCONT'),
    );
  });
});
