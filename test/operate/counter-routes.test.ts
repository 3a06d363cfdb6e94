import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CounterJson } from '../../limiter/operate/counter-view.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { memcachedProgram, nutcrackerProgram, redisProgram } from '../support/find-server.ts';
import { httpAsk } from '../support/http-ask.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { startMemcached } from '../support/memcached-server.ts';
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { startTwemproxy } from '../support/twemproxy.ts';

const plainRules = `
domain: shop
descriptors:
  - key: remote_address
    rate_limit: { unit: year, requests_per_unit: 3 }
`;
const rules = `
domain: shop
descriptors:
  - key: remote_address
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: user
    rate_limit: { unit: minute, unit_multiplier: 1000, requests_per_unit: 10, algorithm: sliding_window }
  - key: bucket
    rate_limit: { unit: year, requests_per_unit: 4, algorithm: token_bucket, warn_at: [50, 100] }
  - key: both
    rate_limits:
      - { name: few, unit: year, requests_per_unit: 2 }
      - { name: many, unit: year, unit_multiplier: 2, requests_per_unit: 9 }
  - key: path
    value: /api/*
    share_threshold: true
    rate_limit: { unit: year, requests_per_unit: 7 }
  - key: team
    rate_limit:
      calendar: { unit: month, timezone: Europe/Zurich, starts_on: 15 }
      requests_per_unit: 9007199254740991
      hits_unit: tokens
  - key: free
    rate_limit: { unlimited: true }
`;

interface Page {
  counters: CounterJson[];
  cursor: string | null;
  scanned: number;
  notes: string[];
}

/** What of a limiter tests ask. */
class Asked {
  readonly limiter: InProcessLimiter;

  constructor(limiter: InProcessLimiter) {
    this.limiter = limiter;
  }

  static async start(folder: string, env: Record<string, string>, text = rules): Promise<Asked> {
    mkdirSync(join(folder, 'config'), { recursive: true });
    writeFileSync(join(folder, 'config', 'shop.yaml'), text);
    const settings = { RUNTIME_ROOT: folder, RUNTIME_SUBDIRECTORY: '', RUNTIME_WATCH_ROOT: 'false' };
    return new Asked(await InProcessLimiter.start({ env: { ...settings, ...env } }));
  }

  async get(query: string): Promise<{ status: number; body: Page & { detail: string; missing: unknown } }> {
    const response = await fetch(`http://127.0.0.1:${this.limiter.ports.debug}/v1/counters?${query}`);
    return { status: response.status, body: (await response.json()) as never };
  }

  /** All pages of a list. */
  async all(query: string): Promise<CounterJson[]> {
    const counters: CounterJson[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const { status, body } = await this.get(`${query}&cursor=${cursor}`);
      const isUnknown = body.notes[0]?.startsWith('no rules are in force for the domain');
      expect([status, body.notes.slice(isUnknown ? 1 : 0)]).toEqual([200, []]);
      counters.push(...body.counters);
      cursor = body.cursor;
    }
    const byKey = new Map(counters.map((one) => [one.key, one]));
    return [...byKey.values()];
  }

  async count(times: number, entries: Record<string, string>): Promise<void> {
    for (let i = 0; i < times; i += 1) await this.limiter.ask('shop', [entries]);
  }
}

