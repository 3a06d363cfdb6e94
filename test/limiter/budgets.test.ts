import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
mkdirSync(join(folder, 'config'));
writeFileSync(
  join(folder, 'config', 'llm.yaml'),
  `domain: llm
descriptors:
  - key: team
    rate_limit: { unit: year, requests_per_unit: 1000 }
    reserve: { ttl: 60s, estimate: 400 }
  - key: user
    rate_limit: { unit: year, requests_per_unit: 1000 }
`,
);

mkdirSync(join(folder, 'plain', 'config'), { recursive: true });
writeFileSync(
  join(folder, 'plain', 'config', 'llm.yaml'),
  'domain: llm\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 1 } }]\n',
);

mkdirSync(join(folder, 'domains', 'config'), { recursive: true });
for (const domain of ['flood', 'other'])
  writeFileSync(
    join(folder, 'domains', 'config', `${domain}.yaml`),
    `domain: ${domain}\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 1000 } }]\n`,
  );

interface Answer {
  status: number;
  retryAfter: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look at any part of it
  body: any;
}

async function post(limiter: InProcessLimiter, path: string, body: object): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${limiter.ports.http}/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const retryAfter = Number(response.headers.get('retry-after'));
  return { status: response.status, retryAfter, body: await response.json() };
}

/** What is left of the counter, by a look. */
async function left(limiter: InProcessLimiter, entries: Record<string, string>): Promise<unknown> {
  const { body } = await post(limiter, 'check', { domain: 'llm', descriptors: [[entries]], hits: 0 });
  return body.descriptors[0].left;
}

