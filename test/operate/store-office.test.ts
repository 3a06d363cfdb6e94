import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MemoryOffice } from '../../limiter/operate/office/memory-office.ts';
import type { CounterRef, MissingRight, StoreOffice } from '../../limiter/operate/office/office.ts';
import { parseClusterAddress, parseSentinelAddress } from '../../limiter/stores/redis/wire/redis-address.ts';
import { counterOp, submit } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { nutcrackerProgram, redisProgram } from '../support/find-server.ts';
import { openMemoryStore } from '../support/open-memory-store.ts';
import { openRedisOffice } from '../support/open-office.ts';
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { startSentinelTrio } from '../support/redis-sentinels.ts';
import { commandCalls, type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { startTwemproxy } from '../support/twemproxy.ts';

/** All that a scan finds. */
async function scanAll(office: StoreOffice, prefixes: string[], count = 100): Promise<CounterRef[]> {
  const found: CounterRef[] = [];
  let from: string | undefined;
  do {
    const { counters, place } = await office.scan({ prefixes, from, count });
    found.push(...counters);
    from = place;
  } while (from !== undefined);
  return found;
}

const keysOf = (found: readonly CounterRef[]) => [...new Set(found.map(({ key }) => key))].sort();

/** What every office with counters of its own does. `count` makes counters, a hit each. */
function officeSuite(
  open: () => StoreOffice | Promise<StoreOffice>,
  count: (keys: string[]) => Promise<void>,
) {
  it('finds, reads and removes counters slice by slice', async () => {
    const office = await open();
    const domain = `d${randomUUID()}`;
    const keys = Array.from({ length: 500 }, (_, i) => `${domain}_ip_${i}_60`);
    await count([...keys, `${domain}x_ip_1_60`]);
    const found = await scanAll(office, [`${domain}_`], 50);
    expect(keysOf(found)).toEqual(keys.sort());
    const refs = keys.slice(0, 3).map((key) => ({ key, perSecond: false }));
    const missing = { key: `${domain}_none`, perSecond: false };
    expect(await office.read([...refs, missing])).toEqual([
      ...refs.map(() => ({ held: [1, 0, 0], leased: 0 })),
      undefined,
    ]);
    expect(await office.remove([...refs, missing])).toBe(3);
    expect(keysOf(await scanAll(office, [`${domain}_`]))).toHaveLength(497);
    await office.close();
  });

  it('refuses a cursor that it did not give', async () => {
    const office = await open();
    const asked = office.scan({ prefixes: ['a'], from: 'nonsense', count: 10 });
    await expect(asked).rejects.toThrow('the cursor is none that this limiter gave');
    await office.close();
  });

  it('keeps records, and changes one only in place of what it was', async () => {
    const office = await open();
    const field = randomUUID();
    expect(await office.putRecord('overrides', field, 'one', 'absent')).toBe(true);
    expect(await office.putRecord('overrides', field, 'two', 'absent')).toBe(false);
    expect(await office.putRecord('overrides', field, 'two', { is: 'other' })).toBe(false);
    expect(await office.putRecord('overrides', field, 'two', { is: 'one' })).toBe(true);
    expect((await office.records('overrides')).get(field)).toBe('two');
    expect((await office.records('revisions')).get(field)).toBeUndefined();
    expect(await office.putRecord('overrides', field, 'three')).toBe(true);
    expect(await office.removeRecord('overrides', field, 'two')).toBe(false);
    expect(await office.removeRecord('overrides', field, 'three')).toBe(true);
    expect(await office.putRecord('overrides', field, 'three')).toBe(true);
    expect(await office.removeRecord('overrides', field)).toBe(true);
    expect(await office.removeRecord('overrides', field)).toBe(false);
    await office.close();
  });

  it('tells everybody who listens what is published, until they end it', async () => {
    const office = await open();
    const told: string[] = [];
    let back = 0;
    const end = office.subscribe({ heard: (text) => told.push(text), back: () => (back += 1) });
    await eventually(() => expect(back).toBe(1), { timeoutMs: 30_000 });
    expect(await office.publish('first')).toBe(true);
    await eventually(() => expect(told).toEqual(['first']), { timeoutMs: 30_000 });
    end();
    expect(await office.publish('second')).toBe(true);
    await office.records('limiters');
    expect(told).toEqual(['first']);
    await office.close();
  });
}

describe('the office of memory', () => {
  const store = openMemoryStore();
  officeSuite(
    () => new MemoryOffice(store),
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
    const office = new MemoryOffice(store);
    const { place } = await office.scan({ prefixes: [''], from: undefined, count: 2 });
    expect(await office.scan({ prefixes: [''], from: place, count: 2 })).toMatchObject({
      counters: [{ key: 'c' }],
      place: undefined,
    });
    await expect(office.scan({ prefixes: [''], from: place, count: 2 })).rejects.toThrow('begin anew');
  });
});

