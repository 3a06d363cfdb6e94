import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MemoryStoreAdmin } from '../../limiter/operate/store-admin/memory-store-admin.ts';
import type { CounterRef, MissingRight, StoreAdmin } from '../../limiter/operate/store-admin/store-admin.ts';
import { parseClusterAddress, parseSentinelAddress } from '../../limiter/stores/redis/wire/redis-address.ts';
import { counterOp, submit } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { nutcrackerProgram, redisProgram } from '../support/find-server.ts';
import { openMemoryStore } from '../support/open-memory-store.ts';
import { openRedisStoreAdmin } from '../support/open-store-admin.ts';
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { startSentinelTrio } from '../support/redis-sentinels.ts';
import { commandCalls, type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { startTwemproxy } from '../support/twemproxy.ts';

/** All that a scan finds. */
async function scanAll(storeAdmin: StoreAdmin, prefixes: string[], count = 100): Promise<CounterRef[]> {
  const found: CounterRef[] = [];
  let from: string | undefined;
  do {
    const { counters, place } = await storeAdmin.scan({ prefixes, from, count });
    found.push(...counters);
    from = place;
  } while (from !== undefined);
  return found;
}

const keysOf = (found: readonly CounterRef[]) => [...new Set(found.map(({ key }) => key))].sort();

/** What every store admin with counters of its own does. `count` makes counters, a hit each. */
function storeAdminSuite(
  open: () => StoreAdmin | Promise<StoreAdmin>,
  count: (keys: string[]) => Promise<void>,
) {
  it('finds, reads and removes counters slice by slice', async () => {
    const storeAdmin = await open();
    const domain = `d${randomUUID()}`;
    const keys = Array.from({ length: 500 }, (_, i) => `${domain}_ip_${i}_60`);
    await count([...keys, `${domain}x_ip_1_60`]);
    const found = await scanAll(storeAdmin, [`${domain}_`], 50);
    expect(keysOf(found)).toEqual(keys.sort());
    const refs = keys.slice(0, 3).map((key) => ({ key, perSecond: false }));
    const missing = { key: `${domain}_none`, perSecond: false };
    expect(await storeAdmin.read([...refs, missing])).toEqual([
      ...refs.map(() => ({ held: [1, 0, 0], leased: 0 })),
      undefined,
    ]);
    expect(await storeAdmin.remove([...refs, missing])).toBe(3);
    expect(keysOf(await scanAll(storeAdmin, [`${domain}_`]))).toHaveLength(497);
    await storeAdmin.close();
  });

  it('rejects a cursor that it did not give', async () => {
    const storeAdmin = await open();
    const asked = storeAdmin.scan({ prefixes: ['a'], from: 'nonsense', count: 10 });
    await expect(asked).rejects.toThrow('the cursor is not from this limiter');
    await storeAdmin.close();
  });

  it('keeps records, and changes one only in place of what it was', async () => {
    const storeAdmin = await open();
    const field = randomUUID();
    expect(await storeAdmin.putRecord('overrides', field, 'one', 'absent')).toBe(true);
    expect(await storeAdmin.putRecord('overrides', field, 'two', 'absent')).toBe(false);
    expect(await storeAdmin.putRecord('overrides', field, 'two', { is: 'other' })).toBe(false);
    expect(await storeAdmin.putRecord('overrides', field, 'two', { is: 'one' })).toBe(true);
    expect((await storeAdmin.records('overrides')).get(field)).toBe('two');
    expect((await storeAdmin.records('revisions')).get(field)).toBeUndefined();
    expect(await storeAdmin.putRecord('overrides', field, 'three')).toBe(true);
    expect(await storeAdmin.removeRecord('overrides', field, 'two')).toBe(false);
    expect(await storeAdmin.removeRecord('overrides', field, 'three')).toBe(true);
    expect(await storeAdmin.putRecord('overrides', field, 'three')).toBe(true);
    expect(await storeAdmin.removeRecord('overrides', field)).toBe(true);
    expect(await storeAdmin.removeRecord('overrides', field)).toBe(false);
    await storeAdmin.close();
  });

  it('shows all listeners what is published, until they end it', async () => {
    const storeAdmin = await open();
    const reported: string[] = [];
    let back = 0;
    const end = storeAdmin.subscribe({ received: (text) => reported.push(text), back: () => (back += 1) });
    await eventually(() => expect(back).toBe(1), { timeoutMs: 30_000 });
    expect(await storeAdmin.publish('first')).toBe(true);
    await eventually(() => expect(reported).toEqual(['first']), { timeoutMs: 30_000 });
    end();
    expect(await storeAdmin.publish('second')).toBe(true);
    await storeAdmin.records('limiters');
    expect(reported).toEqual(['first']);
    await storeAdmin.close();
  });
}

describe('the store admin of memory', () => {
  const store = openMemoryStore();
  storeAdminSuite(
    () => new MemoryStoreAdmin(store),
    async (keys) =>
      void (await submit(
        store,
        keys.map((key) => counterOp({ key })),
      )),
  );
});

describe('a cursor of memory', () => {
  it('is for one question, and says so the next time', async () => {
    const store = openMemoryStore();
    await submit(
      store,
      ['a', 'b', 'c'].map((key) => counterOp({ key })),
    );
    const storeAdmin = new MemoryStoreAdmin(store);
    const { place } = await storeAdmin.scan({ prefixes: [''], from: undefined, count: 2 });
    expect(await storeAdmin.scan({ prefixes: [''], from: place, count: 2 })).toMatchObject({
      counters: [{ key: 'c' }],
      place: undefined,
    });
    await expect(storeAdmin.scan({ prefixes: [''], from: place, count: 2 })).rejects.toThrow('start again');
  });
});

/** A store admin writes nothing but records, which stay: all counters are the tests' own. */
const writtenByTests = { own: [''] };

describeWithServer('the store admin of one Redis', redisProgram, (path) => {
  let redis: RedisServer;
  let client: Redis;
  beforeAll(async () => {
    redis = await startRedis({ path, lifetimes: writtenByTests });
    client = new Redis(redis.port, '127.0.0.1', { protocol: 2 });
  });
  afterAll(async () => {
    client?.disconnect();
    await redis?.stop();
  });
  const url = () => `127.0.0.1:${redis.port}`;
  storeAdminSuite(
    () => openRedisStoreAdmin(url()),
    async (keys) => void (await client.mset(keys.flatMap((key) => [key, '1']))),
  );

  it('lists no key of ours that is no counter, and reads nothing that is none', async () => {
    const storeAdmin = openRedisStoreAdmin(url());
    await client.hset('weir:lease:{a_b}', 't', '5');
    await client.hset('a_list', 'x', 'y');
    await client.set('a_text', 'words');
    await client.set('a_window', '28333333:4:5');
    await storeAdmin.putRecord('limiters', 'me', '{}');
    expect(keysOf(await scanAll(storeAdmin, ['']))).not.toContain('weir:lease:{a_b}');
    const refs = ['a_list', 'a_text', 'a_window'].map((key) => ({ key, perSecond: false }));
    const window = { held: [28333333, 4, 5], leased: 0 };
    expect(await storeAdmin.read(refs)).toEqual([undefined, undefined, window]);
    await storeAdmin.close();
  });

  it('reads what is leased beside a counter, and removes that with it, and nothing of other windows', async () => {
    const storeAdmin = openRedisStoreAdmin(url(), { leases: true });
    await client.set('l_ip_1_60', '9');
    await client.hset('weir:lease:{l_ip_1_60}', 't', '4', 'n', '1');
    const counter = { key: 'l_ip_1_60', perSecond: false };
    expect(await storeAdmin.read([counter])).toEqual([{ held: [9, 0, 0], leased: 4 }]);
    await client.hset('weir:reserve:l_ip_1_', 'o120', '1 9');
    await client.zadd('weir:reserve-due:l_ip_1_', 1, 'pa');
    expect(keysOf(await scanAll(storeAdmin, ['weir:']))).toEqual([]);
    expect(await storeAdmin.remove([counter])).toBe(1);
    expect(await client.exists('weir:lease:{l_ip_1_60}')).toBe(0);
    expect(await client.exists('weir:reserve:l_ip_1_', 'weir:reserve-due:l_ip_1_')).toBe(2);
    await storeAdmin.close();
  });

  it('finds keys whose prefix has signs of patterns in it', async () => {
    const storeAdmin = openRedisStoreAdmin(url());
    await client.mset('[*]?\\_a_1', '1', 'x_a_1', '1');
    expect(keysOf(await scanAll(storeAdmin, ['[*]?\\_']))).toEqual(['[*]?\\_a_1']);
    await storeAdmin.close();
  });

  it('asks by SCAN alone, never by KEYS', async () => {
    const storeAdmin = openRedisStoreAdmin(url());
    await scanAll(storeAdmin, ['a']);
    const stats = await client.info('commandstats');
    expect(commandCalls(stats, 'scan')).toBeGreaterThan(0);
    expect(commandCalls(stats, 'keys')).toBe(0);
    await storeAdmin.close();
  });

  it('hears again what is published once the server is back', async () => {
    const own = await startRedis({ path });
    const storeAdmin = openRedisStoreAdmin(`127.0.0.1:${own.port}`);
    const reported: string[] = [];
    let back = 0;
    storeAdmin.subscribe({ received: (text) => reported.push(text), back: () => (back += 1) });
    await eventually(() => expect(back).toBe(1), { timeoutMs: 30_000 });
    await own.kill('SIGKILL');
    await expect(storeAdmin.records('overrides')).rejects.toThrow();
    expect(storeAdmin.missing).toEqual([]);
    await own.start();
    await eventually(() => expect(back).toBe(2), { timeoutMs: 30_000 });
    await eventually(async () => expect(await storeAdmin.publish('again')).toBe(true), { timeoutMs: 30_000 });
    await eventually(() => expect(reported).toContain('again'), { timeoutMs: 30_000 });
    await storeAdmin.close();
    await own.stop();
  });

  it('names what an ACL rejects, and no longer once it is allowed', async () => {
    await client.acl('SETUSER', 'poor', 'on', '>secret-word', '~*', '+ping', '+get', '+hgetall');
    const reported: MissingRight[] = [];
    const storeAdmin = openRedisStoreAdmin(url(), { auth: 'poor:secret-word', reported });
    await expect(storeAdmin.scan({ prefixes: [''], from: undefined, count: 10 })).rejects.toThrow('NOPERM');
    expect(await storeAdmin.publish('x')).toBe(false);
    storeAdmin.subscribe({ received: () => {}, back: () => {} });
    await eventually(
      () =>
        expect(storeAdmin.missing.map(({ command }) => command).sort()).toEqual([
          'PUBLISH',
          'SCAN',
          'SUBSCRIBE',
        ]),
      { timeoutMs: 30_000 },
    );
    for (const { message } of storeAdmin.missing) expect(message).toContain('NOPERM');
    expect(await storeAdmin.records('overrides')).toEqual(new Map());
    await client.acl('SETUSER', 'poor', '+scan', '+publish', 'allchannels');
    await scanAll(storeAdmin, ['a']);
    expect(await storeAdmin.publish('x')).toBe(true);
    expect(storeAdmin.missing.map(({ command }) => command)).toEqual(['SUBSCRIBE']);
    expect(reported).toHaveLength(3);
    await storeAdmin.close();
  });

  it('needs of its user no more than docs/store.md says', async () => {
    const text = readFileSync(new URL('../../docs/store.md', import.meta.url), 'utf8');
    const granted = /ACL SETUSER weir on >\S+ (.*)/.exec(text)![1]!.split(' ');
    await client.call('ACL', 'SETUSER', 'weir', 'reset', 'resetchannels', 'on', '>secret', ...granted);
    const storeAdmin = openRedisStoreAdmin(url(), { auth: 'weir:secret', leases: true, prefix: 'doc:' });
    let back = 0;
    storeAdmin.subscribe({ received: () => {}, back: () => (back += 1) });
    await client.set('doc:a_b_1_60', '1');
    const found = await scanAll(storeAdmin, ['doc:a']);
    expect(await storeAdmin.read(found)).toHaveLength(1);
    expect(await storeAdmin.remove(found)).toBe(1);
    for (const when of ['always', 'absent', { is: 'x' }] as const) {
      await storeAdmin.putRecord('overrides', 'f', 'y', when);
    }
    await storeAdmin.records('overrides');
    await storeAdmin.removeRecord('overrides', 'f');
    expect(await storeAdmin.publish('x')).toBe(true);
    await eventually(() => expect(back).toBe(1), { timeoutMs: 30_000 });
    expect(storeAdmin.missing).toEqual([]);
    await storeAdmin.close();
  });

  it('reads limits per second from their own Redis, and scans both', async () => {
    const other = await startRedis({ path });
    const storeAdmin = openRedisStoreAdmin(url(), { perSecond: `127.0.0.1:${other.port}` });
    const seconds = new Redis(other.port, '127.0.0.1', { protocol: 2 });
    await seconds.set('both_s_1', '2');
    await client.set('both_m_60', '3');
    expect((await scanAll(storeAdmin, ['both_'])).sort((a, b) => (a.key < b.key ? -1 : 1))).toEqual([
      { key: 'both_m_60', perSecond: false },
      { key: 'both_s_1', perSecond: true },
    ]);
    const held = await storeAdmin.read([{ key: 'both_s_1', perSecond: true }]);
    expect(held[0]?.held[0]).toBe(2);
    await client.set('both_s_1', '9');
    expect(await storeAdmin.remove([{ key: 'both_s_1', perSecond: true }])).toBe(1);
    expect([await seconds.exists('both_s_1'), await client.get('both_s_1')]).toEqual([0, '9']);
    seconds.disconnect();
    await storeAdmin.close();
    await other.stop();
  });
});

describeWithServer('the store admin of a Redis Cluster', redisProgram, (path) => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster({ path, lifetimes: writtenByTests });
  });
  afterAll(() => cluster?.stop());
  const open = () => openRedisStoreAdmin(parseClusterAddress({ url: cluster.url, auth: '' }));
  storeAdminSuite(open, async (keys) => {
    for (const key of keys) {
      const { keySlot } = await import('../../limiter/stores/redis/cluster/cluster-topology.ts');
      await (await cluster.ownerOf(keySlot(key))).client.set(key, '1');
    }
  });
});