/** Counters of one limiter, whatever it counts in. */
function countersSuite(start: () => Promise<Asked>) {
  let asked: Asked;
  beforeAll(async () => {
    asked = await start();
    await asked.count(4, { remote_address: '203.0.113.7' });
    await asked.count(1, { remote_address: '203.0.113.8' });
    await asked.count(2, { path: '/api/a' });
  });
  afterAll(() => asked?.limiter.stop());

  it('gives the counter of one descriptor by its entries', async () => {
    const { status, body } = await asked.get('domain=shop&entry=remote_address%3D203.0.113.7');
    expect([status, body.cursor, body.notes]).toEqual([200, null, []]);
    expect(body.counters).toMatchObject([
      {
        domain: 'shop',
        rule: 'shop.remote_address',
        limitName: '',
        entries: [{ key: 'remote_address', value: '203.0.113.7' }],
        window: { unit: 'year', multiplier: 1, seconds: 31_536_000, algorithm: 'fixed_window' },
        used: 4,
        limit: 3,
        left: 0,
        over: true,
        leased: 0,
        certain: true,
      },
    ]);
    const [{ reset, window }] = body.counters as [CounterJson];
    expect(window.start).toMatch(/^\d{4}-\d\d-\d\dT00:00:00Z$/);
    expect(reset).toBeLessThanOrEqual(31_536_000);
  });

  it('gives one that is not there as unused, and none if no rule counts', async () => {
    const unused = await asked.get('domain=shop&entry=remote_address%3Dnobody');
    expect(unused.body.counters).toMatchObject([{ used: 0, left: 3, over: false }]);
    const notes = async (query: string) => (await asked.get(query)).body;
    expect(await notes('domain=shop&entry=other%3Dx')).toMatchObject({
      counters: [],
      notes: ['no rule matches these entries'],
    });
    expect(await notes('domain=shop&entry=free%3Dx')).toMatchObject({
      counters: [],
      notes: ['rule shop.free is unlimited: it counts nothing'],
    });
    expect(await notes('domain=none&entry=free%3Dx')).toMatchObject({
      notes: ['no rules are in force for the domain "none"'],
    });
  });

  it('says what of values counts together', async () => {
    const { body } = await asked.get('domain=shop&entry=path%3D%2Fapi%2Fother');
    expect(body.counters).toMatchObject([{ used: 2, entries: [{ key: 'path', pattern: '/api/*' }] }]);
  });

  it.each([
    ['', 'domain is missing'],
    ['domain=shop&entry=x', 'entry must be key=value, not "x"'],
    ['domain=shop&limit=0', 'limit must be from 1 to 1000, not "0"'],
    ['domain=shop&sort=size', 'sort must be one of used, left, reset, key, not "size"'],
    ['domain=shop&entry=a%3Db&cursor=x', 'cursor is only for lists'],
    ['domain=shop&over=yes', 'over must be one of true, false'],
  ])('rejects %s', async (query, detail) => {
    const { status, body } = await asked.get(query);
    expect([status, body.detail]).toEqual([400, expect.stringContaining(detail)]);
  });

  it('reads sliding windows, buckets and several limits as they decide', async () => {
    await asked.count(4, { user: 'u' });
    await asked.count(5, { bucket: 'b' });
    await asked.count(3, { both: 'x' });
    const one = async (entry: string) => (await asked.get(`domain=shop&entry=${entry}`)).body.counters;
    expect(await one('user%3Du')).toMatchObject([
      {
        used: 4,
        limit: 10,
        left: 6,
        window: { algorithm: 'sliding_window', seconds: 60_000, start: null },
      },
    ]);
    expect(await one('bucket%3Db')).toMatchObject([
      { used: 4, limit: 4, left: 0, over: true, mark: 100, window: { algorithm: 'token_bucket' } },
    ]);
    await asked.count(2, { bucket: 'half' });
    expect(await one('bucket%3Dhalf')).toMatchObject([{ used: 2, mark: 50 }]);
    expect((await one('bucket%3Dnone'))[0]).not.toHaveProperty('mark');
    expect((await one('bucket%3Db'))[0]?.reset).toBeGreaterThan(1_000_000);
    expect(await one('both%3Dx')).toMatchObject([
      { limitName: 'few', used: 2, left: 0, over: true },
      { limitName: 'many', used: 2, left: 7, over: false },
    ]);
  });

  it('reports a calendar, and of limits beyond 32 bits, by descriptor and in lists', async () => {
    const max = Number.MAX_SAFE_INTEGER;
    const calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 };
    const checked = await httpAsk(asked.limiter.ports.http, '/v1/check', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ domain: 'shop', descriptors: [[{ team: 'a' }]], hits: max - 1 }),
    });
    expect(checked.headers).toMatchObject({ 'ratelimit-remaining': '1' });
    const limit = { requestsPerUnit: max, hitsUnit: 'tokens', calendar };
    expect(JSON.parse(checked.body)).toMatchObject({ descriptors: [{ limit, used: max - 1, left: 1 }] });
    const { body } = await asked.get('domain=shop&entry=team%3Da');
    expect(body.counters).toMatchObject([
      {
        ...{ used: max - 1, limit: max, left: 1, over: false, hitsUnit: 'tokens', certain: true },
        window: { unit: 'month', multiplier: 1, seconds: null, algorithm: 'fixed_window', calendar },
      },
    ]);
    const [{ key, reset, window }] = body.counters as [CounterJson];
    expect(key).toMatch(/1\{shop;team=a\}month@Europe\/Zurich@15:\d+$/);
    // Midnight there.
    expect(window.start).toMatch(/^\d{4}-\d\d-14T2[23]:00:00Z$/);
    expect(reset).toBeLessThanOrEqual(31 * 86_400 + 3_600);
    const listed = (await asked.all('domain=shop')).find((one) => one.key === key);
    expect([listed]).toMatchObject([{ used: max - 1, window: { start: window.start, calendar } }]);
  });

  it('lists the counters of a domain page by page, each reported back', async () => {
    for (let i = 0; i < 150; i += 1) await asked.count(1, { remote_address: `list-${i}` });
    const counters = await asked.all('domain=shop&limit=10');
    const values = counters.map(({ entries: [entry] }) => entry?.['value'] ?? entry?.['pattern']);
    for (const value of ['203.0.113.7', '/api/*', 'u', 'b', 'x']) expect(values).toContain(value);
    expect(values.filter((value) => value?.startsWith('list-'))).toHaveLength(150);
    expect(counters.every(({ certain, rule }) => certain && rule !== null)).toBe(true);
    const found = counters.find(({ key }) => key.includes('203.0.113.7'));
    expect([found]).toMatchObject([{ used: 4, limit: 3, left: 0, over: true, rule: 'shop.remote_address' }]);
    expect(await asked.all('domain=sho')).toEqual([]);
  });

  it('lists those that are over alone, and in an order', async () => {
    const over = await asked.all('domain=shop&over=true');
    expect(over.length).toBeGreaterThan(0);
    expect(over.every(({ left }) => left === 0)).toBe(true);
    const { body } = await asked.get('domain=shop&sort=used&limit=1000');
    const used = body.counters.map((one) => one.used);
    expect(used).toEqual([...used].sort((a, b) => b! - a!));
  });

  it('rejects a cursor that is none', async () => {
    const { status, body } = await asked.get('domain=shop&cursor=bm9uc2Vuc2U');
    expect([status, body.detail]).toEqual([400, expect.stringContaining('the cursor is not from')]);
  });
}

