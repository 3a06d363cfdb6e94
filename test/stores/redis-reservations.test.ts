/** Reservations in a real Redis: what the script does to counters and to what it keeps beside them. */
import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { newLeaseTerms } from '../../limiter/stores/operation.ts';
import { PerSecondStore } from '../../limiter/stores/per-second-store.ts';
import type { RedisStore } from '../../limiter/stores/redis/redis-store.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { counterOp, submit } from '../support/counter-ops.ts';
import { describeWithBothRedis, describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { eventually } from '../support/eventually.ts';
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { commandCalls, type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { bookProblems } from '../support/reservation-books.ts';
import {
  lookCall,
  noteOf,
  type ReservedCounter,
  reserveCall,
  reservedCounter,
  sendCall,
  settleCall,
  submitCall,
} from '../support/reservation-calls.ts';
import { reservationStoreSuite, suiteBounds } from './reservation-store.suite.ts';

const storePage = new URL('../../docs/store.md', import.meta.url);

describeWithBothRedis('reservations in Redis', (path) => {
  let server: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    server = await startRedis({ path, lifetimes: { own: ['weir:reserve:1{spoilt}'], jitterSeconds: 3_600 } });
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  const openStore = async (auth = '', options: Parameters<typeof openRedisStore>[1] = {}) => {
    const store = await openRedisStore({ url: `127.0.0.1:${server.port}`, auth }, options);
    onTestFinished(() => store.close());
    return store;
  };
  const counted = (stem: string, amount?: number) => reservedCounter({ stem, amount });
  const reserve = (store: RedisStore, id: string, stem: string, amount: number) =>
    submitCall(store, reserveCall({ id, counters: [counted(stem, amount)] }));

  it('does all calls of a turn by one script', async () => {
    const store = await openStore();
    await reserve(store, 'first', '1{turn}', 1);
    await client.config('RESETSTAT');
    const calls = Array.from({ length: 8 }, (_, i) => reserve(store, `of a turn ${i}`, `1{turn${i % 2}}`, 3));
    const outcomes = (await Promise.all(calls)).map(({ outcome }) => outcome);
    expect(outcomes.filter((outcome) => outcome === 'reserved')).toHaveLength(6);
    expect(commandCalls(await client.info('commandstats'), 'evalsha')).toBe(1);
  });

  it.each([
    ['does all of it for a user who may do what docs/store.md says', ['~*'], []],
    ['fails where a user may not touch what is reserved, and counts on', ['~1{*'], []],
    ['fails where a user may not use sorted sets, having charged nothing', ['~*'], ['-zadd']],
  ])('%s', async (_, keys, without) => {
    const commands = /ACL SETUSER weir on >\S+ ~\* (.*)/
      .exec(readFileSync(storePage, 'utf8'))![1]!
      .split(' ');
    await client.call('ACL', 'SETUSER', 'weir', 'reset', 'on', '>secret', ...keys, ...commands, ...without);
    const stem = `1{acl${keys}${without}}`;
    const store = await openStore('weir:secret');
    const call = reserveCall({ id: 'acl', counters: [counted(stem, 3)] });
    await new Promise<void>((resolve) => sendCall(store, call, resolve));
    const mayReserve = keys[0] === '~*' && without.length === 0;
    if (mayReserve) {
      expect(call).toMatchObject({ error: undefined, outcome: 'reserved' });
      expect(await submitCall(store, settleCall({ id: 'acl', counters: [counted(stem, 1)] }))).toMatchObject({
        outcome: 'settled',
      });
      expect(await store.claims.claim(`acl${stem}`, 60)).toBe(true);
      expect(await store.notes.recall('acl')).toBeUndefined();
      const nowMs = Date.now();
      const kept = new Map([[Math.ceil(nowMs / 1000) + 60, 1]]);
      expect(await store.notes.share!(`d:acl${stem}`, kept, nowMs)).toEqual(kept);
    } else {
      expect(call.error?.message).toMatch(/NOPERM|can't run|no permissions/);
    }
    const [op] = await submit(store, [counterOp({ key: counted(stem).key, hits: 1 })]);
    expect(op).toMatchObject({ error: undefined, after: mayReserve ? 2 : 1 });
  });

  /** All that a turn may ask, each of a counter of its own, and what became of it. */
  const mixedTurn = async (store: RedisStore, name: string) => {
    const key = (kind: string) => `1{${name}}${kind}3600:0`;
    const call = reserveCall({ id: name, counters: [counted(`1{${name}}`, 3)] });
    const hits = [
      submit(store, [counterOp({ key: key('plain') })]),
      submit(store, [counterOp({ key: key('bounded'), bound: new FixedWindow(9), limit: 9 })]),
      submit(store, [counterOp({ key: key('stop') }), counterOp({ key: key('more') })], {
        stopWhenOver: true,
      }),
    ];
    const reserved = new Promise<void>((resolve) => sendCall(store, call, resolve));
    const last = submit(store, [counterOp({ key: key('plain') })]);
    const ops = (await Promise.all([...hits, last])).flat();
    await reserved;
    return { call, answers: ops.map(({ error, after }) => error?.message ?? after) };
  };

  it.each([
    ['plain', false, false],
    ['plain, with stop-when-over', false, true],
    ['with a bound', true, false],
    ['with a bound, with stop-when-over', true, true],
  ])(
    'reports on a counter exceeded by one, %s, whether reservations are open or have expired',
    async (name, isBounded, stopWhenOver) => {
      const store = await openStore();
      const exceeded = async (ttlMs: number, isCommitted = false) => {
        const stem = `1{exceeded;${name}${ttlMs}${isCommitted}}`;
        const counter = reservedCounter({ stem, amount: 10, ttlMs });
        await submitCall(store, reserveCall({ id: 'any', counters: [counter] }));
        if (isCommitted) await submitCall(store, settleCall({ id: 'any', counters: [counter] }));
        // By then, the shorter one has expired.
        await new Promise((resolve) => setTimeout(resolve, 20));
        const { key, bound, ttlSeconds } = counter;
        const given = { key, ttlSeconds, limit: 10, ...(isBounded && { bound }) };
        const [op] = await submit(store, [counterOp(given)], { stopWhenOver });
        const { mayReturn = false, hasExpired = false } = op!;
        return { mayReturn, hasExpired };
      };
      expect(await exceeded(60_000)).toEqual({ mayReturn: true, hasExpired: false });
      expect(await exceeded(1)).toEqual({ mayReturn: false, hasExpired: true });
      expect(await exceeded(60_000, true)).toEqual({ mayReturn: false, hasExpired: false });
    },
  );

  it('does all that a turn mixes by one call', async () => {
    const store = await openStore();
    await mixedTurn(store, 'first');
    await client.config('RESETSTAT');
    const { call, answers } = await mixedTurn(store, 'mixed');
    expect(call).toMatchObject({ error: undefined, outcome: 'reserved', counters: [{ used: 3, open: 1 }] });
    expect(answers).toEqual([1, 1, 1, 1, 2]);
    expect(commandCalls(await client.info('commandstats'), 'evalsha')).toBe(1);
  });

  it('counts what else a turn brought if a user may not touch what is reserved', async () => {
    await client.call('ACL', 'SETUSER', 'narrow', 'reset', 'on', '>secret', '~1{*', '+@all');
    const { call, answers } = await mixedTurn(await openStore('narrow:secret'), 'narrow');
    expect(call.error?.message).toMatch(/NOPERM|can't|no permissions/);
    expect(answers).toEqual([1, 1, 1, 1, 2]);
  });

  it('reserves where a user may touch only the keys of its own prefix', async () => {
    const patterns = ['~1{prefixed*', '~weir:reserve:1{prefixed*', '~weir:reserve-due:1{prefixed*'];
    await client.call('ACL', 'SETUSER', 'prefixed', 'reset', 'on', '>secret', ...patterns, '+@all');
    const store = await openStore('prefixed:secret');
    const counters = (isShadow: boolean) => [{ ...counted('1{prefixed}', 3), isShadow }];
    for (const [id, isShadow] of [
      ['usual', false],
      ['general', true],
    ] as const) {
      const call = await submitCall(store, reserveCall({ id, counters: counters(isShadow) }));
      expect(call).toMatchObject({ outcome: 'reserved', counters: [{ open: isShadow ? 2 : 1 }] });
    }
    for (const key of await client.keys('*1{prefixed}*')) expect(await client.pttl(key)).toBeGreaterThan(0);
  });

  it('counts nothing by an algorithm that it does not know', async () => {
    const key = '1{unknown}3600:0';
    const bound = Object.assign(new FixedWindow(9), { scriptText: 'leaky 9' });
    const [op] = await submit(await openStore(), [counterOp({ key, bound, limit: 9 })]);
    expect(op!.error?.message).toMatch(/no algorithm is named leaky/);
    expect(await client.exists(key)).toBe(0);
  });

  it('fails for one counter alone whose record somebody spoilt', async () => {
    const store = await openStore();
    await client.set('weir:reserve:1{spoilt}3600:', 'x');
    const [spoilt, sound] = ['1{spoilt}', '1{sound}'].map((stem) =>
      reserveCall({ id: 'spoilt', counters: [counted(stem, 3)] }),
    );
    await Promise.all(
      [spoilt!, sound!].map((call) => new Promise<void>((done) => sendCall(store, call, done))),
    );
    expect(spoilt!.error?.message).toMatch(/WRONGTYPE/);
    expect(sound).toMatchObject({ error: undefined, outcome: 'reserved' });
  });

  it('answers at once if scripts are never run', async () => {
    const store = await openStore('', { scripts: 'never' });
    const call = reserveCall({ id: 'never', counters: [counted('1{never}', 3)] });
    await new Promise<void>((resolve) => sendCall(store, call, resolve));
    expect(call.error?.message).toMatch(/runs no scripts/);
    expect(await store.claims.claim('never', 60)).toBe(true);
  });

  it('shares tallies of what is stored, in a key that ends with the last reservation', async () => {
    const { notes } = await openStore('', { keyPrefix: 'tallied:' });
    const share = (changes: [number, number][], nowMs: number) =>
      notes.share!('d:x', new Map(changes), nowMs);
    const now = Math.floor(Date.now() / 1000);
    const all = async (changes: [number, number][], seconds: number) =>
      [...(await share(changes, (now + seconds) * 1000))].sort(([one], [other]) => one - other);
    const key = 'weir:reserve-tally:tallied:d:x';
    expect(await all([], 0)).toEqual([]);
    expect(await client.exists(key)).toBe(0);
    expect(
      await all(
        [
          [now + 60, 3],
          [now + 90, 1],
        ],
        0,
      ),
    ).toEqual([
      [now + 60, 3],
      [now + 90, 1],
    ]);
    const ttl = await client.ttl(key);
    expect(ttl).toBeGreaterThan(60);
    expect(ttl).toBeLessThanOrEqual(91);
    expect(
      await all(
        [
          [now + 60, -5],
          [now + 90, 2],
        ],
        0,
      ),
    ).toEqual([[now + 90, 3]]);
    expect(await all([[now + 200, 1]], 90)).toEqual([[now + 200, 1]]);
    await all([[now + 200, -1]], 90);
    expect(await client.exists(key)).toBe(0);
  });

  it('says when the first of those is due that leave no room on a counter', async () => {
    const bounds = { maxReservations: 2, recordMs: 600_000 };
    const store = await openStore('', { reservations: bounds });
    const ask = (id: string, ttlMs: number) =>
      submitCall(
        store,
        reserveCall({ id, counters: [reservedCounter({ stem: '1{no room}', amount: 1, ttlMs })] }),
      );
    await ask('a', 180_000);
    const { expiresAtMs } = await ask('b', 120_000);
    const full = await ask('c', 60_000);
    expect([full.outcome, full.full, full.expiresAtMs]).toEqual([
      ...['full', { of: 'counter', roomAtMs: expiresAtMs }, 0],
    ]);
  });

  it('leases nothing of a counter while anything is reserved on it', async () => {
    const store = await openStore();
    const stem = '1{leased}';
    const { key } = counted(stem);
    let sequence = 0;
    const granted = async () => {
      sequence += 1;
      const reported = { sequence, want: 2, max: 2, limit: 100 };
      const lease = newLeaseTerms({ ledgerKey: `weir:lease:${key}`, limiter: 'one', ...reported });
      await submit(store, [counterOp({ key, hits: 1, limit: 100, maxLease: 2, lease })]);
      return lease.granted;
    };
    expect(await granted()).toBe(2);
    await reserve(store, 'leased', stem, 3);
    expect(await granted()).toBe(0);
    await submitCall(store, settleCall({ id: 'leased', counters: [counted(stem, 1)] }));
    expect(await granted()).toBe(2);
  });

  it('reserves over two servers, and undoes on one what does not fit on the other', async () => {
    const other = await startRedis({ path, lifetimes: { jitterSeconds: 3_600 } });
    onTestFinished(() => other.stop());
    const main = await openStore();
    const second = await openRedisStore({ url: `127.0.0.1:${other.port}` });
    onTestFinished(() => second.close());
    const both = new PerSecondStore({ main, perSecond: second });
    const counters = (amount?: number) => [
      counted('1{spread}', amount),
      reservedCounter({ stem: '1{second}', amount, perSecond: true, bound: new FixedWindow(5), group: 1 }),
    ];
    const tooMuch = await submitCall(both, reserveCall({ id: 'spread', counters: counters(6) }));
    expect(tooMuch).toMatchObject({
      outcome: 'refused',
      counters: [{ used: 0 }, { outcome: 'refused', used: 0 }],
    });
    const made = await submitCall(both, reserveCall({ id: 'spread', counters: counters(5), note: 'both' }));
    expect(made).toMatchObject({ outcome: 'reserved', counters: [{ used: 5 }, { used: 5 }] });
    expect(await both.notes!.recall('spread')).toBe('both');
    expect(await both.notes!.note(noteOf('spread', 'of nothing', 60_000))).toBe('both');
    await second.notes.note(noteOf('second', 'there', 60_000));
    expect(await both.notes!.note(noteOf('second', 'here', 60_000))).toBe('there');
    expect(await both.notes!.note(noteOf('of nothing', 'here', 60_000))).toBeUndefined();
    const leftMs = await client.pttl('weir:reserve-note:of nothing');
    expect(Math.abs(leftMs - 60_000 - suiteBounds.recordMs)).toBeLessThan(30_000);
    const settled = await submitCall(both, settleCall({ id: 'spread', counters: counters(2) }));
    expect(settled).toMatchObject({ outcome: 'settled', charged: 2, counters: [{ used: 2 }, { used: 2 }] });
    const again = await submitCall(both, settleCall({ id: 'spread', counters: counters(4) }));
    expect(again).toMatchObject({ outcome: 'repeated', charged: 2, counters: [{ used: 2 }, { used: 2 }] });
  });

  it('releases everything that has expired before it answers a read or a request over limit, however many, in parts', async () => {
    const many = 2_500;
    const bounds = { maxReservations: many, recordMs: 600_000 };
    const store = await openRedisStore({ url: `127.0.0.1:${server.port}` }, { reservations: bounds });
    try {
      const stems = ['1{looked}', '1{needed}', '1{full}'];
      const counter = (stem: string, given: Partial<ReservedCounter> = {}) =>
        reservedCounter({ stem, bound: new FixedWindow(stem === '1{full}' ? 1e9 : many), ...given });
      const ask = (stem: string, id: string, given: Partial<ReservedCounter>) =>
        submitCall(store, reserveCall({ id, counters: [counter(stem, given)] }));
      const look = async (stem: string) => (await submitCall(store, lookCall([counter(stem)]))).counters[0]!;
      const ids = Array.from({ length: many }, (_, i) => `many-${i}`);
      // The one that is looked at comes last, so that nothing of it has expired by then.
      for (const stem of stems.toReversed())
        await Promise.all(ids.map((id) => ask(stem, id, { amount: 1, ttlMs: 3000 })));
      expect(await look('1{looked}')).toMatchObject({ used: many, open: many });
      // Longer than their TTL, and than Redis' clock may differ from this one's in what it rounds.
      await new Promise((resolve) => setTimeout(resolve, 3500));
      const calls = async () => commandCalls(await client.info('commandstats'), 'evalsha');
      const inParts = async (asked: Promise<unknown>) => {
        const before = await calls();
        await asked;
        return (await calls()) - before;
      };
      const gone = { used: 0, reserved: 0, open: 0, givenBack: many };
      const looked = look('1{looked}');
      expect(await inParts(looked)).toBeGreaterThanOrEqual(many / 400);
      expect(await looked).toMatchObject(gone);
      const needed = ask('1{needed}', 'needed', { amount: many });
      expect(await inParts(needed)).toBeGreaterThanOrEqual(many / 400);
      expect(await needed).toMatchObject({
        outcome: 'reserved',
        counters: [{ used: many, open: 1, givenBack: many }],
      });
      const beyond = ask('1{full}', 'beyond', { amount: 2e9 });
      expect(await inParts(beyond)).toBeGreaterThanOrEqual(many / 400);
      expect(await beyond).toMatchObject({ outcome: 'refused', counters: [gone] });
    } finally {
      await store.close();
    }
  });

  it('reserves beside what somebody spoilt in a record of ours', async () => {
    const store = await openStore();
    const stem = '1{spoilt head}';
    await client.hset(`weir:reserve:${stem}3600:`, 'h', 'x', 'pother', 'x');
    expect(await reserve(store, 'one', stem, 3)).toMatchObject({ outcome: 'reserved' });
    const settled = await submitCall(store, settleCall({ id: 'one', counters: [counted(stem, 1)] }));
    expect(settled).toMatchObject({ outcome: 'settled', counters: [{ used: 1, reserved: 0, open: 0 }] });
  });

  it('stops at what is committed when it releases what has expired', async () => {
    const bounds = { maxReservations: 1000, recordMs: 600_000 };
    const store = await openRedisStore({ url: `127.0.0.1:${server.port}` }, { reservations: bounds });
    try {
      const counter = (given: Partial<ReservedCounter> = {}) =>
        reservedCounter({ stem: '1{settled}', bound: new FixedWindow(100), ...given });
      const ids = Array.from({ length: 100 }, (_, i) => `settled-${i}`);
      const each = (submit: (id: string) => Promise<unknown>) => Promise.all(ids.map(submit));
      await each((id) => submitCall(store, reserveCall({ id, counters: [counter({ amount: 1 })] })));
      await each((id) => submitCall(store, settleCall({ id, counters: [counter({ amount: 0 })] })));
      const reserve = (id: string, given: Partial<ReservedCounter>) =>
        submitCall(store, reserveCall({ id, counters: [counter(given)] }));
      await reserve('expires', { amount: 1, ttlMs: 1 });
      await eventually(async () => {
        const { outcome, counters } = await reserve('too much', { amount: 101 });
        expect(outcome).toBe('refused');
        expect(counters[0]).toMatchObject({ used: 0, open: 0 });
      });
      const { counters } = await submitCall(store, lookCall([counter()]));
      expect(counters[0]).toMatchObject({ used: 0, open: 0 });
    } finally {
      await store.close();
    }
  });

  describe('as every store', () => {
    const open = async () => {
      const store = await openRedisStore({ url: `127.0.0.1:${server.port}` }, { reservations: suiteBounds });
      return store;
    };
    const expectSoundBooks = async (pattern?: string) => {
      const options = { recordMs: suiteBounds.recordMs, nowMs: Date.now(), isClockOfServer: true };
      expect(await bookProblems(client, options, pattern)).toEqual([]);
    };
    reservationStoreSuite(open, { expectSoundBooks });
  });
});

describeWithEachRedis('reservations in a Redis Cluster', (path) => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await startRedisCluster({ path, lifetimes: { jitterSeconds: 3_600 } });
  });
  afterAll(() => cluster?.stop());

  const open = async () => {
    const store = await openClusterStore({ url: cluster.url }, { reservations: suiteBounds });
    return store;
  };

  it('reports open reservations on every node, without a key that is in no slot of a counter', async () => {
    const store = await open();
    onTestFinished(() => store.close());
    const counters = Array.from({ length: 12 }, (_, i) =>
      reservedCounter({ stem: `1{node;${i}}`, amount: 10 }),
    );
    const reports = counters.map(async (counter) => {
      await submitCall(store, reserveCall({ id: 'open', counters: [counter] }));
      const { key, bound, ttlSeconds } = counter;
      const [op] = await submit(store, [counterOp({ key, bound, ttlSeconds, limit: 10 })]);
      return op!.mayReturn;
    });
    expect(await Promise.all(reports)).toEqual(counters.map(() => true));
    const found = await Promise.all(cluster.members.map(({ client }) => client.keys('weir:reserve-any')));
    expect(found.flat()).toEqual([]);
  });

  reservationStoreSuite(open, { onePlace: false });
});
