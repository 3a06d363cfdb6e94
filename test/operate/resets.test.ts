/** `DELETE /v1/counters` against limiters that remember: local caches, leases, several threads, and stores of every kind. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { memcachedProgram, redisProgram } from '../support/find-server.ts';
import { httpAsk } from '../support/http-ask.ts';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { startLimiter } from '../support/limiter-process.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { startMemcached } from '../support/memcached-server.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { commandCalls, type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

const folder = suiteFolder();
/** For stores that run no scripts. */
const plainFolder = join(folder, 'plain');
const rules: Record<string, string> = {
  few: 'rate_limit: { unit: year, requests_per_unit: 3 }',
  leased: 'rate_limit: { unit: year, requests_per_unit: 1000 }, lease: 10%',
  sliding: 'rate_limit: { unit: year, requests_per_unit: 3, algorithm: sliding_window }',
  second: 'rate_limit: { unit: second, requests_per_unit: 3 }',
};
const lines = Object.entries(rules).map(([key, words]) => `  - { key: ${key}, ${words} }\n`);
for (const [root, some] of [
  [folder, lines],
  [plainFolder, lines.filter((line) => !line.includes('sliding'))],
] as const) {
  mkdirSync(join(root, 'config'), { recursive: true });
  for (const domain of ['r', 'r_other'])
    writeFileSync(join(root, `config/${domain}.yaml`), `domain: ${domain}\ndescriptors:\n${some.join('')}`);
}

const remembering = {
  RUNTIME_ROOT: folder,
  LOCAL_CACHE_SIZE_IN_BYTES: '100000',
  EXPIRATION_JITTER_MAX_SECONDS: '0',
};
const redisAt = (url: string) => ({ BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: url });

interface Reset {
  status: number;
  body: {
    reset: number;
    counters: { key: string; used: number }[];
    cursor: string | null;
    limiters: { name: string; instance: string; confirmed: boolean; afterMs?: number }[];
    missing: { command: string; message: string }[];
    notes: string[];
    detail?: string;
  };
}

async function reset(limiter: { ports: { debug: number } }, query: string): Promise<Reset> {
  const url = `http://127.0.0.1:${limiter.ports.debug}/v1/counters?${query}`;
  const response = await fetch(url, { method: 'DELETE' });
  return { status: response.status, body: (await response.json()) as Reset['body'] };
}

async function code(limiter: InProcessLimiter, key: string, domain = 'r', hits = 1): Promise<string> {
  const { body, error } = await limiter.ask(domain, [{ [key]: 'v' }], hits);
  return error ?? body.overallCode;
}

/** Until each of them rejects without asking the store. */
async function fill(limiters: readonly InProcessLimiter[], key: string): Promise<void> {
  for (const limiter of limiters)
    for (let asked = 0; asked < 4; asked += 1) await limiter.ask('r', [{ [key]: 'v' }]);
  for (const limiter of limiters) {
    const before = (await limiter.stats()).get('ratelimit.localcache.hitCount')!;
    expect(await code(limiter, key)).toBe('OVER_LIMIT');
    expect((await limiter.stats()).get('ratelimit.localcache.hitCount')).toBe(before + 1);
  }
}

const confirmations = ({ body }: Reset) => body.limiters.map(({ confirmed }) => confirmed);

/** The first answer. Where a busy machine kept limiters from confirming in a second, it is done again until all did. */
async function confirmedReset(limiter: InProcessLimiter, query: string, count: number): Promise<Reset> {
  const first = await reset(limiter, query);
  let answer = first;
  await eventually(
    async () => {
      if (confirmations(answer).includes(false)) answer = await reset(limiter, query);
      expect(confirmations(answer)).toEqual(new Array(count).fill(true));
    },
    { timeoutMs: 30_000 },
  );
  return first;
}

/** Until so many limiters know of each other. */
async function acquainted(client: Redis, count: number): Promise<void> {
  await eventually(async () => expect(await client.hlen('weir:{}:limiters')).toBe(count), {
    timeoutMs: 30_000,
  });
  await eventually(async () => expect(await client.pubsub('NUMSUB', 'weir:{}:news')).toContain(count), {
    timeoutMs: 30_000,
  });
}

