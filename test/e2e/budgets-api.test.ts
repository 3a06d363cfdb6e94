/** Budgets over HTTP, asked of a whole limiter; and through the command and the debug listener. */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { httpAsk } from '../support/http-ask.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { RedisServer } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
const max = Number.MAX_SAFE_INTEGER;
// A year, lest a window ends while a test counts.
const rules = `domain: llm
descriptors:
  - key: team
    rate_limits:
      - { name: yearly, unit: year, requests_per_unit: 1000 }
      - { name: rate, unit: hour, requests_per_unit: 900, algorithm: token_bucket }
  - key: user
    rate_limit: { unit: year, requests_per_unit: 500 }
  - key: tenant
    rate_limit: { unit: year, requests_per_unit: ${max} }
  - key: tokens
    rate_limit: { unit: year, requests_per_unit: 1000, hits_unit: tokens }
  - key: money
    rate_limit: { unit: year, requests_per_unit: 5000, hits_unit: micro-dollars }
`;

beforeAll(() => {
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config/llm.yaml'), rules);
});

// biome-ignore lint/suspicious/noExplicitAny: tests look at any part of it
type Reported = { status: number; headers: Record<string, unknown>; body: any };

async function post(
  limiter: InProcessLimiter,
  path: string,
  body: object,
  token?: string,
): Promise<Reported> {
  const {
    status,
    headers,
    body: text,
  } = await httpAsk(limiter.ports.http, path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body),
  });
  return { status, headers, body: JSON.parse(text) };
}

const about = (...descriptors: Record<string, string>[]) => ({
  ...{ domain: 'llm', descriptors: descriptors.map((entries) => [entries]) },
});

