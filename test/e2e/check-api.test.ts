/** POST /v1/check: asked of a whole limiter, over a connection of a backend's. */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { type HttpAnswer, httpAsk } from '../support/http-ask.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
const rules: Record<string, string> = {
  'shop.yaml': `domain: shop
descriptors:
  - key: remote_address
    rate_limit: { name: per_address, unit: day, requests_per_unit: 2 }
  - key: plan
    value: gold
    rate_limits:
      - { unit: hour, requests_per_unit: 50, algorithm: sliding_window }
      - { name: daily, unit: day, requests_per_unit: 5, unit_multiplier: 2 }
  - key: open
    rate_limit: { unlimited: true }
  - key: tokens
    rate_limit: { unit: day, requests_per_unit: 4294967295 }
  - key: quiet
    shadow_mode: true
    rate_limit: { unit: day, requests_per_unit: 0 }
  - key: used
    rate_limit: { unit: day, requests_per_unit: 1000, hits_unit: tokens }
  - key: paid
    rate_limit: { unit: day, requests_per_unit: 1000, hits_unit: micro-dollars }
  - key: near
    rate_limits:
      - { unit: minute, unit_multiplier: 1000, requests_per_unit: 10, warn_at: [50] }
      - { name: daily, unit: day, requests_per_unit: 8, warn_at: [60, 75] }
`,
  'secret.yaml': 'domain: shop-secret\ndescriptors: []\n',
};

beforeAll(() => {
  mkdirSync(join(folder, 'config'));
  for (const [name, text] of Object.entries(rules)) writeFileSync(join(folder, 'config', name), text);
});

const running: InProcessLimiter[] = [];
const stopAll = () => Promise.all(running.splice(0).map((limiter) => limiter.stop()));

async function start(env: Record<string, string> = {}): Promise<InProcessLimiter> {
  const limiter = await InProcessLimiter.start({ env: { RUNTIME_ROOT: folder, ...env } });
  running.push(limiter);
  return limiter;
}

interface Sent {
  method?: string;
  headers?: Record<string, string>;
  /** Sent as it is where it is a string. */
  body?: unknown;
}

function ask(limiter: InProcessLimiter, { method = 'POST', headers = {}, body }: Sent): Promise<HttpAnswer> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return httpAsk(limiter.ports.http, '/v1/check', {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: text }),
  });
}

const about = (entry: Record<string, string>, more: object = {}) => ({
  body: { domain: 'shop', descriptors: [[entry]], ...more },
});
const problemType = 'application/problem+json';

function problem({ status, headers, body }: HttpAnswer) {
  expect(headers['content-type']).toBe(problemType);
  const { type, title, status: same, ...rest } = JSON.parse(body);
  expect([type, typeof title, same]).toEqual(['about:blank', 'string', status]);
  return { status, ...rest };
}