describeWithServer('a reset in Redis', redisProgram, (path) => {
  let redis: RedisServer;
  let client: Redis;
  beforeAll(async () => {
    redis = await startRedis({ path });
    client = new Redis(redis.port, '127.0.0.1');
  });
  afterAll(async () => {
    client?.disconnect();
    await redis?.stop();
  });
  beforeEach(async () => {
    await eventually(async () => expect(await client.hlen('weir:{}:limiters')).toBe(0), {
      timeoutMs: 30_000,
    });
    await client.flushall();
  });
  const start = limitersOfSuite(() => ({ env: { ...remembering, ...redisAt(`127.0.0.1:${redis.port}`) } }));
  const three = async (env: Record<string, string> = {}) => {
    const limiters = await Promise.all([start(env), start(env), start(env)]);
    await acquainted(client, 3);
    return limiters;
  };

  it.each(['few', 'sliding'])('lets a key of the rule %s pass by every limiter', async (key) => {
    const limiters = await three();
    await fill(limiters, key);
    await limiters[0].ask('r', [{ second: 'other' }]);
    const answer = await confirmedReset(limiters[0], `domain=r&entry=${key}=v`, 3);
    expect(answer).toMatchObject({
      status: 200,
      body: { reset: 1, cursor: null, missing: [], counters: [{ rule: `r.${key}`, limit: 3, over: true }] },
    });
    for (const limiter of limiters) expect(await code(limiter, key)).toBe('OK');
    expect(await code(limiters[0], key)).toBe('OVER_LIMIT');
  });

  it('ends the leases of the counter, of which nothing reaches the one that follows', async () => {
    const limiters = await three({ LEASES: 'on' });
    const hit = async (times: number) => {
      for (let i = 0; i < times; i += 1) for (const one of limiters) await one.ask('r', [{ leased: 'v' }]);
    };
    await hit(40);
    const spent = async () => {
      let sum = 0;
      for (const one of limiters)
        sum += (await one.stats()).get('ratelimit.service.rate_limit.r.leased.leased_hits')!;
      return sum;
    };
    expect(await spent()).toBeGreaterThan(30);
    const answer = await confirmedReset(limiters[1], 'domain=r&entry=leased=v', 3);
    const { key: counterKey, used } = answer.body.counters[0]!;
    expect(used).toBeGreaterThanOrEqual(120);
    const before = await spent();
    await hit(1);
    // A lease of before would have covered them.
    expect(await spent()).toBe(before);
    expect(Number(await client.get(counterKey))).toBeGreaterThanOrEqual(3);
    await hit(30);
    // What is leased goes back when it is idle: then the counter says how many hits there were since.
    await eventually(async () => expect(await client.get(counterKey)).toBe('93'), { timeoutMs: 30_000 });
  });

  it('keeps a reply to what was asked before it out of the local cache', async () => {
    const slowLine = await TcpProxy.to(redis.port);
    // The first connection is the one for decisions.
    const ports = [slowLine.port];
    const proxy = await TcpProxy.to(() => ports.pop() ?? redis.port);
    onTestFinished(async () => void (await Promise.all([proxy.close(), slowLine.close()])));
    const patient = { REDIS_TIMEOUT: '60s', STORE_BREAKER_SILENCE: '60s' };
    const slow = await start({ ...redisAt(`127.0.0.1:${proxy.port}`), ...patient });
    const asked = await start();
    await acquainted(client, 2);
    await fill([asked], 'few');
    const key = (await client.keys('r_few_*'))[0]!;
    const before = Number(await client.get(key));
    slowLine.delay(500);
    let isAnswered = false;
    const answered = code(slow, 'few').finally(() => {
      isAnswered = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 250));
    // The hit is on its way; its reply takes longer than the reset.
    slowLine.delay(4_000);
    await eventually(async () => expect(Number(await client.get(key))).toBe(before + 1), {
      timeoutMs: 30_000,
    });
    await confirmedReset(asked, 'domain=r&entry=few=v', 2);
    expect(isAnswered).toBe(false);
    slowLine.delay(0);
    expect(await answered).toBe('OVER_LIMIT');
    expect((await slow.stats()).get('ratelimit.localcache.entryCount')).toBe(0);
    expect(await code(slow, 'few')).toBe('OK');
  });

  it('reaches every thread of a limiter', async () => {
    const limiters = [await start({ LIMITER_WORKERS: '2' }), await start()] as const;
    await acquainted(client, 2);
    await fill([limiters[1]], 'few');
    // A connection each, which the system deals out to the threads.
    const codes = async (port: number) => {
      const body = JSON.stringify({ domain: 'r', descriptors: [{ entries: [{ key: 'few', value: 'v' }] }] });
      const asked = Array.from({ length: 24 }, () => httpAsk(port, '/json', { method: 'POST', body }));
      return (await Promise.all(asked)).map((answer) => JSON.parse(answer.body).overallCode as string);
    };
    const { http } = limiters[0].ports;
    const entries = async () => (await limiters[0].stats()).get('ratelimit.localcache.entryCount');
    // A limiter that lost its subscription for a moment forgets everything when it listens again.
    await eventually(
      async () => {
        expect(new Set(await codes(http))).toEqual(new Set(['OVER_LIMIT']));
        expect(await entries()).toBe(2);
      },
      { timeoutMs: 30_000 },
    );
    await confirmedReset(limiters[1], 'domain=r&entry=few=v', 2);
    await eventually(async () => expect(await entries()).toBe(0), { timeoutMs: 30_000 });
    expect((await codes(http)).filter((one) => one === 'OK')).toHaveLength(3);
    await confirmedReset(limiters[0], 'domain=r&entry=few=v', 2);
    expect((await codes(http)).filter((one) => one === 'OK')).toHaveLength(3);
  });

  it('says which limiter was silent, when it is paused', async () => {
    const asked = await start();
    const other = await startLimiter({
      env: { ...remembering, ...redisAt(`127.0.0.1:${redis.port}`), POD_NAME: 'paused-one' },
    });
    onTestFinished(() => other.stop());
    await acquainted(client, 2);
    process.kill(other.pid, 'SIGSTOP');
    onTestFinished(() => void process.kill(other.pid, 'SIGCONT'));
    await asked.ask('r', [{ few: 'v' }]);
    const answer = await reset(asked, 'domain=r&entry=few=v');
    expect(answer.body.reset).toBe(1);
    expect(answer.body.limiters.find(({ name }) => name === 'paused-one')).toEqual({
      name: 'paused-one',
      instance: expect.any(String),
      confirmed: false,
    });
    process.kill(other.pid, 'SIGCONT');
    await eventually(
      async () => {
        const again = await reset(asked, 'domain=r&entry=few=v');
        expect(confirmations(again)).toEqual([true, true]);
      },
      { timeoutMs: 30_000 },
    );
  });

  it('forgets what it missed once it hears again', async () => {
    const proxy = await TcpProxy.to(redis.port);
    onTestFinished(() => proxy.close());
    const [asked, away] = [await start(), await start(redisAt(`127.0.0.1:${proxy.port}`))];
    await acquainted(client, 2);
    await fill([away], 'few');
    await proxy.refuse();
    expect(confirmations(await reset(asked, 'domain=r&entry=few=v')).sort()).toEqual([false, true]);
    // From what it remembers.
    expect(await code(away, 'few')).toBe('OVER_LIMIT');
    await proxy.heal();
    await eventually(async () => expect(await code(away, 'few')).toBe('OK'), { timeoutMs: 30_000 });
  });

  it('names PUBLISH if it is rejected, and continues counting', async () => {
    await client.acl('SETUSER', 'mute', 'on', '>pw-of-mute', '~*', '&*', '+@all', '-publish');
    const mute = await start({ REDIS_AUTH: 'mute:pw-of-mute' });
    const other = await start();
    await acquainted(client, 2);
    await fill([mute], 'few');
    await fill([other], 'few');
    const answer = await reset(mute, 'domain=r&entry=few=v');
    expect(answer.body.missing).toEqual([{ command: 'PUBLISH', message: expect.stringContaining('NOPERM') }]);
    expect(confirmations(answer).sort()).toEqual([false, true]);
    expect([await code(mute, 'few'), await code(other, 'few')]).toEqual(['OK', 'OVER_LIMIT']);
    // It hears what it may not say.
    expect(confirmations(await reset(other, 'domain=r&entry=few=v')).sort()).toEqual([false, true]);
    expect(await code(mute, 'few')).toBe('OK');
  });

  it('removes the counters of a domain page by page, and never those of another one', async () => {
    const limiter = await start();
    const values = Array.from({ length: 2_500 }, (_, i) => `v${i}`);
    await limiter.ask('r', [{ few: 'v0' }]);
    const window = (await client.keys('r_few_*'))[0]!.replace(/^.*_/, '');
    await client.mset(values.flatMap((value) => [`r_few_${value}_${window}`, '2']));
    await client.mset(values.slice(0, 10).flatMap((value) => [`r_other_few_${value}_${window}`, '2']));
    const keysBefore = commandCalls(await client.info('commandstats'), 'keys');
    let removed = 0;
    let pages = 0;
    for (let cursor: string | null = ''; cursor !== null; pages += 1) {
      const { status, body }: Reset = await reset(limiter, `domain=r&all=true&cursor=${cursor}`);
      expect(status).toBe(200);
      expect(body.counters.length).toBeLessThanOrEqual(100);
      removed += body.reset;
      cursor = body.cursor;
    }
    expect([removed, pages > 1]).toEqual([2_500, true]);
    expect(await client.keys('r_few_*')).toEqual([]);
    expect(await client.keys('r_other_few_*')).toHaveLength(10);
    expect(commandCalls(await client.info('commandstats'), 'keys')).toBe(keysBefore + 2);
  });

  it('asks for entries, or for all=true', async () => {
    const limiter = await start();
    const refused = async (query: string) => {
      const { status, body } = await reset(limiter, query);
      return [status, body.detail];
    };
    await limiter.ask('r', [{ few: 'v' }]);
    expect(await refused('domain=r')).toEqual([400, expect.stringContaining('all=true')]);
    expect(await refused('domain=r&all=false')).toEqual([400, expect.stringContaining('all=true')]);
    expect(await refused('domain=r&all=yes')).toEqual([400, expect.stringContaining('all')]);
    expect(await refused('domain=r&all=true&entry=few=v')).toEqual([
      400,
      expect.stringContaining('all=true'),
    ]);
    expect(await client.keys('r_few_*')).toHaveLength(1);
  });

  it('is reported in the log and the statistics', async () => {
    const limiter = await start();
    await limiter.ask('r', [{ few: 'v' }], 2);
    await reset(limiter, 'domain=r&entry=few=v');
    const line = limiter.lines.find((text) => text.includes('counters-reset'))!;
    for (const part of ['few=v', 'domain=r', '2 of 3', '1 of 1 limiters']) expect(line).toContain(part);
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.admin.changes.__what=counters-reset')).toBe(1);
  });
});

