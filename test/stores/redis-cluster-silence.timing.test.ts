import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { BreakerStore } from '../../limiter/stores/failure/breaker-store.ts';
import type { Operation } from '../../limiter/stores/operation.ts';
import { keySlot } from '../../limiter/stores/redis/cluster/cluster-topology.ts';
import { systemTimers } from '../../process/time/clock.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { counterOp, submit } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { type ClusterMember, type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { compareTimes } from '../support/second-tries.ts';

const silenceMs = 700;
/** Of the stores: far above what any answer may take here. */
const timeoutMs = 20_000;

interface Answered {
  op: Operation;
  tookMs: number;
  /** Its node was known to hang when it was asked. */
  known: boolean;
}

const isVictims = (key: string) => keySlot(key) * 3 < 16_384;

describeWithServer('a Redis Cluster with one node that hangs', redisProgram, (path) => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    // No failover ends what is to be seen.
    cluster = await startRedisCluster({ path, args: ['--cluster-node-timeout', '60000'] });
  });
  afterAll(() => cluster?.stop());

  it.each([
    ['one node after the other', 1],
    ['all nodes at once', undefined],
  ])(
    'fails its keys at once and counts the others, asked %s',
    { timeout: 60_000 },
    async (_, parallelism) => {
      const [victim] = cluster.members as [ClusterMember];
      const name = `127.0.0.1:${victim.server.port}`;
      const nodeChanges: string[] = [];
      const inner = await openClusterStore(
        { url: cluster.url },
        {
          timeoutMs,
          silenceMs,
          parallelism,
          onNodeChange: (node, reached, reason) => nodeChanges.push(`${node} ${reached ? 'back' : reason}`),
        },
      );
      nodeChanges.length = 0;
      const store = new BreakerStore({
        store: inner,
        timers: systemTimers,
        random: Math.random,
        silenceMs,
        probeIntervalMs: 100,
        patienceMs: 10_000,
        maxWaiting: 1000,
        maxWaitingBytes: 1_000_000,
      });
      const answered: Answered[] = [];
      let stopped = false;
      const call = async () => {
        while (!stopped) {
          const op = counterOp({ key: randomUUID(), ttlSeconds: 3600 });
          const known = nodeChanges.length === 1;
          const askedMs = performance.now();
          await submit(store, [op]);
          answered.push({ op, tookMs: performance.now() - askedMs, known });
          if (op.error !== undefined) await sleep(2);
        }
      };
      const calls = Array.from({ length: 50 }, call);
      onTestFinished(async () => {
        stopped = true;
        await victim.server.kill('SIGCONT');
        await Promise.all(calls);
        await store.close();
      });
      await eventually(() => expect(answered.length).toBeGreaterThan(500));

      await victim.server.kill('SIGSTOP');
      await eventually(() => expect(nodeChanges).toEqual([`${name} it does not answer`]));
      const before = answered.length;
      await eventually(() => expect(answered.length).toBeGreaterThan(before + 2000));
      await victim.server.kill('SIGCONT');
      await eventually(() => expect(nodeChanges).toEqual([`${name} it does not answer`, `${name} back`]));
      const back = answered.length;
      await eventually(() => expect(answered.length).toBeGreaterThan(back + 500));
      stopped = true;
      await Promise.all(calls);

      expect(answered.at(-1)?.op.error).toBeUndefined();
      const known = answered.filter((answer) => answer.known);
      const own = known.filter(({ op }) => isVictims(op.key));
      const others = known.filter(({ op }) => !isVictims(op.key));
      expect([own.length > 100, others.length > 100]).toEqual([true, true]);
      expect(others.filter(({ op }) => op.error !== undefined)).toEqual([]);
      // The last ones came when it was back.
      const refused = own.filter(({ op }) => op.error !== undefined);
      expect(refused.length).toBeGreaterThan(100);
      // The last attempt to connect may have found no answer either.
      const text = new RegExp(`^node ${name} is not connected(: Redis did not answer within [0-9.]+ ms)?$`);
      expect(refused.filter(({ op }) => !text.test(op.error!.message) || !op.error!.notCounted)).toEqual([]);
      const slowestMs = Math.max(...answered.map(({ tookMs }) => tookMs));
      compareTimes(() => expect(slowestMs).toBeLessThan(timeoutMs / 4));
      expect(store.opened).toBe(0);
      const held = await cluster.valuesOf(answered.map(({ op }) => op.key));
      const wrong = answered.filter(({ op }, i) =>
        op.error === undefined
          ? op.after !== 1 || held[i] !== '1'
          : (held[i] ?? '1') !== '1' || (op.error.notCounted && held[i] !== null),
      );
      expect(wrong).toEqual([]);
    },
  );
});
