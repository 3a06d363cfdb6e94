/** Overrides in whole limiters: by the API with memory and with a Redis that limiters share, and by files. OVERRIDES_DIR, OVERRIDES_MAX, OVERRIDES_MAX_SECONDS, OVERRIDES_POLL_INTERVAL. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { runWeir } from '../support/weir-command.ts';

const folder = suiteFolder();
mkdirSync(join(folder, 'config'));
writeFileSync(
  join(folder, 'config/shop.yaml'),
  `domain: shop
descriptors:
  - { key: ip, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: busy, rate_limit: { unit: day, requests_per_unit: 1000 } }
  - key: two
    rate_limits: [{ name: fast, unit: minute, requests_per_unit: 5 }, { unit: day, requests_per_unit: 9 }]
`,
);

interface Answer {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look at any part of it
  body: any;
}

async function call(limiter: InProcessLimiter, method: string, query = '', body?: object): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${limiter.ports.debug}/v1/overrides${query}`, {
    method,
    headers: { 'content-type': 'application/json', 'x-weir-user': 'ada@desk' },
    body: body === undefined ? null : JSON.stringify(body),
  });
  return { status: response.status, body: await response.json() };
}

const override = (value: string, traits: object, key = 'ip') => ({
  domain: 'shop',
  match: [{ key, value }],
  reason: 'a test',
  ...traits,
});

async function code(limiter: InProcessLimiter, value: string, key = 'ip'): Promise<string> {
  return (await limiter.ask('shop', [{ [key]: value }])).body?.overallCode;
}

async function useUp(limiter: InProcessLimiter, value: string): Promise<void> {
  for (let asked = 0; asked < 3; asked++) await code(limiter, value);
  expect(await code(limiter, value)).toBe('OVER_LIMIT');
}

describe('/v1/overrides with BACKEND_TYPE=memory', () => {
  const start = limitersOfSuite(() => ({
    env: { RUNTIME_ROOT: folder, OVERRIDES_DIR: join(folder, 'none'), LOCAL_CACHE_SIZE_IN_BYTES: '100000' },
  }));

  it('lets a key over limit pass at once, reports it, and reverts it', async () => {
    const limiter = await start();
    await useUp(limiter, 'a');
    const posted = await call(limiter, 'POST', '', override('a', { requestsPerUnit: 20, for: '2h' }));
    expect(posted).toMatchObject({
      status: 201,
      body: { state: 'InForce', createdBy: 'ada@desk (anyone)', requestsPerUnit: 20 },
    });
    expect(await code(limiter, 'a')).toBe('OK');
    expect((await call(limiter, 'GET', '?domain=shop')).body).toEqual({
      overrides: [{ ...posted.body, secondsLeft: expect.any(Number) }],
      notes: [],
    });
    expect((await call(limiter, 'GET', '?domain=other')).body.overrides).toEqual([]);
    const debug = `http://127.0.0.1:${limiter.ports.debug}`;
    const explained = await fetch(`${debug}/v1/explain`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ domain: 'shop', entries: [{ key: 'ip', value: 'a' }] }),
    });
    expect(await explained.json()).toMatchObject({
      override: { id: posted.body.id },
      inForce: ['20 per day'],
      text: [
        'level 1, "ip=a": "ip" has the key and no value',
        `override: api "${posted.body.id}": 20 per window`,
        expect.stringMatching(/^limit: 20 per day, counter shop_ip_a_\d+$/),
      ],
    });
    const counters = await fetch(`${debug}/v1/counters?domain=shop&entry=ip=a`);
    expect(await counters.json()).toMatchObject({ counters: [{ limit: 20, override: posted.body.id }] });
    expect(await (await fetch(`${debug}/v1/status`)).json()).toMatchObject({ rules: { overrides: 1 } });
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.overrides.in_force')).toBe(1);
    expect(stats.get('ratelimit.overrides.hits.__effect=limit')).toBe(1);
    expect((await call(limiter, 'DELETE', '?domain=shop&entry=ip=a')).body).toMatchObject({
      removed: [{ id: posted.body.id }],
    });
    expect(await code(limiter, 'a')).toBe('OVER_LIMIT');
    expect((await call(limiter, 'DELETE', `?id=${posted.body.id}`)).status).toBe(404);
    const logged = limiter.lines.filter((line) => line.includes('An operator made a change'));
    expect(logged.map((line) => /what=\S+/.exec(line)?.[0])).toEqual([
      'what=override-set',
      'what=override-removed',
    ]);
    expect(logged[0]).toContain('a test');
  });

  it('keeps a second one of the same match out, replaces by PUT, and ends on time', async () => {
    const limiter = await start();
    const first = await call(limiter, 'POST', '', override('b', { block: true, permanent: true }));
    expect(await code(limiter, 'b')).toBe('OVER_LIMIT');
    const second = await call(limiter, 'POST', '', override('b', { shadow: true, for: '1h' }));
    expect(second).toMatchObject({
      status: 409,
      body: {
        detail: expect.stringContaining('ip=b is blocked already'),
        conflictsWith: { id: first.body.id },
      },
    });
    const put = await call(limiter, 'PUT', '', override('b', { block: true, for: '2s' }));
    expect(put.status).toBe(200);
    expect((await call(limiter, 'GET')).body.overrides).toHaveLength(1);
    expect(await code(limiter, 'b')).toBe('OVER_LIMIT');
    await eventually(async () => expect(await code(limiter, 'b')).toBe('OK'));
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(put.body.endsAt));
    expect((await call(limiter, 'GET')).body.overrides[0].state).toBe('Ended');
    // What has ended keeps nobody out.
    expect((await call(limiter, 'POST', '', override('b', { shadow: true, for: '1h' }))).status).toBe(201);
  });

  it('grants once by an id, and adds grants up', async () => {
    const limiter = await start();
    await useUp(limiter, 'g');
    const once = override('g', { grant: 3, id: 'ticket-7' });
    expect((await call(limiter, 'POST', '', once)).status).toBe(201);
    expect(await call(limiter, 'POST', '', once)).toMatchObject({
      status: 200,
      body: { id: 'ticket-7', grant: 3 },
    });
    expect((await call(limiter, 'POST', '', { ...once, grant: 4 })).status).toBe(409);
    expect([await code(limiter, 'g'), await code(limiter, 'g'), await code(limiter, 'g')]).toEqual([
      'OK',
      'OK',
      'OVER_LIMIT',
    ]);
    expect((await call(limiter, 'POST', '', override('g', { grant: 5 }))).status).toBe(201);
    expect(await code(limiter, 'g')).toBe('OK');
    expect(await call(limiter, 'POST', '', override('g', { grant: 5 }, 'none'))).toMatchObject({
      status: 400,
      body: { detail: 'a grant is not possible: no rule of "shop" has the key "none"' },
    });
  });

  it('names everything that is wrong, and what an override cannot change', async () => {
    const limiter = await start({ OVERRIDES_MAX: '2', OVERRIDES_MAX_SECONDS: '60' });
    expect(await call(limiter, 'POST', '', override('c', { for: '2m', requestsPerUnit: -1 }))).toMatchObject({
      status: 400,
      body: {
        problems: [
          'requestsPerUnit: must be a whole number from 0 to 9007199254740991, found -1',
          'for: is 120 s away, and can be 60 (1m, OVERRIDES_MAX_SECONDS): make it permanent for longer',
        ],
      },
    });
    const state = async (given: object) => (await call(limiter, 'POST', '', given)).body;
    expect(await state(override('c', { for: '1m', requestsPerUnit: 1 }, 'none'))).toMatchObject({
      state: 'NoRule',
      message: 'requestsPerUnit needs a unit, as no rule of "shop" has the key "none"',
    });
    const dryRun = async (given: object) => (await call(limiter, 'POST', '?dryRun=true', given)).body;
    for (const value of ['c', 'c*'])
      expect(await dryRun(override(value, { for: '1m', block: true }, 'bsuy'))).toMatchObject({
        state: 'InForce',
        message: 'no rule of "shop" has the key "bsuy"; did you mean "busy"?',
      });
    expect(await dryRun(override('c', { for: '1m', block: true }, 'busy'))).toMatchObject({ message: '' });
    expect(await state(override('c', { for: '1m', requestsPerUnit: 1 }, 'two'))).toMatchObject({
      state: 'NoRule',
      message: 'the rule has several limits: choose one with limit, one of fast, 1d',
    });
    expect(await call(limiter, 'POST', '', override('d', { for: '1m', block: true }))).toMatchObject({
      status: 429,
      body: { detail: 'there are 2 overrides, and there can be 2 (OVERRIDES_MAX): ip=d is not set' },
    });
    expect(await call(limiter, 'DELETE')).toMatchObject({ status: 400 });
  });
});

describe('OVERRIDES_DIR', () => {
  const directory = join(folder, 'overrides');
  const start = limitersOfSuite(() => ({ env: { RUNTIME_ROOT: folder } }));
  const write = (text: string): void => {
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(folder, 'new.yaml'), text);
    renameSync(join(folder, 'new.yaml'), join(directory, 'shop.yaml'));
  };
  const block = (value: string): string =>
    `domain: shop\noverrides:\n  - { match: [{ key: busy, value: ${value} }], block: true, permanent: true, reason: r }\n`;

  it('is beside the rules unless it is set, followed, and the last good files stay', async () => {
    rmSync(directory, { recursive: true, force: true });
    const limiter = await start();
    expect(await code(limiter, 'f', 'busy')).toBe('OK');
    write(block('f'));
    await eventually(async () => expect(await code(limiter, 'f', 'busy')).toBe('OVER_LIMIT'));
    write('domain: shop\noverrides:\n  - { match: [], block: true, for: 2h }\n');
    await eventually(() =>
      expect(limiter.lines.join('\n')).toContain('shop.yaml:3:5: overrides[0].reason: is required'),
    );
    expect(await code(limiter, 'f', 'busy')).toBe('OVER_LIMIT');
    expect((await limiter.stats()).get('ratelimit.overrides.files_refused')).toBe(1);
    expect(await call(limiter, 'POST', '', override('f', { shadow: true, for: '1h' }, 'busy'))).toMatchObject(
      {
        status: 409,
        body: { detail: expect.stringContaining('change the file: shop.yaml:1') },
      },
    );
    expect(await call(limiter, 'DELETE', '?id=shop.yaml:1')).toMatchObject({ status: 409 });
    write(block('other'));
    await eventually(async () => expect(await code(limiter, 'f2', 'busy')).toBe('OK'));
    await eventually(async () =>
      expect((await limiter.stats()).get('ratelimit.overrides.files_refused')).toBe(0),
    );
    expect(await code(limiter, 'other', 'busy')).toBe('OVER_LIMIT');
    rmSync(directory, { recursive: true });
    await eventually(async () => expect(await code(limiter, 'other', 'busy')).toBe('OK'));
  });

  it('holds files that weir check reads', () => {
    write(block('checked'));
    const check = () => runWeir(['check', directory]);
    expect(check().status).toBe(0);
    write('domain: shop\noverrides:\n  - { match: [], block: true, permanent: true, reason: r }\n');
    expect(check()).toMatchObject({
      status: 1,
      stdout: expect.stringContaining("shop.yaml:3:14: error: 'match' must have 1 to 32 entries, and has 0"),
    });
    rmSync(directory, { recursive: true });
  });

  it('is in force from the first decision on', async () => {
    write(block('first'));
    const limiter = await start();
    expect(await code(limiter, 'first', 'busy')).toBe('OVER_LIMIT');
    rmSync(directory, { recursive: true });
  });
});

describeWithServer('overrides of limiters that share a Redis', redisProgram, (path) => {
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
  const start = limitersOfSuite(() => ({
    env: {
      RUNTIME_ROOT: folder,
      OVERRIDES_DIR: join(folder, 'none'),
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
      LOCAL_CACHE_SIZE_IN_BYTES: '100000',
      LEASES: 'on',
      STORE_FAILURE_MODE: 'allow',
    },
  }));
  const all = (limiters: InProcessLimiter[], value: string, key?: string) =>
    Promise.all(limiters.map((limiter) => code(limiter, value, key)));
  const three = async () => [await start(), await start(), await start()];

  it('let a key over limit pass everywhere, and end everywhere', async () => {
    const limiters = await three();
    for (const limiter of limiters) await useUp(limiter, 'x');
    const { body } = await call(
      limiters[0]!,
      'POST',
      '',
      override('x', { requestsPerUnit: 100_000, for: '4s' }),
    );
    await eventually(async () => expect(await all(limiters, 'x')).toEqual(['OK', 'OK', 'OK']), {
      timeoutMs: 3_000,
    });
    await eventually(async () =>
      expect(await all(limiters, 'x')).toEqual(['OVER_LIMIT', 'OVER_LIMIT', 'OVER_LIMIT']),
    );
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(body.endsAt));
  });

  it('end what is leased of a busy key', async () => {
    const limiters = await three();
    for (let round = 0; round < 10; round++) await all(limiters, 'y', 'busy');
    await call(limiters[1]!, 'POST', '', override('y', { requestsPerUnit: 5, for: '1h' }, 'busy'));
    await eventually(async () =>
      expect(await all(limiters, 'y', 'busy')).toEqual(['OVER_LIMIT', 'OVER_LIMIT', 'OVER_LIMIT']),
    );
    await call(limiters[2]!, 'DELETE', '?domain=shop&entry=busy=y');
    await eventually(async () => expect(await all(limiters, 'y', 'busy')).toEqual(['OK', 'OK', 'OK']));
  });

  it('reach a limiter that starts later and, if messages are rejected, by the check of the revision', async () => {
    const [first] = await three();
    await call(first!, 'POST', '', override('late', { block: true, for: '1h' }));
    // Known before it is asked, which would count.
    const knowing = async (limiter: InProcessLimiter) => {
      const known = async () => (await limiter.stats()).get('ratelimit.overrides.in_force');
      await eventually(async () => expect(await known()).toBe(1));
      return limiter;
    };
    const later = await knowing(await start());
    expect(await code(later, 'late')).toBe('OVER_LIMIT');
    await client.acl('SETUSER', 'default', '-subscribe', '-publish');
    try {
      const deaf = await knowing(await start({ OVERRIDES_POLL_INTERVAL: '200ms' }));
      expect(await code(deaf, 'late')).toBe('OVER_LIMIT');
      await call(first!, 'DELETE', '?domain=shop&entry=ip=late');
      await eventually(async () => expect(await code(deaf, 'late')).toBe('OK'));
    } finally {
      await client.acl('SETUSER', 'default', '+subscribe', '+publish');
    }
  });

  it('hold when Redis comes back empty, which has them again, except for those taken back', async () => {
    const limiters = await three();
    for (const value of ['kept', 'taken'])
      await call(limiters[0]!, 'POST', '', override(value, { block: true, permanent: true }, 'busy'));
    await eventually(async () =>
      expect(await all(limiters, 'taken', 'busy')).toEqual(['OVER_LIMIT', 'OVER_LIMIT', 'OVER_LIMIT']),
    );
    await call(limiters[0]!, 'DELETE', '?domain=shop&entry=busy=taken');
    await eventually(async () => expect(await all(limiters, 'taken', 'busy')).toEqual(['OK', 'OK', 'OK']));
    await client.flushall();
    const word = 'The store came back without overrides';
    await eventually(() =>
      expect(limiters.some(({ lines }) => lines.some((line) => line.includes(word)))).toBe(true),
    );
    expect(await all(limiters, 'kept', 'busy')).toEqual(['OVER_LIMIT', 'OVER_LIMIT', 'OVER_LIMIT']);
    const later = await start();
    await eventually(async () => expect(await code(later, 'kept', 'busy')).toBe('OVER_LIMIT'));
    expect(await code(later, 'taken', 'busy')).toBe('OK');
    await call(later, 'DELETE', '?domain=shop&entry=busy=kept');
    await eventually(async () => expect(await all(limiters, 'kept', 'busy')).toEqual(['OK', 'OK', 'OK']));
  });

  it('hold, and end on time, while Redis is away', async () => {
    const limiters = await three();
    const { body } = await call(limiters[0]!, 'POST', '', override('away', { block: true, for: '6s' }));
    await eventually(async () =>
      expect(await all(limiters, 'away')).toEqual(['OVER_LIMIT', 'OVER_LIMIT', 'OVER_LIMIT']),
    );
    client.disconnect();
    await redis.kill('SIGKILL');
    expect(await all(limiters, 'away')).toEqual(['OVER_LIMIT', 'OVER_LIMIT', 'OVER_LIMIT']);
    await eventually(async () => expect(await all(limiters, 'away')).toEqual(['OK', 'OK', 'OK']), {
      timeoutMs: 30_000,
    });
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(body.endsAt));
    expect(await call(limiters[0]!, 'POST', '', override('away', { block: true, for: '6s' }))).toMatchObject({
      status: 503,
    });
  });
});