describe('counters in memory', () => {
  const folder = suiteFolder();
  countersSuite(() => Asked.start(folder, { COUNTER_KEYS: 'unambiguous' }));
});

describeWithServer('counters in Redis', redisProgram, (path) => {
  let redis: RedisServer;
  let client: Redis;
  beforeAll(async () => {
    redis = await startRedis({ path, lifetimes: { own: ['o:shop_', 'weir:lease:{o:', 'weir:{o:'] } });
    client = new Redis(redis.port, '127.0.0.1', { protocol: 2 });
  });
  afterAll(async () => {
    client?.disconnect();
    await redis?.stop();
  });
  const env = (more: Record<string, string> = {}) => ({
    BACKEND_TYPE: 'redis',
    REDIS_SOCKET_TYPE: 'tcp',
    REDIS_URL: `127.0.0.1:${redis.port}`,
    ...more,
  });
  describe('with compatible keys', () => {
    const folder = suiteFolder();
    countersSuite(() => Asked.start(folder, env()));
  });
  describe('with unambiguous keys, a prefix and several threads', () => {
    const folder = suiteFolder();
    const more = { COUNTER_KEYS: 'unambiguous', CACHE_KEY_PREFIX: 'p:', LIMITER_WORKERS: '2' };
    countersSuite(() => Asked.start(folder, env(more)));
  });
  describe('of a user', () => {
    const folder = suiteFolder();
    let asked: Asked;
    beforeAll(async () => {
      const counting =
        '+ping +role +eval +evalsha +get +incrby +decrby +expire +pttl +setex +psetex +del +time';
      await client.acl('SETUSER', 'counts', 'on', '>word', '~*', ...counting.split(' '));
      asked = await Asked.start(folder, env({ REDIS_AUTH: 'counts:word' }));
    });
    afterAll(() => asked?.limiter.stop());

    it('without the right to scan: the answer names it, and counting continues', async () => {
      const { status, body } = await asked.get('domain=shop');
      expect(status).toBe(501);
      expect(body.detail).toContain('NOPERM');
      expect(body.missing).toEqual([{ command: 'SCAN', message: expect.stringContaining('NOPERM') }]);
      await asked.count(2, { remote_address: 'counted' });
      const one = await asked.get('domain=shop&entry=remote_address%3Dcounted');
      expect(one.body.counters).toMatchObject([{ used: 2 }]);
      expect(asked.limiter.lines.filter((line) => line.includes('command=SCAN'))).toHaveLength(1);
    });

    it('with the right to scan since: the list comes', async () => {
      await client.acl('SETUSER', 'counts', '+scan');
      expect((await asked.all('domain=shop')).map(({ key }) => key)).not.toEqual([]);
    });
  });
  describe('that others have changed', () => {
    const folder = suiteFolder();
    let asked: Asked;
    beforeAll(async () => {
      asked = await Asked.start(folder, env({ CACHE_KEY_PREFIX: 'o:', REDIS_TIMEOUT: '1s' }));
    });
    afterAll(() => asked?.limiter.stop());

    it('lists no key of ours, of others, or of a window that has ended', async () => {
      await client.mset('weir:{o:}:x', '1', 'weir:lease:{o:shop_remote_address_x_0}', '1');
      await client.mset('o:shop_remote_address_old_0', '9', 'o:shop_words', 'x', 'o:shop_a_b_words', '1');
      await client.hset('o:shop_remote_address_hash_1700000000', 'a', 'b');
      // Again where the minute ends in between.
      await eventually(async () => {
        await asked.count(1, { remote_address: 'mine' });
        const keys = (await asked.all('domain=shop')).map(({ key }) => key);
        expect(keys).toEqual([expect.stringMatching(/^o:shop_remote_address_mine_\d+$/)]);
      });
    });

    it('shows a key that no rule of now writes, without a limit', async () => {
      await client.set('o:shop_gone_x_1700000000', '9');
      const found = (await asked.all('domain=shop')).find(({ key }) => key.includes('gone'));
      expect([found]).toMatchObject([
        { rule: null, limit: null, left: null, used: 9, over: false, certain: false, entries: [] },
      ]);
      expect(found?.why).toContain('no rule in force');
      await client.del('o:shop_gone_x_1700000000');
    });

    it('answers 503 while Redis is away', async () => {
      await redis.kill('SIGSTOP');
      const { status, body } = await asked.get('domain=shop');
      expect([status, body.detail]).toEqual([503, expect.stringMatching(/^the store does not answer: ./)]);
      await redis.kill('SIGCONT');
    });
  });
});