describe('budgets', () => {
  let limiter: InProcessLimiter;
  beforeAll(async () => {
    limiter = await InProcessLimiter.start({ env: { RUNTIME_ROOT: folder } });
  });
  afterAll(() => limiter.stop());

  const reserve = (body: object) => post(limiter, '/v1/reserve', body);
  const commit = (body: object) => post(limiter, '/v1/commit', body);
  const left = async (team: string, of: 'http' | 'debug' = 'http') => {
    const { body } = await httpAsk(limiter.ports[of], `/v1/budgets?domain=llm&entry=team=${team}`);
    return JSON.parse(body).budgets;
  };

  it('are held by a reservation until its commit, and stand as they say on both ports', async () => {
    const reserved = await reserve({ ...about({ team: 'a' }), amount: 600, ttl: '5m' });
    expect([reserved.status, reserved.body]).toMatchObject([
      200,
      {
        ...{
          code: 'OK',
          amount: 600,
          repeated: false,
          reservationId: expect.stringMatching(/^w1\.[0-9a-f]{8}\.[0-9a-f]{32}$/),
        },
        scopes: [
          {
            rule: 'llm.team',
            limit: { name: 'yearly' },
            used: 600,
            reserved: 600,
            left: 400,
            refused: false,
          },
          { rule: 'llm.team', limit: { name: 'rate' }, used: 600, reserved: 600, left: 300, refused: false },
        ],
      },
    ]);
    expect(Math.abs(Date.parse(reserved.body.expiresAt) - Date.now() - 300_000)).toBeLessThan(60_000);
    expect(reserved.headers).toMatchObject({ 'ratelimit-remaining': '300' });
    for (const port of ['http', 'debug'] as const)
      expect(await left('a', port)).toMatchObject([
        { used: 600, reserved: 600, open: 1, oldestSeconds: expect.any(Number), left: 400 },
        { reserved: 600, open: 1 },
      ]);
    const { reservationId } = reserved.body;
    for (const outcome of ['settled', 'repeated']) {
      const settled = await commit({ reservationId, actualAmount: 480 });
      expect([settled.status, settled.body]).toMatchObject([200, { outcome, charged: 480, amount: 600 }]);
    }
    expect(await left('a')).toMatchObject([{ used: 480, reserved: 0, open: 0, oldestSeconds: null }, {}]);
  });

  it('hold tokens and money together, each by an amount of its own, or nothing', async () => {
    const both = (tokens: number, money: number) => ({
      domain: 'llm',
      descriptors: [
        { entries: [{ tokens: 'ada' }], amount: tokens },
        { entries: [{ money: 'a' }], amount: money },
      ],
    });
    const standing = async () =>
      Promise.all(
        ['tokens=ada', 'money=a'].map(async (entry) => {
          const { body } = await httpAsk(limiter.ports.http, `/v1/budgets?domain=llm&entry=${entry}`);
          const [{ used, reserved }] = JSON.parse(body).budgets;
          return [used, reserved];
        }),
      );
    const reservationId = 'answer-18';
    expect(await reserve({ ...both(600, 4800), reservationId, ttl: '30s' })).toMatchObject({ status: 200 });
    expect(await standing()).toEqual([
      [600, 600],
      [4800, 4800],
    ]);
    // Tokens are left, money is not.
    expect(await reserve(both(100, 4800))).toMatchObject({ status: 429 });
    expect(await commit({ ...both(480, 3840), reservationId })).toMatchObject({ status: 200 });
    expect(await standing()).toEqual([
      [480, 0],
      [3840, 0],
    ]);
    const one = await reserve({ ...about({ tokens: 'ada' }, { money: 'a' }), amount: 10 });
    expect([one.status, one.body.detail]).toEqual([400, expect.stringMatching(/llm\.tokens.*llm\.money/)]);
    expect(await standing()).toEqual([
      [480, 0],
      [3840, 0],
    ]);
    // What nobody reserved is charged, and the answer has the amount of the first.
    for (const outcome of ['unknown', 'repeated'])
      expect((await commit({ ...both(7, 300), reservationId: 'answer-19' })).body).toMatchObject({
        ...{ outcome, charged: 7 },
      });
    expect(await standing()).toEqual([
      [487, 0],
      [4140, 0],
    ]);
  });

  it('are changed by no commit or release that names too few descriptors, or too many', async () => {
    const asked = about({ team: 'partial' }, { user: 'partial' });
    const { reservationId } = (await reserve({ ...asked, amount: 100, reservationId: 'of-both' })).body;
    for (const [settle, descriptors, named] of [
      ['commit', [{ team: 'partial' }], 1],
      ['release', [{ user: 'partial' }], 1],
      ['commit', [{ nothing: 'limits this' }], 1],
      ['commit', [{ team: 'partial' }, { user: 'partial' }, { user: 'third' }], 3],
    ] as const) {
      const amount = settle === 'commit' ? { actualAmount: 7 } : {};
      const body = { ...about(...descriptors), reservationId, ...amount };
      const { status, body: answer } = await post(limiter, `/v1/${settle}`, body);
      const has = 'the reservation "of-both" has 2 descriptors';
      const detail = `${has}, but the call names ${named}; name all of them. Nothing was changed`;
      expect([status, answer.detail]).toEqual([409, detail]);
    }
    expect(await left('partial')).toMatchObject([{ used: 100, reserved: 100 }, {}]);
    const user = async () => {
      const { body } = await httpAsk(limiter.ports.http, '/v1/budgets?domain=llm&entry=user=third');
      return JSON.parse(body).budgets;
    };
    expect(await user()).toMatchObject([{ used: 0 }]);
    const settled = await commit({ ...asked, reservationId, actualAmount: 7 });
    expect(settled.body).toMatchObject({ outcome: 'settled', charged: 7, scopes: [{}, {}, { used: 7 }] });
    expect(await left('partial')).toMatchObject([{ used: 7, reserved: 0 }, {}]);
  });

  it('report an amount that does not fit, name the limit, and hold nothing of it', async () => {
    await reserve({ ...about({ user: 'ada' }), amount: 450 });
    const refused = await reserve({ ...about({ team: 'b' }, { user: 'ada' }), amount: 100 });
    expect(refused.status).toBe(429);
    expect(refused.body).toMatchObject({ code: 'OVER_LIMIT', reservationId: null, expiresAt: null });
    const scopes = refused.body.scopes.map((one: { descriptor: number; refused: boolean; left: number }) => [
      ...[one.descriptor, one.refused, one.left],
    ]);
    expect(scopes).toEqual([
      [0, false, 1000],
      [0, false, 900],
      [1, true, 50],
    ]);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect(await left('b')).toMatchObject([{ used: 0 }, { used: 0 }]);
  });

  it('are seen by plain hits', async () => {
    await reserve({ ...about({ user: 'bob' }), amount: 500 });
    const { status } = await limiter.ask('llm', [{ user: 'bob' }]);
    expect(status).toBe(429);
  });

  it('are repeated by an ID of the caller, which identifies one reservation', async () => {
    const asked = { ...about({ team: 'c' }), amount: 10, reservationId: 'of-c-1' };
    const [first, second] = [await reserve(asked), await reserve(asked)];
    expect([first.body.repeated, second.body.repeated, second.status]).toEqual([false, true, 200]);
    expect(second.body.expiresAt).toBe(first.body.expiresAt);
    const other = await reserve({ ...asked, amount: 11 });
    expect([other.status, other.body.detail]).toEqual([409, expect.stringContaining('of-c-1')]);
    expect(await left('c')).toMatchObject([{ used: 10 }, {}]);
  });

  it('are given back by a release, and charged beyond the estimate', async () => {
    const { reservationId } = (await reserve({ ...about({ user: 'eve' }), amount: 100 })).body;
    const released = await post(limiter, '/v1/release', { reservationId });
    expect(released.body).toMatchObject({ outcome: 'settled', charged: 0, scopes: [{ used: 0, left: 500 }] });
    const next = (await reserve({ ...about({ user: 'eve' }), amount: 100 })).body;
    const more = await commit({ reservationId: next.reservationId, actualAmount: 700 });
    expect(more.body).toMatchObject({ outcome: 'settled', charged: 700, scopes: [{ used: 700, left: 0 }] });
  });

  it('charge what was not reserved once, if its descriptors are given', async () => {
    const asked = { ...about({ user: 'dan' }), reservationId: 'lost-1', actualAmount: 30 };
    expect((await commit({ reservationId: 'lost-1', actualAmount: 30 })).status).toBe(400);
    expect((await commit({ domain: 'llm', reservationId: 'lost-1', actualAmount: 30 })).status).toBe(404);
    expect((await commit(asked)).body).toMatchObject({
      outcome: 'unknown',
      charged: 30,
      scopes: [{ used: 30 }],
    });
    expect((await commit(asked)).body).toMatchObject({
      outcome: 'repeated',
      charged: 30,
      scopes: [{ used: 30 }],
    });
  });

  it('are exact to 2^53 - 1', async () => {
    const { status, body } = await reserve({ ...about({ tenant: 't' }), amount: max });
    expect([status, body.scopes]).toMatchObject([
      200,
      [{ used: max, left: 0, limit: { requestsPerUnit: max } }],
    ]);
    await commit({ reservationId: body.reservationId, actualAmount: max - 2 });
    expect((await reserve({ ...about({ tenant: 't' }), amount: 3 })).status).toBe(429);
    expect((await reserve({ ...about({ tenant: 't' }), amount: 2 })).body.scopes).toMatchObject([
      { left: 0 },
    ]);
  });

  it('reserve what nothing limits, and not longer than they may', async () => {
    const nothing = { ...about({ nobody: 'x' }), amount: 5, ttl: '5m', reservationId: 'of-nobody' };
    const { status, body } = await reserve(nothing);
    expect([status, body.scopes, body.unlimited]).toEqual([200, [], [{ descriptor: 0, rule: null }]]);
    expect(Math.abs(Date.parse(body.expiresAt) - Date.now() - 300_000)).toBeLessThan(60_000);
    const again = await reserve(nothing);
    expect(again.body).toEqual({ ...body, repeated: true });
    expect((await reserve({ ...nothing, amount: 6 })).status).toBe(409);
    const made = await reserve({ ...nothing, reservationId: undefined });
    expect(made.body.reservationId).toMatch(/^w0\.[0-9a-f]{8}\.[0-9a-f]{32}$/);
    for (const [reservationId, more] of [
      ['of-nobody', { domain: 'llm' }],
      ['of-nobody', about({ nobody: 'x' })],
      [made.body.reservationId, {}],
      [made.body.reservationId, about({ team: 'a' })],
    ]) {
      const settled = { reservationId, outcome: 'settled', charged: 0, amount: 0, scopes: [] };
      expect((await commit({ reservationId, actualAmount: 5, ...more })).body).toEqual(settled);
      expect((await post(limiter, '/v1/release', { reservationId, ...more })).body).toEqual(settled);
    }
    const mixed = await reserve({ ...about({ taem: 'a' }, { team: 'c' }), amount: 5 });
    expect(mixed.body).toMatchObject({
      scopes: [{ descriptor: 1 }, { descriptor: 1 }],
      unlimited: [{ descriptor: 0, rule: null }],
    });
    const long = await reserve({ ...about({ team: 'a' }), amount: 5, ttl: '25h' });
    expect([long.status, long.body.detail]).toEqual([400, expect.stringContaining('BUDGET_MAX_TTL')]);
    expect((await reserve({ domain: 'nobody', descriptors: [[{ a: '' }]], amount: 5 })).status).toBe(404);
  });
});