describeWithServer('the store admin of a master that sentinels know', redisProgram, (path) => {
  const folder = suiteFolder();
  it('asks, publishes and hears there', async () => {
    const trio = await startSentinelTrio({ path, folder });
    const storeAdmin = openRedisStoreAdmin(
      parseSentinelAddress({ url: trio.url, auth: '', sentinelAuth: '' }),
    );
    const reported: string[] = [];
    let back = 0;
    storeAdmin.subscribe({ received: (text) => reported.push(text), back: () => (back += 1) });
    await eventually(() => expect(back).toBe(1), { timeoutMs: 30_000 });
    expect(await storeAdmin.publish('news')).toBe(true);
    await eventually(() => expect(reported).toEqual(['news']), { timeoutMs: 30_000 });
    expect(await scanAll(storeAdmin, ['a'])).toEqual([]);
    await storeAdmin.close();
    await trio.stop();
  });
});

describeWithServer('the store admin behind twemproxy', nutcrackerProgram, (nutcracker) => {
  describeWithServer('with a server', redisProgram, (path) => {
    const folder = suiteFolder();
    it('reads and keeps records, and names what the proxy does not know', async () => {
      const redis = await startRedis({ path });
      const proxy = await startTwemproxy(nutcracker, folder, [redis.port]);
      const storeAdmin = openRedisStoreAdmin(proxy.url);
      await eventually(async () => void (await storeAdmin.putRecord('overrides', 'a', 'b')), {
        timeoutMs: 30_000,
      });
      expect(await storeAdmin.records('overrides')).toEqual(new Map([['a', 'b']]));
      await expect(storeAdmin.scan({ prefixes: [''], from: undefined, count: 10 })).rejects.toThrow();
      expect(await storeAdmin.publish('x')).toBe(false);
      storeAdmin.subscribe({ received: () => {}, back: () => {} });
      await eventually(
        () =>
          expect(storeAdmin.missing.map(({ command }) => command).sort()).toEqual([
            'PUBLISH',
            'SCAN',
            'SUBSCRIBE',
          ]),
        { timeoutMs: 30_000 },
      );
      await eventually(async () => void (await storeAdmin.records('overrides')), { timeoutMs: 30_000 });
      await storeAdmin.close();
      await proxy.stop();
      await redis.stop();
    });
  });
});