/** An office writes nothing but records, which stay: all counters are the tests' own. */
const writtenByTests = { own: [''] };

describeWithServer('the office of one Redis', redisProgram, (path) => {
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
  officeSuite(
    () => openRedisOffice(url()),
    async (keys) => void (await client.mset(keys.flatMap((key) => [key, '1']))),
  );

  it('lists no key of ours that is no counter, and reads nothing that is none', async () => {
    const office = openRedisOffice(url());
    await client.hset('weir:lease:{a_b}', 't', '5');
    await client.hset('a_list', 'x', 'y');
    await client.set('a_text', 'words');
    await client.set('a_window', '28333333:4:5');
    await office.putRecord('limiters', 'me', '{}');
    expect(keysOf(await scanAll(office, ['']))).not.toContain('weir:lease:{a_b}');
    const refs = ['a_list', 'a_text', 'a_window'].map((key) => ({ key, perSecond: false }));
    const window = { held: [28333333, 4, 5], leased: 0 };
    expect(await office.read(refs)).toEqual([undefined, undefined, window]);
    await office.close();
  });

  it('reads what is leased beside a counter, and removes that with it, and what is reserved', async () => {
    const office = openRedisOffice(url(), { leases: true });
    await client.set('l_ip_1_60', '9');
    await client.hset('weir:lease:{l_ip_1_60}', 't', '4', 'n', '1');
    const counter = { key: 'l_ip_1_60', perSecond: false };
    expect(await office.read([counter])).toEqual([{ held: [9, 0, 0], leased: 4 }]);
    await client.hset('weir:reserve:l_ip_1_', 'o60', '1 9');
    await client.zadd('weir:reserve-due:l_ip_1_', 1, 'pa');
    expect(keysOf(await scanAll(office, ['weir:']))).toEqual([]);
    expect(await office.remove([counter])).toBe(1);
    expect(await client.exists('weir:lease:{l_ip_1_60}')).toBe(0);
    expect(await client.exists('weir:reserve:l_ip_1_', 'weir:reserve-due:l_ip_1_')).toBe(0);
    await office.close();
  });

  it('finds keys whose prefix has signs of patterns in it', async () => {
    const office = openRedisOffice(url());
    await client.mset('[*]?\\_a_1', '1', 'x_a_1', '1');
    expect(keysOf(await scanAll(office, ['[*]?\\_']))).toEqual(['[*]?\\_a_1']);
    await office.close();
  });

  it('asks by SCAN alone, never by KEYS', async () => {
    const office = openRedisOffice(url());
    await scanAll(office, ['a']);
    const stats = await client.info('commandstats');
    expect(commandCalls(stats, 'scan')).toBeGreaterThan(0);
    expect(commandCalls(stats, 'keys')).toBe(0);
    await office.close();
  });

  it('hears again what is published once the server is back', async () => {
    const own = await startRedis({ path });
    const office = openRedisOffice(`127.0.0.1:${own.port}`);
    const told: string[] = [];
    let back = 0;
    office.subscribe({ heard: (text) => told.push(text), back: () => (back += 1) });
    await eventually(() => expect(back).toBe(1), { timeoutMs: 30_000 });
    await own.kill('SIGKILL');
    await expect(office.records('overrides')).rejects.toThrow();
    expect(office.missing).toEqual([]);
    await own.start();
    await eventually(() => expect(back).toBe(2), { timeoutMs: 30_000 });
    await eventually(async () => expect(await office.publish('again')).toBe(true), { timeoutMs: 30_000 });
    await eventually(() => expect(told).toContain('again'), { timeoutMs: 30_000 });
    await office.close();
    await own.stop();
  });

  it('names what an ACL refuses, and no longer once it is allowed', async () => {
    await client.acl('SETUSER', 'poor', 'on', '>secret-word', '~*', '+ping', '+get', '+hgetall');
    const told: MissingRight[] = [];
    const office = openRedisOffice(url(), { auth: 'poor:secret-word', told });
    await expect(office.scan({ prefixes: [''], from: undefined, count: 10 })).rejects.toThrow('NOPERM');
    expect(await office.publish('x')).toBe(false);
    office.subscribe({ heard: () => {}, back: () => {} });
    await eventually(
      () =>
        expect(office.missing.map(({ command }) => command).sort()).toEqual(['PUBLISH', 'SCAN', 'SUBSCRIBE']),
      { timeoutMs: 30_000 },
    );
    for (const { message } of office.missing) expect(message).toContain('NOPERM');
    expect(await office.records('overrides')).toEqual(new Map());
    await client.acl('SETUSER', 'poor', '+scan', '+publish', 'allchannels');
    await scanAll(office, ['a']);
    expect(await office.publish('x')).toBe(true);
    expect(office.missing.map(({ command }) => command)).toEqual(['SUBSCRIBE']);
    expect(told).toHaveLength(3);
    await office.close();
  });

  it('needs of its user no more than docs/store.md says', async () => {
    const text = readFileSync(new URL('../../docs/store.md', import.meta.url), 'utf8');
    const granted = /ACL SETUSER weir on >\S+ (.*)/.exec(text)![1]!.split(' ');
    await client.call('ACL', 'SETUSER', 'weir', 'reset', 'resetchannels', 'on', '>secret', ...granted);
    const office = openRedisOffice(url(), { auth: 'weir:secret', leases: true, prefix: 'doc:' });
    let back = 0;
    office.subscribe({ heard: () => {}, back: () => (back += 1) });
    await client.set('doc:a_b_1_60', '1');
    const found = await scanAll(office, ['doc:a']);
    expect(await office.read(found)).toHaveLength(1);
    expect(await office.remove(found)).toBe(1);
    for (const when of ['always', 'absent', { is: 'x' }] as const) {
      await office.putRecord('overrides', 'f', 'y', when);
    }
    await office.records('overrides');
    await office.removeRecord('overrides', 'f');
    expect(await office.publish('x')).toBe(true);
    await eventually(() => expect(back).toBe(1), { timeoutMs: 30_000 });
    expect(office.missing).toEqual([]);
    await office.close();
  });

  it('reads limits per second from their own Redis, and scans both', async () => {
    const other = await startRedis({ path });
    const office = openRedisOffice(url(), { perSecond: `127.0.0.1:${other.port}` });
    const seconds = new Redis(other.port, '127.0.0.1', { protocol: 2 });
    await seconds.set('both_s_1', '2');
    await client.set('both_m_60', '3');
    expect((await scanAll(office, ['both_'])).sort((a, b) => (a.key < b.key ? -1 : 1))).toEqual([
      { key: 'both_m_60', perSecond: false },
      { key: 'both_s_1', perSecond: true },
    ]);
    const held = await office.read([{ key: 'both_s_1', perSecond: true }]);
    expect(held[0]?.held[0]).toBe(2);
    await client.set('both_s_1', '9');
    expect(await office.remove([{ key: 'both_s_1', perSecond: true }])).toBe(1);
    expect([await seconds.exists('both_s_1'), await client.get('both_s_1')]).toEqual([0, '9']);
    seconds.disconnect();
    await office.close();
    await other.stop();
  });
});