describe('an answer', () => {
  let limiter: InProcessLimiter;
  beforeAll(async () => {
    limiter = await start();
  });
  afterAll(stopAll);

  it('is 200 with the limit in headers and body until it is 429 with Retry-After', async () => {
    const about1 = about({ remote_address: '203.0.113.7' });
    const limit = {
      ...{ name: 'per_address', requestsPerUnit: 2, unit: 'day', multiplier: 1 },
      ...{ algorithm: 'fixed_window', burst: 2 },
    };
    const reset = expect.any(Number);
    for (const [used, left] of [
      [1, 1],
      [2, 0],
    ]) {
      const { status, headers, body } = await ask(limiter, about1);
      expect([status, headers['content-type'], headers['cache-control']]).toEqual([
        200,
        'application/json',
        'no-store',
      ]);
      expect(headers).toMatchObject({ 'ratelimit-limit': '2', 'ratelimit-remaining': `${left}` });
      expect(headers['retry-after']).toBeUndefined();
      expect(JSON.parse(body)).toEqual({
        code: 'OK',
        descriptors: [{ code: 'OK', rule: 'shop.remote_address', limit, used, left, reset }],
      });
    }
    const { status, headers, body } = await ask(limiter, about1);
    const [reported] = JSON.parse(body).descriptors;
    expect([status, headers['retry-after']]).toEqual([429, `${reported.reset}`]);
    expect(headers).toMatchObject({ 'ratelimit-remaining': '0', 'ratelimit-reset': `${reported.reset}` });
    expect(reported.reset).toBeGreaterThan(0);
    expect(JSON.parse(body)).toEqual({
      code: 'OVER_LIMIT',
      descriptors: [{ code: 'OVER_LIMIT', rule: 'shop.remote_address', limit, used: 3, left: 0, reset }],
    });
  });

  it('warns of each limit that has reached a mark', async () => {
    const near = (hits: number) => ask(limiter, about({ near: 'x' }, { hits }));
    const first = await near(4);
    expect(first.headers['x-ratelimit-warning']).toBeUndefined();
    expect(JSON.parse(first.body).descriptors[0]).not.toHaveProperty('warnings');
    const { status, headers, body } = await near(2);
    expect([status, headers['x-ratelimit-warning']]).toEqual([
      200,
      '75;policy="daily";r=2, 50;policy="1000m";r=4',
    ]);
    expect(JSON.parse(body).descriptors[0].warnings).toEqual([
      { mark: 50, policy: '1000m', left: 4 },
      { mark: 75, policy: 'daily', left: 2 },
    ]);
    const refused = await near(3);
    expect([refused.status, refused.headers['x-ratelimit-warning']]).toEqual([
      429,
      '75;policy="daily";r=2, 50;policy="1000m";r=4',
    ]);
  });

  it('warns of several hits that rules of different hits_unit count', async () => {
    const descriptors = [[{ used: 'x' }], [{ paid: 'x' }], [{ nobody: 'x' }]];
    const warningsOf = async (asked: object) => {
      const { status, body } = await ask(limiter, { body: { domain: 'shop', ...asked } });
      expect(status).toBe(200);
      return JSON.parse(body).warnings;
    };
    expect(await warningsOf({ descriptors, hits: 6 })).toEqual([
      '6 hits are counted by rules of different hits_unit: shop.used counts tokens, shop.paid counts micro-dollars; send a separate call for each',
    ]);
    expect(await warningsOf({ descriptors })).toBeUndefined();
    expect(await warningsOf({ descriptors: descriptors.slice(1), hits: 6 })).toBeUndefined();
  });

  it('has every member if nothing is limited, and says which of several limits decided', async () => {
    const descriptors = [[{ open: '' }], [{ nobody: 'x' }], [{ plan: 'gold' }], [{ quiet: 'x' }]];
    const { status, body } = await ask(limiter, { body: { domain: 'shop', descriptors, hits: 5 } });
    const none = { code: 'OK', limit: null, used: null, left: null, reset: null };
    const { descriptors: reported } = JSON.parse(body);
    expect([status, reported[0], reported[1]]).toEqual([
      200,
      { ...none, rule: 'shop.open' },
      { ...none, rule: null },
    ]);
    expect(reported[2]).toMatchObject({
      code: 'OK',
      rule: 'shop.plan_gold',
      limit: { name: 'daily', requestsPerUnit: 5, unit: 'day', multiplier: 2 },
      ...{ used: 5, left: 0 },
    });
    expect(reported[3]).toMatchObject({ code: 'OK', rule: 'shop.quiet', used: 5, left: 0 });
  });

  it('counts more hits than 32 bits have room for', async () => {
    const { status, body } = await ask(limiter, about({ tokens: 'a' }, { hits: 5_000_000_000 }));
    expect(status).toBe(429);
    expect(JSON.parse(body).descriptors).toMatchObject([{ used: 5_000_000_000, left: 0 }]);
  });

  it('looks without counting with hits 0', async () => {
    const looking = about({ remote_address: '203.0.113.8' }, { hits: 0 });
    for (let n = 0; n < 4; n++) await ask(limiter, looking);
    const { status, body } = await ask(limiter, looking);
    expect([status, JSON.parse(body).descriptors[0]]).toMatchObject([200, { used: 0, left: 2 }]);
  });

  it('is counted as any other: with /json, in statistics and among the requests over limit', async () => {
    const address = '203.0.113.9';
    await limiter.ask('shop', [{ remote_address: address }]);
    await ask(limiter, about({ remote_address: address }));
    const headers = { 'x-request-id': 'id-1' };
    for (let n = 0; n < 3; n++) await ask(limiter, { ...about({ remote_address: address }), headers });
    const stats = await limiter.stats();
    const stat = (name: string) => stats.get(`ratelimit.service.rate_limit.shop.remote_address.${name}`);
    expect(stat('over_limit')).toBeGreaterThanOrEqual(3);
    expect(stats.get('ratelimit.http.v1_requests')).toBeGreaterThan(3);
    expect(stats.get('ratelimit.http.json_requests')).toBe(1);
    const { body } = await httpAsk(limiter.ports.debug, '/v1/refusals?requestId=id-1');
    const { refusals } = JSON.parse(body);
    expect(refusals[0]).toMatchObject({
      rule: 'shop.remote_address',
      limitName: 'per_address',
      requestId: 'id-1',
    });
    expect(refusals.reduce((sum: number, { count }: { count: number }) => sum + count, 0)).toBe(3);
  });

  it('takes connections that continue, also after mistakes', async () => {
    const answers = await Promise.all([
      ask(limiter, { body: '{' }),
      ask(limiter, { method: 'PUT', body: {} }),
      ask(limiter, about({ open: '' })),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([400, 405, 200]);
  });
});

describe('a mistake', () => {
  let limiter: InProcessLimiter;
  beforeAll(async () => {
    limiter = await start({
      REQUEST_MAX_DESCRIPTORS: '3',
      HTTP_MAX_BODY_BYTES: '2000',
      REQUEST_MAX_BYTES: '1024',
      REQUEST_MAX_TEXT_BYTES: '500',
    });
  });
  afterAll(stopAll);

  const entryForm = 'is an object with exactly one key, such as {"remote_address": "203.0.113.7"}, not';
  const mistakes: Record<string, { body: unknown; errors: [path: string, detail: string][] }> = {
    'no object': {
      body: [],
      errors: [['', 'is an object with domain, descriptors, hits, not a list']],
    },
    'nothing in it': {
      body: {},
      errors: [
        ['domain', 'is missing: expected a string'],
        [
          'descriptors',
          'is missing: expected a list of descriptors, each a list of entries, such as [{"remote_address": "203.0.113.7"}]',
        ],
      ],
    },
    'the form of /json': {
      body: { domain: 'shop', descriptors: [{ entries: [{ key: 'a', value: 'b' }] }], hitsAddend: 1 },
      errors: [
        ['"hitsAddend"', 'is not known: expected domain, descriptors, hits'],
        [
          'descriptors[0]',
          'is a list of entries, such as [{"remote_address": "203.0.113.7"}], not an object',
        ],
      ],
    },
    'entries that are none': {
      body: {
        domain: 'shop',
        descriptors: [[{ key: 'a', value: 'b' }, {}, 'x', null, [], { '': 'x' }, { a: 5 }]],
      },
      errors: [
        ['descriptors[0][0]', `${entryForm} with 2: "key", "value"`],
        ['descriptors[0][1]', `${entryForm} with none`],
        ['descriptors[0][2]', `${entryForm} "x"`],
        ['descriptors[0][3]', `${entryForm} null`],
        ['descriptors[0][4]', `${entryForm} a list`],
        ['descriptors[0][5]', 'has an empty key'],
        ['descriptors[0][6].a', 'is a string, not 5'],
      ],
    },
    'texts and numbers that are none': {
      body: { domain: '', descriptors: [[]], hits: -1 },
      errors: [
        ['domain', 'is empty'],
        ['hits', 'is a whole number from 0 to 9007199254740991, not -1'],
        ['descriptors[0]', 'is a list of entries, such as [{"remote_address": "203.0.113.7"}], not empty'],
      ],
    },
    'a key twice': {
      body: '{"domain":"shop","descriptors":[[{"path":"/a:b\\":","path":"/b"}]]}',
      errors: [['', 'has a key twice in one object: an entry has one key']],
    },
    'half a character': {
      body: '{"domain":"shop","descriptors":[[{"a b":"\\ud800"}]],"hits":1.5}',
      errors: [
        ['hits', 'is a whole number from 0 to 9007199254740991, not 1.5'],
        ['descriptors[0][0]."a b"', 'has half of a surrogate pair, which is not a character'],
      ],
    },
  };
  for (const [name, { body, errors }] of Object.entries(mistakes)) {
    it(`is named: ${name}`, async () => {
      const { detail, ...rest } = problem(await ask(limiter, { body }));
      expect(rest).toEqual({ status: 400, errors: errors.map(([path, of]) => ({ path, detail: of })) });
      const [path, first] = errors[0]!;
      const more = errors.length === 1 ? '' : `, and ${errors.length - 1} more (errors)`;
      expect(detail).toBe(`${path === '' ? 'the body' : path} ${first}${more}`);
    });
  }

  it('is reported 50 times at the most', async () => {
    const { detail, errors } = problem(
      await ask(limiter, { body: { domain: 'shop', descriptors: Array.from({ length: 90 }, () => 1) } }),
    );
    expect([errors.length, detail]).toEqual([50, expect.stringMatching(/, and 89 more \(errors\)$/)]);
  });

  it('of type, method, path or size has its own status', async () => {
    const good = about({ remote_address: '203.0.113.1' });
    const asText = { ...good, headers: { 'content-type': 'text/plain' } };
    const filled = (bytes: number) => ({ body: JSON.stringify(good.body).padEnd(bytes) });
    expect(problem(await ask(limiter, asText))).toMatchObject({
      status: 415,
      detail: 'the body must be application/json (Content-Type), not "text/plain"',
    });
    const got = await ask(limiter, { method: 'GET' });
    expect([got.headers.allow, problem(got)]).toMatchObject([
      'POST',
      { status: 405, detail: '/v1/check takes POST, not "GET"' },
    ]);
    expect(problem(await ask(limiter, { body: '{"domain"' }))).toMatchObject({ status: 400 });
    const many = { body: { domain: 'shop', descriptors: Array(4).fill([{ open: '' }]) } };
    for (const [beyond, reason, descriptors] of [
      [filled(2001), 'the body is longer than 2000 bytes (HTTP_MAX_BODY_BYTES)', 0],
      [filled(1025), 'a request may have 1024 bytes (REQUEST_MAX_BYTES), this one has 1025', 0],
      [many, 'a request may have 3 descriptors (REQUEST_MAX_DESCRIPTORS), this one has 4', 3],
    ] as const) {
      const { status, headers, body } = await ask(limiter, beyond);
      expect([status, headers['retry-after'], headers['weir-error']]).toEqual([429, '1', reason]);
      const over = { code: 'OVER_LIMIT', rule: null, limit: null, used: null, left: null, reset: null };
      expect(JSON.parse(body)).toEqual({ code: 'OVER_LIMIT', descriptors: Array(descriptors).fill(over) });
    }
    const other = await httpAsk(limiter.ports.http, '/v1/chek');
    expect(problem(other)).toMatchObject({ status: 404, detail: expect.stringContaining('/v1/check') });
    const stats = await limiter.stats();
    const tooLarge = 'ratelimit.service.call.should_rate_limit.too_large.__bound=';
    expect(
      ['HTTP_MAX_BODY_BYTES', 'REQUEST_MAX_BYTES', 'REQUEST_MAX_DESCRIPTORS'].map((one) =>
        stats.get(tooLarge + one),
      ),
    ).toEqual([1, 1, 1]);
  });

  it('in the domain is a 404 that says which was intended', async () => {
    const asked = (domain: string) => ask(limiter, { body: { domain, descriptors: [[{ a: 'b' }]] } });
    expect(problem(await asked('shpo'))).toEqual({
      status: 404,
      detail: 'there are no rules for the domain "shpo"; did you mean "shop"?',
    });
    expect(problem(await asked('weather'))).toEqual({
      status: 404,
      detail: 'there are no rules for the domain "weather"',
    });
  });
});

describe('the caller', () => {
  const secret = 'c2VjcmV0LW9mLWEtdGVzdC10aGF0LWlzLW5vdC1yYW5k';
  const hash = createHash('sha256').update(secret).digest('hex');
  const bearer = (name: string) => ({ authorization: `Bearer ${name}.${secret}` });
  let limiter: InProcessLimiter;
  beforeAll(async () => {
    const file = join(folder, 'callers.yaml');
    writeFileSync(
      file,
      `callers:
  - { name: shop, token_sha256: ${hash}, domains: [shop] }
  - { name: ops, token_sha256: ${hash}, domains: ['*'], rights: [read] }
  - { name: slow, token_sha256: ${hash}, domains: ['*'], requests_per_second: 1 }
`,
    );
    limiter = await start({ CALLERS_FILE: file });
  });
  afterAll(stopAll);

  const bodies: Record<string, Sent> = {
    'a good question': about({ open: '' }),
    'a body with mistakes': { body: { domain: 'shop' } },
    'no JSON': { body: '{' },
    'another type': { body: 'x', headers: { 'content-type': 'text/plain' } },
    'another method': { method: 'GET' },
    'a domain that there is not': { body: { domain: 'nobody', descriptors: [[{ a: '' }]] } },
  };
  for (const [name, sent] of Object.entries(bodies)) {
    it(`is required first, before ${name}`, async () => {
      const with_ = (headers: object) => ask(limiter, { ...sent, headers: { ...sent.headers, ...headers } });
      const none = await with_({});
      expect(none.headers['www-authenticate']).toContain('Bearer');
      expect(problem(none)).toEqual({
        status: 401,
        detail: 'the request has neither a token nor a client certificate of a caller',
      });
      expect(problem(await with_(bearer('ops')))).toEqual({
        status: 403,
        detail: 'caller ops does not have the right ask',
      });
    });
  }

  it('learns nothing of domains of others', async () => {
    const asked = (domain: unknown, more = {}) =>
      ask(limiter, { body: { domain, descriptors: [[{ open: '' }]], ...more }, headers: bearer('shop') });
    expect((await asked('shop')).status).toBe(200);
    for (const domain of ['shop-secret', 'nobody', 'shpo', 'shop-secre']) {
      expect(problem(await asked(domain, { hits: 'x' }))).toEqual({
        status: 403,
        detail: `caller shop may not use the domain "${domain}"`,
      });
    }
  });

  it('is shown 503 and not 429 when it asks more often than it may', async () => {
    const answers = [];
    for (let n = 0; n < 6; n++)
      answers.push(await ask(limiter, { ...about({ open: '' }), headers: bearer('slow') }));
    const last = answers.at(-1)!;
    expect([last.headers['retry-after'], problem(last)]).toMatchObject([
      '1',
      { status: 503, detail: expect.stringContaining('requests_per_second') },
    ]);
  });
});

describe('without rules', () => {
  afterAll(stopAll);

  it('is 503 until they come', async () => {
    // Nothing listens there.
    const limiter = await start({
      CONFIG_TYPE: 'GRPC_XDS_SOTW',
      CONFIG_GRPC_XDS_SERVER_URL: '127.0.0.1:1',
      FORCE_START_WITHOUT_INITIAL_CONFIG: 'true',
    });
    const answer = await ask(limiter, about({ remote_address: '203.0.113.7' }));
    expect([answer.headers['retry-after'], problem(answer)]).toMatchObject([
      '1',
      { status: 503, detail: 'no rate limit configuration loaded' },
    ]);
  });
});

describeWithServer('without its store', redisProgram, (path) => {
  afterEach(stopAll);

  const none = { limit: null, used: null, left: null, reset: null };
  const full = { limit: { requestsPerUnit: 2 }, used: null, left: 0 };
  it.each([
    ['error', 503, undefined],
    ['allow', 200, { code: 'OK', rule: 'shop.remote_address', ...none }],
    ['deny', 429, { code: 'OVER_LIMIT', rule: 'shop.remote_address', ...full }],
  ])('answers by STORE_FAILURE_MODE=%s', async (mode, status, reported) => {
    const redis = await startRedis({ path });
    onTestFinished(() => redis.stop());
    const store = { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redis.port}` };
    const limiter = await start({ ...store, STORE_FAILURE_MODE: mode });
    const asked = about({ remote_address: '203.0.113.7' });
    expect((await ask(limiter, asked)).status).toBe(200);
    await redis.kill('SIGKILL');
    const answer = await ask(limiter, asked);
    expect(answer.status).toBe(status);
    if (reported === undefined) expect(problem(answer)).toMatchObject({ status });
    else expect(JSON.parse(answer.body).descriptors).toMatchObject([reported]);
    expect(answer.headers['retry-after'] === undefined).toBe(status === 200);
  });
});
