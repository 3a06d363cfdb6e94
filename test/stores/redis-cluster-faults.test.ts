import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import type { Operation } from '../../limiter/stores/operation.ts';
import type { RedisClusterStore } from '../../limiter/stores/redis/cluster/cluster-store.ts';
import { keySlot } from '../../limiter/stores/redis/cluster/cluster-topology.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { counterOp, submit, totalOf } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { LoadedDeadline } from '../support/machine-load.ts';
import { type ClusterMember, type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';

const timeoutMs = 2000;
/** A failover takes some seconds, more where the machine is busy. */
const failover = { timeoutMs: 40_000 };

/** Callers that each wait for an answer before they ask again, until `stop`. */
function load(store: RedisClusterStore, newOp: () => Operation) {
  const answered: Operation[] = [];
  let late = 0;
  let stopped = false;
  const caller = async () => {
    while (!stopped) {
      const op = newOp();
      const deadline = new LoadedDeadline(timeoutMs + 500);
      await submit(store, [op]);
      if (deadline.isOver) late += 1;
      answered.push(op);
      if (op.error !== undefined) await sleep(5);
    }
  };
  const callers = Array.from({ length: 50 }, caller);
  onTestFinished(() => {
    stopped = true;
  });
  return {
    answered,
    /** How many answers came later than the store's timeout allows. */
    late: () => late,
    succeeded: () => answered.filter(({ error }) => error === undefined).length,
    stop: async () => {
      stopped = true;
      await Promise.all(callers);
    },
  };
}

describeWithServer('Redis Cluster under load', redisProgram, (path) => {
  let cluster: RedisCluster;
  let store: RedisClusterStore;

  beforeEach(async () => {
    cluster = await startRedisCluster({ path });
    store = await openClusterStore({ url: cluster.url }, { timeoutMs });
    onTestFinished(async () => {
      await store.close();
      await cluster.stop();
    });
  });

  /** How often the member answered a command with this error. */
  async function refusals({ client }: ClusterMember, error: 'MOVED' | 'ASK'): Promise<number> {
    const stats = await client.info('errorstats');
    return Number(new RegExp(`errorstat_${error}:count=(\\d+)`).exec(stats)?.[1] ?? 0);
  }

  it('follows ASK and MOVED while slots move: every hit counts once, and none fails', {
    timeout: 90_000,
  }, async () => {
    const shared = '{moving}:shared';
    const slot = keySlot(shared);
    const masters = cluster.members.slice(0, 3);
    let count = 0;
    // A third each: the shared key, additions and refunds of 300 others. Refunds go by a script.
    const running = load(store, () => {
      count += 1;
      if (count % 3 === 0) return counterOp({ key: shared, ttlSeconds: 3600 });
      const key = `{moving}:${Math.floor(count / 3) % 300}`;
      return counterOp({ key, hits: 2, negative: count % 3 === 2, ttlSeconds: 3600 });
    });
    const owner = await cluster.ownerOf(slot);
    const others = masters.filter((member) => member !== owner);
    for (const target of [...others, owner, ...others, owner]) {
      const before = running.succeeded();
      await eventually(() => expect(running.succeeded()).toBeGreaterThan(before + 300));
      await cluster.moveSlot(slot, target);
    }
    await running.stop();

    const { answered } = running;
    expect(answered.flatMap(({ error }) => error?.message ?? [])).toEqual([]);
    const totals = answered.filter(({ key }) => key === shared).map(({ after }) => after);
    expect(totals.toSorted((a, b) => a - b)).toEqual(totals.map((_, i) => i + 1));
    expect(await cluster.valuesOf([shared])).toEqual([String(totals.length)]);
    const counts = await Promise.all(
      masters.map((member) => Promise.all([refusals(member, 'ASK'), refusals(member, 'MOVED')])),
    );
    expect(counts.reduce((sum, [ask]) => sum + ask, 0)).toBeGreaterThan(0);
    expect(counts.reduce((sum, [, moved]) => sum + moved, 0)).toBeGreaterThan(0);
    const last = await cluster.ownerOf(slot);
    for (const key of await last.client.keys('{moving}:*'))
      expect(await last.client.pttl(key)).toBeGreaterThan(0);
    expect(running.late()).toBe(0);
  });

  it('continues with the replica when a master is killed: no answer was wrong, none came late', {
    timeout: 90_000,
  }, async () => {
    const running = load(store, () => counterOp({ key: randomUUID(), ttlSeconds: 3600 }));
    await eventually(() => expect(running.succeeded()).toBeGreaterThan(1000));
    const [victim] = cluster.members as [ClusterMember];
    const survivors = cluster.members.slice(1);
    const slots = new Set<boolean>();
    await victim.server.kill('SIGKILL');
    await eventually(() => expect(running.answered.at(-1)?.error).toBeDefined());
    // Whole again: keys of every former range are counted.
    await eventually(async () => {
      for (const key of ['{a}', '{b}', '{c}', '{d}', '{e}', '{f}'].map((tag) => `${tag}${randomUUID()}`)) {
        slots.add((keySlot(key) * 3) / 16_384 < 1);
        expect(await totalOf(store, { key })).toBe(1);
      }
    }, failover);
    expect(slots.size).toBe(2);
    const before = running.succeeded();
    await eventually(() => expect(running.succeeded()).toBeGreaterThan(before + 1000));
    await running.stop();

    const { answered } = running;
    const held = await cluster.valuesOf(
      answered.map(({ key }) => key),
      survivors,
    );
    let lost = 0;
    for (const [i, op] of answered.entries()) {
      expect(held[i] ?? '1').toBe('1');
      if (op.error !== undefined) continue;
      expect(op.after).toBe(1);
      if (held[i] === null) lost += 1;
    }
    expect(running.late()).toBe(0);
    // Redis answers before its replica has the write: what it acknowledged in its last moment can die with it.
    expect(lost).toBeLessThanOrEqual(50);
    const errors = answered.flatMap(({ error }) => error ?? []);
    expect(errors.every((error) => error.transient)).toBe(true);
    // Which of them depends on the moment of the kill.
    const expected =
      /^(connection to Redis was lost before it answered|(Redis|node \S+) is not connected(: .*)?|no node of the Redis Cluster accepts writes for the slot of this key|Redis answered: CLUSTERDOWN The cluster is down)$/;
    expect(errors.map((error) => error.message).filter((message) => !expected.test(message))).toEqual([]);
  });

  it('stops asking a master that hangs within the timeout, and counts with the others meanwhile', {
    timeout: 90_000,
  }, async () => {
    const [victim] = cluster.members as [ClusterMember];
    const keys = Array.from({ length: 300 }, () => randomUUID());
    await victim.server.kill('SIGSTOP');
    onTestFinished(() => victim.server.kill('SIGCONT'));
    const deadline = new LoadedDeadline(timeoutMs + 500);
    const ops = await submit(
      store,
      keys.map((key) => counterOp({ key })),
    );
    deadline.assertInTime();
    for (const op of ops) {
      const hangs = keySlot(op.key) * 3 < 16_384;
      expect([op.key, op.error !== undefined]).toEqual([op.key, hangs]);
    }
    await eventually(async () => {
      const again = await submit(
        store,
        keys.map((key) => counterOp({ key: `${key}:again` })),
      );
      expect(again.filter((op) => op.error !== undefined)).toEqual([]);
    }, failover);
  });
});