it('need rights if callers have some', async () => {
  const secret = 'c2VjcmV0LW9mLWEtdGVzdC10aGF0LWlzLW5vdC1yYW5k';
  const hash = createHash('sha256').update(secret).digest('hex');
  const file = join(folder, 'callers.yaml');
  const entry = (name: string, domain: string, rights: string) =>
    `  - { name: ${name}, token_sha256: ${hash}, domains: ['${domain}'], rights: [${rights}] }\n`;
  writeFileSync(
    file,
    `callers:\n${entry('gateway', 'llm', 'reserve')}${entry('other', 'shop', 'reserve, read')}${entry('proxy', '*', 'ask')}`,
  );
  const limiter = await InProcessLimiter.start({
    env: { RUNTIME_ROOT: folder, CALLERS_FILE: file, BUDGET_MAX_CALLER_RESERVATIONS: '1' },
  });
  try {
    const asked = { ...about({ user: 'ann' }), amount: 5 };
    const as = (name: string, path: string, body: object) => post(limiter, path, body, `${name}.${secret}`);
    expect((await post(limiter, '/v1/reserve', asked)).status).toBe(401);
    expect(await as('proxy', '/v1/reserve', asked)).toMatchObject({
      ...{ status: 403, body: { detail: 'caller proxy does not have the right reserve' } },
    });
    expect(await as('other', '/v1/reserve', asked)).toMatchObject({
      ...{ status: 403, body: { detail: 'caller other may not use the domain "llm"' } },
    });
    const { status, body } = await as('gateway', '/v1/reserve', asked);
    expect(status).toBe(200);
    const settled = { reservationId: body.reservationId };
    expect((await as('other', '/v1/commit', settled)).status).toBe(404);
    expect((await as('other', '/v1/commit', { ...settled, domain: 'llm' })).status).toBe(403);
    expect((await as('other', '/v1/commit', { ...settled, domain: 'shop' })).status).toBe(404);
    expect((await as('gateway', '/v1/commit', settled)).body).toMatchObject({
      outcome: 'settled',
      charged: 5,
    });
    const full = await as('gateway', '/v1/reserve', asked);
    expect([full.status, full.body.detail]).toEqual([
      ...[429, expect.stringContaining('BUDGET_MAX_CALLER_RESERVATIONS')],
    ]);
    expect(Number(full.headers['retry-after'])).toBeGreaterThan(600);
    const status403 = await httpAsk(limiter.ports.http, '/v1/budgets?domain=llm&entry=user=ann', {
      headers: { authorization: `Bearer gateway.${secret}` },
    });
    expect([status403.status, JSON.parse(status403.body).detail]).toEqual([
      ...[403, 'caller gateway does not have the right read'],
    ]);
  } finally {
    await limiter.stop();
  }
});