describeWithServer('the office of a Redis Cluster', redisProgram, (path) => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster({ path, lifetimes: writtenByTests });
  });
  afterAll(() => cluster?.stop());
  const open = () => openRedisOffice(parseClusterAddress({ url: cluster.url, auth: '' }));
  officeSuite(open, async (keys) => {
    for (const key of keys) {
      const { keySlot } = await import('../../limiter/stores/redis/cluster/cluster-topology.ts');
      await (await cluster.ownerOf(keySlot(key))).client.set(key, '1');
    }
  });
});

describeWithServer('the office of a master that sentinels know', redisProgram, (path) => {
  const folder = suiteFolder();
  it('asks, publishes and hears there', async () => {
    const trio = await startSentinelTrio({ path, folder });
    const office = openRedisOffice(parseSentinelAddress({ url: trio.url, auth: '', sentinelAuth: '' }));
    const told: string[] = [];
    let back = 0;
    office.subscribe({ heard: (text) => told.push(text), back: () => (back += 1) });
    await eventually(() => expect(back).toBe(1), { timeoutMs: 30_000 });
    expect(await office.publish('news')).toBe(true);
    await eventually(() => expect(told).toEqual(['news']), { timeoutMs: 30_000 });
    expect(await scanAll(office, ['a'])).toEqual([]);
    await office.close();
    await trio.stop();
  });
});

describeWithServer('the office behind twemproxy', nutcrackerProgram, (nutcracker) => {
  describeWithServer('with a server', redisProgram, (path) => {
    const folder = suiteFolder();
    it('reads and keeps records, and names what the proxy does not know', async () => {
      const redis = await startRedis({ path });
      const proxy = await startTwemproxy(nutcracker, folder, [redis.port]);
      const office = openRedisOffice(proxy.url);
      await eventually(async () => void (await office.putRecord('overrides', 'a', 'b')), {
        timeoutMs: 30_000,
      });
      expect(await office.records('overrides')).toEqual(new Map([['a', 'b']]));
      await expect(office.scan({ prefixes: [''], from: undefined, count: 10 })).rejects.toThrow();
      expect(await office.publish('x')).toBe(false);
      office.subscribe({ heard: () => {}, back: () => {} });
      await eventually(
        () =>
          expect(office.missing.map(({ command }) => command).sort()).toEqual([
            'PUBLISH',
            'SCAN',
            'SUBSCRIBE',
          ]),
        { timeoutMs: 30_000 },
      );
      await eventually(async () => void (await office.records('overrides')), { timeoutMs: 30_000 });
      await office.close();
      await proxy.stop();
      await redis.stop();
    });
  });
});
