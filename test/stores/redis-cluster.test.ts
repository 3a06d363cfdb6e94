import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { LeaseStore } from '../../limiter/leases/lease-store.ts';
import type { Operation } from '../../limiter/stores/operation.ts';
import type { RedisClusterStore } from '../../limiter/stores/redis/cluster/cluster-store.ts';
import { keySlot } from '../../limiter/stores/redis/cluster/cluster-topology.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { counterOp, submit, totalOf } from '../support/counter-ops.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { eventually } from '../support/eventually.ts';
import { ManualTimers } from '../support/manual-timers.ts';
import { type ClusterMember, type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { commandCalls } from '../support/redis-server.ts';
import { operationsOf, reserveCall, reservedCounter } from '../support/reservation-calls.ts';
import { closedStoreSuite, counterStoreSuite } from './counter-store.suite.ts';

describeWithEachRedis('Redis Cluster', (path) => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster({ path, password: 'tr0ub4dor' });
  });
  afterAll(() => cluster?.stop());

  const settings = () => ({ url: cluster.url, auth: 'tr0ub4dor' });
  const masters = () => cluster.members.slice(0, 3);

  async function storeForTest(
    options: Parameters<typeof openClusterStore>[1] = {},
  ): Promise<RedisClusterStore> {
    const store = await openClusterStore(settings(), options);
    onTestFinished(() => store.close());
    return store;
  }

  /** How often each master ran a command since `resetCalls`. */
  async function calls(command: string): Promise<number[]> {
    const stats = await Promise.all(masters().map(({ client }) => client.info('commandstats')));
    return stats.map((text) => commandCalls(text, command));
  }
  const sum = (numbers: number[]) => numbers.reduce((total, n) => total + n, 0);
  const resetCalls = () => Promise.all(masters().map(({ client }) => client.config('RESETSTAT')));

  describe('with a script for refunds', () => {
    const open = () => openClusterStore(settings());
    counterStoreSuite(open);
    closedStoreSuite(open);
  });

  describe('without scripts', () => {
    const open = () => openClusterStore(settings(), { scripts: 'never', parallelism: 1 });
    counterStoreSuite(open, { bounds: 'refused' });
    closedStoreSuite(open);
  });

  it('finds all nodes by one seed, a replica, and logs in to each', async () => {
    const port = cluster.members[4]?.server.port;
    const store = await openClusterStore({ url: `127.0.0.1:${port}`, auth: 'tr0ub4dor' });
    onTestFinished(() => store.close());
    const keys = Array.from({ length: 60 }, () => randomUUID());
    const ops = await submit(
      store,
      keys.map((key) => counterOp({ key })),
    );
    expect(ops.map(({ after, error }) => [after, error])).toEqual(keys.map(() => [1, undefined]));
    // Three masters, and the seed until its last answer cannot be under way any more.
    expect(store.connectionCounts).toEqual({ active: 4, total: 4, localClose: 0 });
  });

  it('says that the password is wrong without showing it', async () => {
    const failed = openClusterStore({ url: cluster.url, auth: 'hunter2' }, { timeoutMs: 500 }, 500);
    const error = (await failed.catch((reason: Error) => reason)) as Error;
    expect(error.message).toMatch(
      /^timed out waiting for Redis connection to 127\..*: Redis answered: WRONGPASS /,
    );
    expect(error.message).not.toContain('hunter2');
  });

  it('sends one SET and one INCRBY for all additions to a key in one turn, and a script for refunds alone', async () => {
    const store = await storeForTest();
    const keys = Array.from({ length: 30 }, () => randomUUID());
    await resetCalls();
    await Promise.all(
      Array.from({ length: 300 }, (_, i) => submit(store, [counterOp({ key: keys[i % 30] ?? '' })])),
    );
    for (const [name, count] of Object.entries({ set: 30, incrby: 30, expire: 0, evalsha: 0 }))
      expect([name, sum(await calls(name))]).toEqual([name, count]);
    await totalOf(store, { key: keys[0] ?? '', negative: true });
    expect(sum(await calls('evalsha'))).toBe(1);
    expect(await cluster.valuesOf(keys.slice(0, 2))).toEqual(['9', '10']);
  });

  it('continues without scripts if an ACL forbids them, and says so once', async () => {
    for (const { client } of cluster.members)
      await client.acl('SETUSER', 'plain', 'on', '>pw', '~*', '+@all', '-eval', '-evalsha');
    const reasons: string[] = [];
    const store = await openClusterStore(
      { url: cluster.url, auth: 'plain:pw' },
      { onScriptsRejected: (reason) => reasons.push(reason) },
    );
    onTestFinished(() => store.close());
    const keys = Array.from({ length: 10 }, () => randomUUID());
    await Promise.all(keys.map((key) => totalOf(store, { key, hits: 5 })));
    const totals = await Promise.all(keys.map((key) => totalOf(store, { key, hits: 2, negative: true })));
    expect(totals).toEqual(keys.map(() => 3));
    expect(reasons).toEqual([expect.stringMatching(/^Redis answered: NOPERM /)]);
  });

  /** A key of each master. */
  async function keyOfEach(): Promise<string[]> {
    const keys: string[] = [];
    for (const member of masters()) {
      for (;;) {
        const key = randomUUID();
        if ((await cluster.ownerOf(keySlot(key))) !== member) continue;
        keys.push(key);
        break;
      }
    }
    return keys;
  }

  it.each([
    { parallelism: 1, together: [1, 0, 0] },
    { parallelism: 2, together: [1, 1, 0] },
    { parallelism: undefined, together: [1, 1, 1] },
  ])('asks $parallelism nodes at a time', async ({ parallelism, together }) => {
    const store = await storeForTest(parallelism === undefined ? {} : { parallelism });
    const keys = await keyOfEach();
    await resetCalls();
    // They take the commands, and answer none before the pause is over.
    await Promise.all(masters().map(({ client }) => client.call('CLIENT', 'PAUSE', '400', 'WRITE')));
    const [first] = masters() as [ClusterMember];
    const answered = submit(
      store,
      keys.map((key) => counterOp({ key })),
    );
    const waiting = async ({ client }: ClusterMember) =>
      Number(/blocked_clients:(\d+)/.exec(await client.info('clients'))?.[1]) > 0 ? 1 : 0;
    await eventually(async () => expect(await waiting(first)).toBe(1));
    expect(await Promise.all(masters().map(waiting))).toEqual(together);
    expect((await answered).map((op) => op.after)).toEqual([1, 1, 1]);
  });

  it('sends one script for all groups of one slot in one turn', async () => {
    const store = await storeForTest();
    const bound = new FixedWindow(100);
    const run = randomUUID();
    const request = (tag: string) =>
      ['a', 'b'].map((name) => counterOp({ key: `{${tag}}${run}${name}`, bound, groupSize: 2, limit: 100 }));
    const tags = ['one', 'two'];
    await Promise.all(tags.map((tag) => submit(store, request(tag))));
    await resetCalls();
    const all = await Promise.all(
      Array.from({ length: 40 }, (_, i) => submit(store, request(tags[i % 2] ?? ''))),
    );
    expect(sum(await calls('evalsha'))).toBe(2);
    expect(all.flat().map((op) => op.after)).toEqual(all.flatMap((_, i) => Array(2).fill(2 + (i >> 1))));
  });

  /** A slot without keys of other tests, which would have to move, on its way to another master. */
  async function slotThatMoves(): Promise<{ tag: string; slot: number; to: ClusterMember }> {
    let tag = '';
    let slot = 0;
    let from = masters()[0] as ClusterMember;
    do {
      tag = randomUUID();
      slot = keySlot(`{${tag}}`);
      from = await cluster.ownerOf(slot);
    } while ((await from.client.cluster('COUNTKEYSINSLOT', slot)) > 0);
    const to = masters().find((member) => member !== from) as ClusterMember;
    await to.client.cluster('SETSLOT', slot, 'IMPORTING', from.id);
    await from.client.cluster('SETSLOT', slot, 'MIGRATING', to.id);
    return { tag, slot, to };
  }

  it('finds a bucket in a slot that moves; a group whose keys are new there fails uncounted until it has moved', async () => {
    const store = await storeForTest();
    const { tag, slot, to } = await slotThatMoves();
    const given = { bound: new FixedWindow(9), limit: 9 };
    const alone = counterOp({ key: `{${tag}}:alone`, ...given });
    const group = () =>
      ['a', 'b'].map((name) => counterOp({ ...given, key: `{${tag}}:${name}`, groupSize: 2 }));
    await submit(store, [alone]);
    expect([alone.error, alone.after]).toEqual([undefined, 1]);
    const refused = await submit(store, group());
    for (const { error } of refused) {
      expect(error?.message).toMatch(/^Redis answered: TRYAGAIN /);
      expect(error).toMatchObject({ transient: true, notCounted: true });
    }
    await cluster.moveSlot(slot, to);
    expect((await submit(store, group())).map(({ after, error }) => error ?? after)).toEqual([1, 1]);
    expect(await to.client.get(`{${tag}}:alone`)).toBe('1');
  });

  /** One of each kind of request, all about one slot. */
  function mixedTurn(tag: string, turn: number) {
    const key = (name: string) => `{${tag}}:${name}`;
    const given = { bound: new FixedWindow(999), limit: 999, ttlSeconds: 3600 };
    const group = (...names: string[]) =>
      names.map((name) => counterOp({ ...given, key: key(name), groupSize: names.length }));
    const counter = reservedCounter({ stem: key('held'), amount: 2, bound: new FixedWindow(999) });
    return [
      [counterOp({ key: key('plain'), hits: 3, ttlSeconds: 3600 })],
      [counterOp({ key: key('back'), hits: 5, ttlSeconds: 3600 })],
      [counterOp({ key: key('back'), hits: 2, negative: true, ttlSeconds: 3600 })],
      group('one', 'two'),
      group('alone'),
      group(`new ${turn}`, `newer ${turn}`),
      operationsOf(reserveCall({ id: `${turn}`, counters: [counter] })),
    ];
  }

  it('sends one script for all of one slot, whatever a turn mixes', async () => {
    const store = await storeForTest();
    const tag = randomUUID();
    await Promise.all(mixedTurn(tag, 0).map((ops) => submit(store, ops)));
    await resetCalls();
    const other = counterOp({ key: randomUUID() });
    const turn = [...mixedTurn(tag, 1), [other]];
    await Promise.all(turn.map((ops) => submit(store, ops)));
    expect(sum(await calls('evalsha'))).toBe(1);
    expect(turn.flat().map(({ error, after }) => error ?? after)).toEqual([6, 8, 6, 2, 2, 2, 1, 1, 4, 1]);
  });

  it('counts each hit of mixed turns once while their slot moves, or says that it did not', async () => {
    const store = await storeForTest();
    const { tag, slot, to } = await slotThatMoves();
    const counted = new Map<string, number>();
    let refused = 0;
    const note = (op: Operation) => {
      const hits = op.hold === undefined ? (op.verb === 'refund' ? -op.hits : op.hits) : op.hold.amount!;
      if (op.error === undefined) counted.set(op.key, (counted.get(op.key) ?? 0) + hits);
      else {
        refused += 1;
        expect(op.error).toMatchObject({ message: expect.stringContaining('TRYAGAIN'), notCounted: true });
      }
    };
    for (let turn = 0; turn < 6; turn += 1) {
      const requests = mixedTurn(tag, turn);
      const answered = Promise.all(requests.map((ops) => submit(store, ops)));
      // While its answers are on their way.
      if (turn === 2) await cluster.moveSlot(slot, to);
      for (const op of (await answered).flat()) note(op);
    }
    expect(refused).toBeGreaterThan(0);
    const keys = [...counted.keys()];
    expect(await cluster.valuesOf(keys)).toEqual(keys.map((key) => String(counted.get(key))));
    for (const key of await to.client.keys(`*{${tag}}*`))
      expect([key, await to.client.pttl(key)]).toEqual([key, expect.not.toBeOneOf([-1, -2])]);
  });

  it('leases in the slot of a counter, and counts every hit as it comes if that is moving', async () => {
    const store = await storeForTest();
    // No lease is idle on a busy machine.
    const timers = new ManualTimers();
    const clock = { monotonicMs: () => timers.nowMs };
    const leases = new LeaseStore({ store, clock, timers, limiter: 'weir', maxCounters: 9 });
    const { tag, slot, to } = await slotThatMoves();
    const key = `{${tag}}:leased`;
    const count = async () =>
      (await submit(leases, [counterOp({ key, hits: 2, limit: 99, maxLease: 3 })]))[0];
    expect(await count()).toMatchObject({ error: undefined, after: 2, leased: 0 });
    await cluster.moveSlot(slot, to);
    // The last message was not heard: another one is sent a little later.
    await eventually(async () => {
      timers.advance(250);
      expect(await count()).toMatchObject({ error: undefined, leased: 3 });
    });
    expect(await count()).toMatchObject({ error: undefined, leased: 1, fromLease: true });
    const charged = Number(await to.client.get(key));
    expect(await to.client.hget(`weir:lease:${key}`, 'weir')).toMatch(/^\d+ 3 \d+$/);
    await leases.close();
    expect(await to.client.get(key)).toBe(String(charged - 1));
    expect(await to.client.exists(`weir:lease:${key}`)).toBe(0);
  });

  it('sends once in its window what comes soon after another call', async () => {
    const key = randomUUID();
    for (const [windowMs, batches] of [
      [0, 5],
      [200, 2],
    ] as const) {
      const store = await storeForTest({ windowMs });
      await resetCalls();
      const answers: Promise<unknown>[] = [];
      for (let i = 0; i < 5; i += 1) {
        answers.push(submit(store, [counterOp({ key })]));
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      await Promise.all(answers);
      expect(sum(await calls('incrby'))).toBe(batches);
    }
  });
});