it('are 501 if the store cannot hold them', async () => {
  const root = join(folder, 'memcache');
  mkdirSync(join(root, 'config'), { recursive: true });
  writeFileSync(
    join(root, 'config/llm.yaml'),
    'domain: llm\ndescriptors:\n  - key: user\n    rate_limit: { unit: year, requests_per_unit: 500 }\n',
  );
  const limiter = await InProcessLimiter.start({
    env: { RUNTIME_ROOT: root, BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: '127.0.0.1:1' },
  });
  try {
    const { status, body } = await post(limiter, '/v1/reserve', { ...about({ user: 'ann' }), amount: 5 });
    expect([status, body.detail]).toEqual([
      501,
      'BACKEND_TYPE=memcache cannot store reservations; they need a Redis with scripts, or memory',
    ]);
    expect((await post(limiter, '/v1/commit', { domain: 'llm', reservationId: 'x' })).status).toBe(501);
  } finally {
    await limiter.stop();
  }
});

describeWithServer('without their store', redisProgram, (path) => {
  it('are 503, and come back with it', async () => {
    const port = await freePort();
    const redis = new RedisServer({ path }, port);
    await redis.start();
    const store = { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${port}` };
    const limiter = await InProcessLimiter.start({ env: { RUNTIME_ROOT: folder, ...store } });
    try {
      const asked = { ...about({ user: 'ann' }), amount: 100, reservationId: 'of-ann-1' };
      const unlimited = { ...about({ nobody: 'x' }), amount: 100, reservationId: 'of-nobody' };
      for (const one of [asked, unlimited])
        expect((await post(limiter, '/v1/reserve', one)).status).toBe(200);
      expect(
        (await post(limiter, '/v1/commit', { domain: 'llm', reservationId: 'of-nobody' })).body,
      ).toMatchObject({
        ...{ outcome: 'settled', charged: 0 },
      });
      await redis.kill('SIGKILL');
      const answers = [
        await post(limiter, '/v1/reserve', asked),
        await post(limiter, '/v1/reserve', unlimited),
        await post(limiter, '/v1/commit', { domain: 'llm', reservationId: 'of-ann-1' }),
        await post(limiter, '/v1/commit', { ...about({ user: 'ann' }), reservationId: 'of-ann-1' }),
      ];
      for (const { status, headers, body } of answers)
        expect([status, headers['retry-after'], body.status]).toEqual([503, '1', 503]);
      await redis.start();
      await eventually(async () => expect((await post(limiter, '/v1/reserve', asked)).status).toBe(200));
    } finally {
      await limiter.stop();
      await redis.stop();
    }
  });
});