describeWithServer('counters with leases', redisProgram, (path) => {
  const folder = suiteFolder();
  it('say what of them limiters have taken ahead', async () => {
    const redis = await startRedis({ path });
    const store = { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redis.port}` };
    const leases = { LEASES: 'on', LEASE_SHARE: '10%' };
    const text = plainRules.replace('requests_per_unit: 3', 'requests_per_unit: 1000');
    const asked = await Asked.start(folder, { ...store, ...leases }, text);
    await eventually(
      async () => {
        await asked.count(20, { remote_address: 'busy' });
        const { body } = await asked.get('domain=shop&entry=remote_address%3Dbusy');
        const [one] = body.counters as [CounterJson];
        expect(one.leased).toBeGreaterThan(0);
        expect(one.left).toBe(Math.max(0, 1000 - one.used!));
      },
      { timeoutMs: 30_000 },
    );
    await asked.limiter.stop();
    await redis.stop();
  });
});

describeWithServer('counters behind twemproxy', nutcrackerProgram, (nutcracker) => {
  describeWithServer('with a server', redisProgram, (path) => {
    const folder = suiteFolder();
    it('are counted and read by their entries, and a list says what the proxy rejects', async () => {
      const redis = await startRedis({ path });
      const proxy = await startTwemproxy(nutcracker, folder, [redis.port]);
      const store = { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: proxy.url };
      const asked = await Asked.start(folder, { ...store, REDIS_SCRIPTS: 'never' }, plainRules);
      await asked.count(2, { remote_address: 'a' });
      const { status, body } = await asked.get('domain=shop');
      expect([status, body.missing]).toEqual([
        501,
        expect.arrayContaining([{ command: 'SCAN', message: expect.stringContaining('proxy') }]),
      ]);
      await asked.count(1, { remote_address: 'a' });
      await eventually(
        async () => {
          const one = await asked.get('domain=shop&entry=remote_address%3Da');
          expect(one.body.counters).toMatchObject([{ used: 3, over: true }]);
        },
        { timeoutMs: 30_000 },
      );
      await asked.limiter.stop();
      await proxy.stop();
      await redis.stop();
    });
  });
});

describeWithServer('counters in a Redis Cluster', redisProgram, (path) => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster({ path });
  });
  afterAll(() => cluster?.stop());
  const folder = suiteFolder();
  countersSuite(() =>
    Asked.start(folder, {
      BACKEND_TYPE: 'redis',
      REDIS_TYPE: 'cluster',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: cluster.url,
    }),
  );
});

describeWithServer('counters in memcache', memcachedProgram, (path) => {
  const folder = suiteFolder();
  let memcached: Awaited<ReturnType<typeof startMemcached>>;
  let asked: Asked;
  beforeAll(async () => {
    memcached = await startMemcached({ path });
    asked = await Asked.start(folder, env(), plainRules);
  });
  afterAll(async () => {
    await asked?.limiter.stop();
    await memcached?.stop();
  });
  const env = () => ({ BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: `127.0.0.1:${memcached.port}` });

  it('are read by their entries, and a list says why there is none', async () => {
    await asked.count(2, { remote_address: 'm' });
    await expect
      .poll(async () => (await asked.get('domain=shop&entry=remote_address%3Dm')).body.counters, {
        timeout: 20_000,
      })
      .toMatchObject([{ used: 2, limit: 3, left: 1 }]);
    const { status, body } = await asked.get('domain=shop');
    expect([status, body.detail]).toEqual([501, expect.stringContaining('memcached cannot list its keys')]);
  });
});