describeWithServer('budgets of limiters that share a Redis', redisProgram, (path) => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis({ path });
  });
  afterAll(() => redis?.stop());
  /** Of each test its own. */
  let name = '';
  let user = { domain: 'llm', descriptors: [[{ user: '' }]] };
  beforeEach(({ task }) => {
    name = task.name;
    user = { domain: 'llm', descriptors: [[{ user: name }]] };
  });
  const start = limitersOfSuite(() => ({
    env: {
      RUNTIME_ROOT: folder,
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
      LOCAL_CACHE_SIZE_IN_BYTES: '100000',
    },
  }));

  it('are reserved at one and committed at the other, by its ID alone', async () => {
    const one = await start();
    const reserved = await post(one, 'reserve', { ...user, amount: 600 });
    expect(reserved).toMatchObject({ status: 200, body: { code: 'OK', amount: 600 } });
    const other = await start();
    expect(await left(other, { user: name })).toBe(400);
    expect((await post(other, 'reserve', { ...user, amount: 500 })).status).toBe(429);
    const { reservationId } = reserved.body;
    expect(reservationId).toMatch(/^w1\.[0-9a-f]{8}\.[0-9a-f]{32}$/);
    const settled = await post(other, 'commit', { reservationId, actualAmount: 100 });
    expect(settled).toMatchObject({ status: 200, body: { outcome: 'settled', charged: 100 } });
    const again = await post(one, 'commit', { reservationId, actualAmount: 100 });
    expect(again.body).toMatchObject({ outcome: 'repeated', charged: 100 });
    expect(await left(one, { user: name })).toBe(900);
    expect((await one.stats()).get('ratelimit.service.rate_limit.llm.user.total_hits')).toBe(600);
    expect((await other.stats()).get('ratelimit.service.rate_limit.llm.user.total_negative_hits')).toBe(500);
  });

  it('answer with the first of several amounts that were not reserved', async () => {
    const one = await start();
    const descriptors = [
      { entries: [{ user: name }], amount: 70 },
      { entries: [{ team: name }], amount: 3 },
    ];
    for (const outcome of ['unknown', 'repeated']) {
      const never = { domain: 'llm', descriptors, reservationId: 'never-reserved' };
      expect((await post(one, 'commit', never)).body).toMatchObject({ outcome, charged: 70 });
    }
    expect([await left(one, { user: name }), await left(one, { team: name })]).toEqual([930, 997]);
  });

  it('are held by marked requests, and committed by the next one', async () => {
    const one = await start();
    const other = await start();
    const marked = { team: name, reservation_id: 's1' };
    expect((await one.ask('llm', [marked], 0)).body.statuses).toMatchObject([{ limitRemaining: 600 }]);
    expect((await one.ask('llm', [{ ...marked, reservation_id: 's2' }], 700)).status).toBe(429);
    expect((await other.ask('llm', [{ ...marked, settle: 'true' }], 50)).body).toMatchObject({
      overallCode: 'OK',
      statuses: [{ limitRemaining: 950 }],
    });
    // Of an id that was only rejected nothing is charged.
    await other.ask('llm', [{ ...marked, reservation_id: 's2', settle: 'true' }], 50);
    expect(await left(other, { team: name })).toBe(950);
  });

  it('are of all threads of LIMITER_WORKERS', async () => {
    const limiter = await start({ LIMITER_WORKERS: '2' });
    // Each on a connection of its own, whichever thread takes it.
    const reserved = await Promise.all(
      Array.from({ length: 12 }, () => post(limiter, 'reserve', { ...user, amount: 100 })),
    );
    expect(reserved.filter(({ status }) => status === 200)).toHaveLength(10);
    const ids = reserved.flatMap(({ status, body }) => (status === 200 ? [body.reservationId] : []));
    await Promise.all(
      ids.map((reservationId) => post(limiter, 'commit', { reservationId, actualAmount: 7 })),
    );
    expect(await left(limiter, { user: name })).toBe(930);
    const settled = 'ratelimit.budget.calls.__call=settle.__outcome=settled';
    expect((await limiter.stats()).get(settled)).toBe(10);
  });

  it('are not supported if scripts never run, and hits count as always', async () => {
    const limiter = await start({ REDIS_SCRIPTS: 'never', RUNTIME_SUBDIRECTORY: 'plain' });
    expect(await post(limiter, 'reserve', { ...user, amount: 1 })).toMatchObject({
      status: 501,
      body: {
        detail: 'REDIS_SCRIPTS=never cannot store reservations; they need a Redis with scripts, or memory',
      },
    });
    const asked = [await limiter.ask('llm', [{ user: name }]), await limiter.ask('llm', [{ user: name }])];
    expect(asked.map(({ status }) => status)).toEqual([200, 429]);
  });

  it('have as many reservations of a counter as BUDGET_MAX_RESERVATIONS', async () => {
    const limiter = await start({ BUDGET_MAX_RESERVATIONS: '2' });
    const answers: number[] = [];
    for (let i = 0; i < 3; i++) answers.push((await post(limiter, 'reserve', { ...user, amount: 1 })).status);
    expect(answers).toEqual([200, 200, 429]);
    expect(await left(limiter, { user: name })).toBe(998);
  });

  it('have as many reservations of a domain as BUDGET_MAX_DOMAIN_RESERVATIONS', async () => {
    const limiter = await start({ BUDGET_MAX_DOMAIN_RESERVATIONS: '2', RUNTIME_SUBDIRECTORY: 'domains' });
    const ask = (domain: string, given: object = {}) =>
      post(limiter, 'reserve', { domain, descriptors: [[{ any: name }]], amount: 1, ...given });
    // Those that hold nothing and have no id of the caller leave nothing.
    for (let n = 0; n < 5; n++) expect((await ask('flood')).status).toBe(200);
    for (const reservationId of ['a', 'b']) expect((await ask('flood', { reservationId })).status).toBe(200);
    const full = await ask('flood', { reservationId: 'c' });
    expect([full.status, full.body.detail]).toEqual([
      ...[429, expect.stringContaining('BUDGET_MAX_DOMAIN_RESERVATIONS')],
    ]);
    expect(full.retryAfter).toBeGreaterThan(600);
    expect((await ask('flood', { reservationId: 'a' })).body.repeated).toBe(true);
    expect((await ask('other', { reservationId: 'c' })).status).toBe(200);
    expect((await limiter.stats()).get('ratelimit.budget.calls.__call=reserve.__outcome=full_domain')).toBe(
      1,
    );
  });

  it('are held for BUDGET_MAX_TTL at most', async () => {
    const limiter = await start({ BUDGET_MAX_TTL: '30s' });
    expect((await post(limiter, 'reserve', { ...user, amount: 1, ttl: '30s' })).status).toBe(200);
    expect(await post(limiter, 'reserve', { ...user, amount: 1, ttl: '31s' })).toMatchObject({
      status: 400,
      body: { detail: expect.stringContaining('BUDGET_MAX_TTL') },
    });
  });

  it('are remembered for BUDGET_RECORD_TTL after their TTL', async () => {
    const short = await start({ BUDGET_RECORD_TTL: '1s' });
    const long = await start();
    const commit = (limiter: InProcessLimiter, reservationId: string): Promise<Answer> =>
      post(limiter, 'commit', { domain: 'llm', reservationId, actualAmount: 1 });
    for (const [limiter, id] of [
      [short, 'short'],
      [long, 'long'],
    ] as const) {
      const asked = { domain: 'llm', descriptors: [[{ user: `${name} ${id}` }]], amount: 10, ttl: '1s' };
      await post(limiter, 'reserve', { ...asked, reservationId: id });
      expect((await commit(limiter, id)).body.outcome).toBe('settled');
      expect((await commit(limiter, id)).body.outcome).toBe('repeated');
    }
    await eventually(async () => expect((await commit(short, 'short')).status).toBe(404));
    expect((await commit(long, 'long')).body.outcome).toBe('repeated');
  });

  it('release what has expired before a hit is over limit', async () => {
    const one = await start();
    const other = await start();
    await post(one, 'reserve', { ...user, amount: 1_000, ttl: '1s' });
    const ask = async (): Promise<number> => (await other.ask('llm', [{ user: name }])).status;
    expect(await ask()).toBe(429);
    await eventually(async () => expect(await ask()).toBe(200));
  });
});