describeWithServer('a reset in a Redis Cluster', redisProgram, (path) => {
  const start = limitersOfSuite(() => ({ env: remembering }));
  it('reaches limiters whatever node they hear', async () => {
    const cluster = await startRedisCluster({ path });
    onTestFinished(() => cluster.stop());
    const env = { ...redisAt(cluster.url), REDIS_TYPE: 'CLUSTER' };
    const limiters = await Promise.all([start(env), start(env), start(env)]);
    await fill(limiters, 'few');
    await eventually(
      async () => {
        const answer = await reset(limiters[2]!, 'domain=r&entry=few=v');
        expect(confirmations(answer)).toEqual([true, true, true]);
      },
      { timeoutMs: 30_000 },
    );
    for (const limiter of limiters) expect(await code(limiter, 'few')).toBe('OK');
  });
});

describe('a reset in memory', () => {
  const start = limitersOfSuite(() => ({ env: remembering }));
  it('reaches the one limiter that there is', async () => {
    const limiter = await start();
    await fill([limiter], 'few');
    const answer = await reset(limiter, 'domain=r&entry=few=v');
    expect([answer.body.reset, confirmations(answer)]).toEqual([1, [true]]);
    expect(await code(limiter, 'few')).toBe('OK');
    await limiter.ask('r', [{ few: 'other' }]);
    expect((await reset(limiter, 'domain=r&all=true')).body.reset).toBe(2);
  });
});

describeWithServer('a reset in memcache', memcachedProgram, (path) => {
  const start = limitersOfSuite(() => ({ env: remembering }));
  it('removes by entries, and says that other limiters cannot be determined', async () => {
    const server = await startMemcached({ path });
    onTestFinished(() => server.stop());
    const env = {
      RUNTIME_ROOT: plainFolder,
      BACKEND_TYPE: 'memcache',
      MEMCACHE_HOST_PORT: `127.0.0.1:${server.port}`,
    };
    const [limiter, other] = [await start(env), await start(env)];
    await fill([limiter, other], 'few');
    const answer = await reset(limiter, 'domain=r&entry=few=v');
    expect([answer.body.reset, confirmations(answer)]).toEqual([1, [true]]);
    expect(answer.body.missing).toEqual([
      { command: 'PUBLISH', message: expect.stringContaining('memcached cannot notify other limiters') },
    ]);
    expect([await code(limiter, 'few'), await code(other, 'few')]).toEqual(['OK', 'OVER_LIMIT']);
    expect((await reset(limiter, 'domain=r&all=true')).status).toBe(501);
  });
});
