/** What /v1 of a limiter shows of it, by real limiters and requests. */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { packageVersion } from '../../process/files/package-file.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { type HttpAnswer, httpAsk } from '../support/http-ask.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { startRedis } from '../support/redis-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const rules = `domain: shop
descriptors:
  - key: remote_address
    rate_limit: { unit: year, requests_per_unit: 4 }
  - key: path
    value: /api/*
    rate_limit: { unit: hour, requests_per_unit: 100 }
    descriptors:
      - key: plan
        value: gold
        rate_limits:
          - { name: short, unit: second, requests_per_unit: 5 }
          - { unit: day, requests_per_unit: 50, algorithm: sliding_window }
  - key: tenant
    value_to_metric: true
    rate_limit: { unit: day, requests_per_unit: 1000 }
  - key: open
    rate_limit: { unlimited: true }
`;

const running: InProcessLimiter[] = [];
afterEach(() => Promise.all(running.splice(0).map((limiter) => limiter.stop())));

async function start(env: Record<string, string> = {}): Promise<InProcessLimiter> {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config/shop.yaml'), rules);
  writeFileSync(join(folder, 'config/other.yaml'), rules.replace('domain: shop', 'domain: other'));
  const limiter = await InProcessLimiter.start({ env: { RUNTIME_ROOT: folder, ...env } });
  running.push(limiter);
  return limiter;
}

// biome-ignore lint/suspicious/noExplicitAny: tests look at any part of it
type Json = any;

async function get(limiter: InProcessLimiter, path: string): Promise<HttpAnswer & { json: Json }> {
  const answer = await httpAsk(limiter.ports.debug, path);
  return { ...answer, json: JSON.parse(answer.body) };
}

async function explain(limiter: InProcessLimiter, question: unknown): Promise<HttpAnswer & { json: Json }> {
  const answer = await httpAsk(limiter.ports.debug, '/v1/explain', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(question),
  });
  return { ...answer, json: JSON.parse(answer.body) };
}

describe('GET /v1/status', () => {
  it('says what the limiter is, and what its rules and its store are', async () => {
    const limiter = await start({ POD_NAME: 'limiter-7' });
    const { status, json } = await get(limiter, '/v1/status');
    expect(status).toBe(200);
    expect(json).toMatchObject({
      limiter: { name: 'limiter-7', version: packageVersion(), node: process.version, pid: process.pid },
      ready: true,
      failing: [],
      rules: { domains: 2, rules: 10, lastLoadFailed: false, lastError: null, source: 'file' },
      store: {
        type: 'memory',
        connected: true,
        breaker: 'none',
        openSince: null,
        failureMode: 'none',
        leases: false,
      },
      sinks: [{ name: 'output', linesDropped: 0 }],
      changes: { 'counters-reset': 0, 'override-set': 0, 'override-removed': 0, 'grant-given': 0 },
    });
    expect(json.rules.version).toMatch(/^[0-9a-f]{16}$/);
    expect(Date.parse(json.rules.loadedAt)).toBeGreaterThanOrEqual(Date.parse(json.limiter.startedAt));
    expect(json.history).toBeUndefined();
    expect((await get(limiter, '/v1/status?history=yes')).json.detail).toBe('history must be true or false');
  });

  it('says why the last load failed, to those who may read every domain', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config/shop.yaml'), 'domain: shop\ndescriptors:\n  - kye: user\n');
    const callers = ['shop', "'*'"].map((domain, n) => {
      const hash = createHash('sha256').update(`a-token-of-${n}`).digest('hex');
      return `  - { name: c${n}, token_sha256: ${hash}, domains: [${domain}], rights: [read] }\n`;
    });
    writeFileSync(join(folder, 'callers.yaml'), `callers:\n${callers.join('')}`);
    const limiter = await InProcessLimiter.start({
      env: { RUNTIME_ROOT: folder, CALLERS_FILE: join(folder, 'callers.yaml') },
    });
    running.push(limiter);
    const errorFor = async (n: number): Promise<Json> => {
      const headers = { authorization: `Bearer c${n}.a-token-of-${n}` };
      const { body } = await httpAsk(limiter.ports.debug, '/v1/status', { headers });
      return JSON.parse(body).rules;
    };
    expect(await errorFor(0)).toMatchObject({ lastLoadFailed: true, lastError: null });
    const { lastError } = await errorFor(1);
    expect(lastError).toMatchObject({ line: 3, text: expect.stringContaining('kye') });
    expect(lastError.source).toMatch(/shop/);
  });

  it('says what happens a second, and what happened before', async () => {
    await ratesAreSeen(await start());
  });
});

describeWithServer('with several threads and Redis', redisProgram, (path) => {
  it('GET /v1/status adds up what all threads do', async () => {
    const redis = await startRedis({ path });
    onTestFinished(() => redis.stop());
    const env = { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redis.port}` };
    await ratesAreSeen(await start({ ...env, LIMITER_WORKERS: '2', BACKEND_TYPE: 'redis' }));
  });
});

async function ratesAreSeen(limiter: InProcessLimiter): Promise<void> {
  await get(limiter, '/v1/status');
  const seen = { decisions: 0, over: 0 };
  await eventually(async () => {
    for (let n = 0; n < 5; n++) await limiter.ask('shop', [{ remote_address: '10.0.0.1' }]);
    const { rates } = (await get(limiter, '/v1/status')).json;
    seen.decisions = Math.max(seen.decisions, rates.decisions);
    seen.over = Math.max(seen.over, rates.overLimit);
    expect(seen.decisions).toBeGreaterThan(0);
    expect(seen.over).toBeGreaterThan(0);
  });
  await eventually(async () => {
    const { history } = (await get(limiter, '/v1/status?history=true')).json;
    expect(history).toMatchObject({ stepSeconds: 10, domains: [{ domain: 'shop' }] });
    expect(history.points.length).toBe(history.domains[0].points.length);
    const [at, allowed, over] = history.points.at(-1);
    expect(at).toBeGreaterThan(Date.now() / 1000 - 60);
    expect(allowed + over).toBeGreaterThan(0);
  });
}

describe('GET /v1/rules', () => {
  it('has every rule with its limits and what was counted for it', async () => {
    const limiter = await start();
    for (let n = 0; n < 6; n++) await limiter.ask('shop', [{ remote_address: '10.0.0.1' }]);
    await limiter.ask('shop', [{ path: '/api/x' }], 3);
    await limiter.ask('shop', [{ path: '/api/x', plan: 'gold' }]);
    await limiter.ask('shop', [{ tenant: 'acme.eu' }], 7);
    await limiter.ask('shop', [{ tenant: 'b' }], 5);
    const { json } = await get(limiter, '/v1/rules?domain=shop');
    expect(json.domains.map(({ domain }: Json) => domain)).toEqual(['shop']);
    const [address, path, tenant, open] = json.domains[0].rules;
    expect(address).toMatchObject({
      ...{ path: 'shop.remote_address', key: 'remote_address', shadowMode: false, quotaMode: false },
      ...{ hits: 6, overLimit: 2, rules: [] },
      limits: [
        {
          name: '',
          requestsPerUnit: 4,
          unit: 'year',
          multiplier: 1,
          algorithm: 'fixed_window',
          burst: null,
          unlimited: false,
        },
      ],
    });
    expect(path).toMatchObject({ path: 'shop.path_/api/*', hits: 3, overLimit: 0 });
    expect(path.rules[0]).toMatchObject({ path: 'shop.path_/api/*.plan_gold', hits: 1 });
    expect(path.rules[0].limits.map(({ name, unit }: Json) => [name, unit])).toEqual([
      ['short', 'second'],
      ['', 'day'],
    ]);
    expect(tenant).toMatchObject({ hits: 12, overLimit: 0 });
    expect(open).toMatchObject({ hits: null, overLimit: null, hitsPerSecond: null });
    const all = (await get(limiter, '/v1/rules')).json;
    expect(all.domains.map(({ domain }: Json) => domain)).toEqual(['other', 'shop']);
    expect(all.version).toBe((await get(limiter, '/v1/status')).json.rules.version);
    expect((await get(limiter, '/v1/rules?domain=shoop')).status).toBe(404);
  });
});

describe('GET /v1/top', () => {
  it('has what /top has', async () => {
    const limiter = await start();
    for (let n = 0; n < 6; n++) await limiter.ask('shop', [{ remote_address: '10.0.0.1' }]);
    const { json } = await get(limiter, '/v1/top?domain=shop&n=5');
    expect(json.domains).toMatchObject([
      { domain: 'shop', overLimit: 2, keys: [{ rule: 'shop.remote_address', atMost: 2 }] },
    ]);
    expect((await get(limiter, '/v1/top?n=0')).json.detail).toBe('n must be a number from 1 to 100000');
    const without = await start({ STATS_TOP_KEYS: '0' });
    expect(await get(without, '/v1/top')).toMatchObject({ status: 409 });
  });
});

describe('POST /v1/explain', () => {
  it('reports the way through the rules, and counts nothing', async () => {
    const limiter = await start();
    const entries = [
      { key: 'path', value: '/api/x' },
      { key: 'plan', value: 'gold' },
    ];
    const { status, json } = await explain(limiter, { domain: 'shop', entries, at: '2026-01-31T12:00:00Z' });
    expect(status).toBe(200);
    expect(json).toMatchObject({
      ...{ domain: 'shop', entries, effect: 'limited' },
      rule: { path: 'shop.path_/api/*.plan_gold' },
      steps: [
        { looked: ['path_/api/x', 'patterns'], found: 'wildcard', rule: 'shop.path_/api/*', rulesOnLevel: 4 },
        { looked: ['plan_gold'], found: 'exact', rule: 'shop.path_/api/*.plan_gold', rulesOnLevel: 1 },
      ],
      limits: [{ name: 'short' }, { algorithm: 'sliding_window' }],
    });
    expect(json.counters).toHaveLength(2);
    expect(json.text).toHaveLength(4);
    expect(
      (await limiter.stats()).get('ratelimit.service.rate_limit.shop.path_/api/*.plan_gold.short.total_hits'),
    ).toBeUndefined();
  });

  it('says which overrides apply to it', async () => {
    const limiter = await start();
    const entries = [{ key: 'remote_address', value: '10.0.0.1' }];
    const set = (body: object) =>
      httpAsk(limiter.ports.debug, '/v1/overrides', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ domain: 'shop', match: entries, reason: 'a test', ...body }),
      });
    expect((await set({ requestsPerUnit: 100, for: '2h' })).status).toBe(201);
    const { json } = await explain(limiter, { domain: 'shop', entries });
    expect(json).toMatchObject({
      effect: 'limited',
      override: { requestsPerUnit: 100, source: 'api', state: 'InForce' },
      grants: [],
    });
    expect(json.inForce).toEqual(['100 per year']);
    expect(json.text.at(-2)).toMatch(/^override: api ".*": 100 per window$/);
    expect(json.text.at(-1)).toMatch(/^limit: 100 per year, counter /);
    expect((await get(limiter, '/v1/status')).json.rules.overrides).toBe(1);
    expect((await get(limiter, '/v1/status')).json.changes['override-set']).toBe(1);
    const audit = limiter.lines.filter((line) => line.includes('An operator made a change'));
    expect(audit).toHaveLength(1);
    expect(audit[0]).toContain('what=override-set caller=anyone');
  });

  it('shows the counter that a request counts in', async () => {
    const limiter = await start();
    const { json } = await explain(limiter, {
      domain: 'shop',
      entries: [{ key: 'remote_address', value: '10.0.0.1' }],
      at: '2026-01-31T12:00:00Z',
    });
    expect(json.counters).toEqual([`shop_remote_address_10.0.0.1_${56 * 365 * 86_400}`]);
  });

  it.each([
    [{ domain: 'shop', entries: [{ key: 'pth', value: 'x' }] }, 'none', 'no rule matches'],
    [{ domain: 'shop', entries: [{ key: 'open', value: 'x' }] }, 'unlimited', 'unlimited: '],
    [
      { domain: 'nobody', entries: [{ key: 'open', value: 'x' }] },
      'none',
      'no rules for the domain "nobody"',
    ],
  ])('says of %o that its effect is %s', async (question, effect, text) => {
    const { json } = await explain(await start(), question);
    expect(json.effect).toBe(effect);
    expect(json.text.join('\n')).toContain(text);
  });

  it.each([
    [[], 'the body must be an object with domain and entries'],
    [{ domain: 'shop' }, 'entries: expected a list of at least one {"key": text, "value": text}'],
    [{ domain: 'shop', entries: [{ key: 'a' }] }, /^entries: /],
    [{ entries: [{ key: 'a', value: '' }] }, 'domain: expected text'],
    [
      { domain: 'shop', entries: [{ key: 'a', value: '' }], hits: 1 },
      'unknown field "hits": expected domain, entries and perhaps at',
    ],
    [
      { domain: 'shop', entries: [{ key: 'a', value: '' }], at: 'now' },
      'at: expected a time such as 2026-01-31T12:00:00Z, not "\\"now\\""',
    ],
  ])('rejects %o', async (question, detail) => {
    const { status, json } = await explain(await start(), question);
    expect([status, json.detail]).toEqual([
      400,
      typeof detail === 'string' ? detail : expect.stringMatching(detail),
    ]);
  });
});
