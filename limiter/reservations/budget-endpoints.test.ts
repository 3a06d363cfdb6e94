import { describe, expect, it } from 'vitest';
import { Right } from '../../process/grpc/handlers.ts';
import { Health } from '../../process/grpc/health.ts';
import { httpAsk } from '../../test/support/http-ask.ts';
import { ScriptedBudgets, budgetScope as scope } from '../../test/support/scripted-budgets.ts';
import { tooLargeRequests } from '../../test/support/too-large-requests.ts';
import { defaultRequestLimits } from '../decide/request-bounds.ts';
import { ApiListener, type HttpListenerOptions } from '../http/listener.ts';
import { ExcessResponses } from '../service/over-without-limit.ts';
import { budgetEndpoints } from './budget-endpoints.ts';
import type { Budgets, ReserveRequest } from './budgets.ts';

const max = Number.MAX_SAFE_INTEGER;

async function asked<Answer>(
  budgets: Budgets,
  ask: (port: number) => Promise<Answer>,
  more: Partial<HttpListenerOptions> = {},
): Promise<Answer> {
  const asking = {
    bounds: { ...defaultRequestLimits, maxDescriptors: 2 },
    ...{ tooLarge: tooLargeRequests(), maxBodyBytes: 10_000 },
  };
  const unasked = () => Promise.reject(new Error('not asked here'));
  const listener = new ApiListener({
    ...{ ...asking, health: new Health(), closeGraceMs: 5_000 },
    routes: budgetEndpoints({ ...asking, budgets }),
    ...{ shouldRateLimit: () => expect.fail(), decide: unasked },
    excess: new ExcessResponses({ shadowMode: false, onGlobalShadow: () => {} }),
    ...{ onJsonRequest: () => {}, onApiRequest: () => {} },
    onFault: (error) => expect.fail(String(error)),
    ...more,
  });
  const { port } = await listener.listen({ host: '127.0.0.1', port: 0 });
  try {
    return await ask(port);
  } finally {
    await listener.close();
  }
}

const about = { domain: 'llm', descriptors: [[{ team: 'a' }]] };

async function post(budgets: Budgets, path: string, body: unknown, more?: Partial<HttpListenerOptions>) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const headers = { 'content-type': 'application/json' };
  const answer = await asked(
    budgets,
    (port) => httpAsk(port, path, { method: 'POST', headers, body: text }),
    more,
  );
  return { status: answer.status, headers: answer.headers, body: JSON.parse(answer.body) };
}

const limit = {
  ...{ name: 'daily', requestsPerUnit: max, unit: 'day', multiplier: 1 },
  ...{ algorithm: 'fixed_window', burst: max },
};
const reportedScope = {
  ...{
    descriptor: 0,
    rule: 'llm.team_a',
    limit: expect.objectContaining(limit),
    shadow: false,
    quota: false,
  },
  ...{ used: 700, reserved: 600, left: 300, reset: 40, mark: 80 },
};

describe('/v1/reserve', () => {
  it('holds an amount for a time, and says how the counters stand', async () => {
    const budgets = new ScriptedBudgets();
    budgets.reserving = { headers: [{ key: 'RateLimit-Remaining', value: '300' }] };
    const { status, headers, body } = await post(budgets, '/v1/reserve', {
      ...{ ...about, amount: max, ttl: '1m30s', reservationId: 'mine-1' },
    });
    expect([status, headers['ratelimit-remaining']]).toEqual([200, '300']);
    expect(body).toEqual({
      ...{
        code: 'OK',
        reservationId: 'mine-1',
        amount: max,
        expiresAt: '1970-01-01T00:00:01.000Z',
        repeated: false,
      },
      scopes: [{ ...reportedScope, refused: false }],
      unlimited: [],
    });
    const [question] = budgets.asked as ReserveRequest[];
    expect(question).toMatchObject({
      domain: 'llm',
      amount: max,
      ttlMs: 90_000,
      id: 'mine-1',
      recalled: true,
    });
    expect(question!.descriptors[0]).toMatchObject({
      entries: [{ key: 'team', value: 'a' }],
      hitsAddend: undefined,
    });
  });

  it('names the descriptors that no limit holds', async () => {
    const budgets = new ScriptedBudgets();
    budgets.reserving = {
      unlimited: [
        { descriptor: 1, rule: undefined },
        { descriptor: 2, rule: 'llm.open' },
      ],
    };
    const { status, body } = await post(budgets, '/v1/reserve', { ...about, amount: 1 });
    expect([status, body.unlimited]).toEqual([
      200,
      [
        { descriptor: 1, rule: null },
        { descriptor: 2, rule: 'llm.open' },
      ],
    ]);
  });

  it('leaves TTL and id to the service if nothing is said', async () => {
    const budgets = new ScriptedBudgets();
    const { body } = await post(budgets, '/v1/reserve', { ...about, amount: 0 });
    expect([body.reservationId, budgets.asked[0]]).toMatchObject([
      'ours',
      { ttlMs: undefined, id: undefined, amount: 0 },
    ]);
  });

  it('is 429 with the exceeded limit, and the time to wait', async () => {
    const budgets = new ScriptedBudgets();
    const headers = [{ key: 'Retry-After', value: '40' }];
    budgets.reserving = { allowed: false, scopes: [{ ...scope, rule: undefined, rejected: true }], headers };
    const answer = await post(budgets, '/v1/reserve', { ...about, amount: 600 });
    expect([answer.status, answer.headers['retry-after'], answer.headers['content-type']]).toEqual([
      ...[429, '40', 'application/json'],
    ]);
    const hidden = { rule: null, limit: expect.objectContaining({ ...limit, name: '' }), refused: true };
    expect(answer.body).toMatchObject({
      ...{ code: 'OVER_LIMIT', reservationId: null, amount: 600, expiresAt: null },
      scopes: [{ ...reportedScope, ...hidden }],
    });
  });

  const amounts = `is a whole number from 0 to ${max}, not`;
  it.each([
    ['beyond the bound', { amount: 2 ** 53 }, 'amount', `${amounts} 9007199254740992`],
    ['negative', { amount: -1 }, 'amount', `${amounts} -1`],
    ['a fraction', { amount: 1.5 }, 'amount', `${amounts} 1.5`],
    ['text', { amount: '600' }, 'amount', `${amounts} "600"`],
    ['left out', {}, 'amount', `is missing: expected a whole number from 0 to ${max}`],
  ])('rejects an amount that is %s', async (_, more, path, detail) => {
    const { status, body } = await post(new ScriptedBudgets(), '/v1/reserve', { ...about, ...more });
    expect([status, body.errors]).toEqual([400, [{ path, detail }]]);
  });

  it('takes amounts of descriptors, beside one for the others or in its place', async () => {
    const budgets = new ScriptedBudgets();
    const own = { entries: [{ team: 'a' }], amount: 600 };
    const ask = (body: object, path = '/v1/reserve') => post(budgets, path, { domain: 'llm', ...body });
    const { body } = await ask({ descriptors: [own, { entries: [{ user: 'b' }], amount: 0 }] });
    expect(body.amount).toBeNull();
    await ask({ descriptors: [[{ user: 'b' }], own], amount: 5 });
    await ask({ descriptors: [own], reservationId: 'mine' }, '/v1/commit');
    expect(budgets.asked).toMatchObject([
      { amount: undefined, amounts: [600, 0] },
      { amount: 5, amounts: [undefined, 600] },
      { actual: undefined, amounts: [600] },
    ]);
    expect(budgets.asked.map((asked) => (asked as ReserveRequest).descriptors.length)).toEqual([2, 2, 1]);
  });

  it.each([
    [
      [{ entries: [{ team: 'a' }], amount: -1, hits: 2 }],
      [
        { path: 'descriptors[0].hits', detail: 'is not known: expected entries, amount' },
        { path: 'descriptors[0].amount', detail: `${amounts} -1` },
      ],
    ],
    [[{ amount: 1 }], [{ path: 'descriptors[0].entries', detail: expect.stringContaining('is missing') }]],
    [
      [{ entries: [{ team: 'a' }], amount: 1 }, [{ team: 'b' }]],
      [{ path: 'amount', detail: `is missing: expected a whole number from 0 to ${max}` }],
    ],
    [
      ['team'],
      [
        { path: 'amount', detail: expect.stringContaining('is missing') },
        {
          path: 'descriptors[0]',
          detail: expect.stringContaining('or an object of such "entries" and an "amount", not "team"'),
        },
      ],
    ],
  ])('rejects the descriptors %j', async (descriptors, errors) => {
    const { status, body } = await post(new ScriptedBudgets(), '/v1/reserve', { domain: 'llm', descriptors });
    expect([status, body.errors]).toEqual([400, errors]);
  });

  it('rejects an amount that appears twice in one descriptor, and one in a release', async () => {
    const text = '{"domain":"llm","descriptors":[{"entries":[{"team":"a"}],"amount":1,"amount":2}]}';
    const { body } = await post(new ScriptedBudgets(), '/v1/reserve', text);
    expect(body.detail).toContain('has a key twice');
    const release = {
      domain: 'llm',
      descriptors: [{ entries: [{ team: 'a' }], amount: 1 }],
      reservationId: 'x',
    };
    const released = await post(new ScriptedBudgets(), '/v1/release', release);
    expect([released.status, released.body.errors[0].path]).toEqual([400, 'descriptors[0]']);
  });

  it.each([30, '30', '-1s', '0s', '', 'soon', '1e9h'])('rejects the ttl %j', async (ttl) => {
    const { status, body } = await post(new ScriptedBudgets(), '/v1/reserve', { ...about, amount: 1, ttl });
    const detail = `is a duration such as "30s", "5m" or "1h", not ${JSON.stringify(ttl)}`;
    expect([status, body.errors]).toEqual([400, [{ path: 'ttl', detail }]]);
  });

  it.each(['', 'a b', 'é', 'x'.repeat(256)])('rejects the id %j', async (reservationId) => {
    const { status, body } = await post(new ScriptedBudgets(), '/v1/reserve', {
      ...about,
      amount: 1,
      reservationId,
    });
    expect([status, body.errors[0].path]).toEqual([400, 'reservationId']);
    expect(body.errors[0].detail).toContain('is 1 to 255 visible ASCII characters, not');
  });

  it.each(['w0.a', 'w1.0123abcd.ff'])('rejects the id %j, which Weir may make', async (reservationId) => {
    const { status, body } = await post(new ScriptedBudgets(), '/v1/reserve', {
      ...about,
      amount: 1,
      reservationId,
    });
    const detail = `begins with w0. or w1., which is reserved for IDs that Weir creates: ${JSON.stringify(reservationId)}`;
    expect([status, body.errors]).toEqual([400, [{ path: 'reservationId', detail }]]);
  });

  it('says when there is room again', async () => {
    const budgets = new ScriptedBudgets();
    budgets.reserving = { failure: 'full', message: 'so it is full', retryAfterSeconds: 17 };
    const { headers } = await post(budgets, '/v1/reserve', { ...about, amount: 1 });
    expect(headers['retry-after']).toBe('17');
  });

  it('names every mistake, members that it does not know among them', async () => {
    const { body } = await post(new ScriptedBudgets(), '/v1/reserve', { domain: '', hits: 1, amount: -1 });
    expect(body.errors.map(({ path }: { path: string }) => path)).toEqual([
      ...['"hits"', 'domain', 'amount', 'descriptors'],
    ]);
  });

  it('keeps to the bounds of requests', async () => {
    const { status, body } = await post(new ScriptedBudgets(), '/v1/reserve', {
      ...{ domain: 'llm', descriptors: Array(3).fill([{ team: 'a' }]), amount: 1 },
    });
    expect([status, body.detail]).toEqual([400, expect.stringContaining('REQUEST_MAX_DESCRIPTORS')]);
  });

  it.each([
    ['invalid', 400, undefined],
    ['no-domain', 404, undefined],
    ['conflict', 409, undefined],
    ['full', 429, undefined],
    ['unsupported', 501, undefined],
    ['unavailable', 503, '1'],
  ] as const)('answers %s with %d', async (failure, wanted, retryAfter) => {
    const budgets = new ScriptedBudgets();
    budgets.reserving = { failure, message: `so it is ${failure}` };
    const { status, headers, body } = await post(budgets, '/v1/reserve', { ...about, amount: 1 });
    expect([status, headers['content-type'], headers['retry-after'], body.detail]).toEqual([
      ...[wanted, 'application/problem+json', retryAfter, `so it is ${failure}`],
    ]);
  });
});

describe('/v1/commit and /v1/release', () => {
  const madeId = 'w1.0123abcd.ff';
  const question = { domain: 'llm', descriptors: [], isUnlimited: false };

  it('commit by the ID alone, with the terms of the reservation', async () => {
    const budgets = new ScriptedBudgets();
    budgets.remembered = question;
    const committed = await post(budgets, '/v1/commit', { reservationId: madeId, actualAmount: 0 });
    expect([committed.status, committed.body]).toEqual([
      200,
      { reservationId: madeId, outcome: 'settled', charged: 0, amount: 600, scopes: [reportedScope] },
    ]);
    await post(budgets, '/v1/commit', { reservationId: madeId });
    await post(budgets, '/v1/release', { reservationId: madeId });
    const settled = { ...question, id: madeId, unknown: 'report' };
    expect(budgets.asked).toEqual([0, undefined, 0].map((actual) => ({ ...settled, actual })));
  });

  it('charge an unknown ID if its descriptors are given, and are 404 otherwise', async () => {
    const budgets = new ScriptedBudgets();
    budgets.settling = { outcome: 'unknown', charged: 5, amount: 0 };
    const { status, body } = await post(budgets, '/v1/commit', {
      ...about,
      reservationId: madeId,
      actualAmount: 5,
    });
    expect([status, body.outcome, budgets.asked[0]]).toMatchObject([
      200,
      'unknown',
      { unknown: 'charge', actual: 5 },
    ]);
    const detail = `the reservation "${madeId}" does not exist, or no longer exists`;
    const advice = '; a commit with domain and descriptors is still charged';
    for (const remembered of [undefined, question]) {
      budgets.remembered = remembered;
      expect(await post(budgets, '/v1/commit', { reservationId: madeId, actualAmount: 5 })).toMatchObject({
        ...{ status: 404, body: { detail: detail + advice } },
      });
      expect(await post(budgets, '/v1/release', { reservationId: madeId })).toMatchObject({
        ...{ status: 404, body: { detail } },
      });
    }
  });

  it('need the domain of descriptors, and that of an id that the caller chose', async () => {
    const errors = async (body: object) =>
      (await post(new ScriptedBudgets(), '/v1/commit', body)).body.errors;
    const paths = async (body: object) => (await errors(body)).map(({ path }: { path: string }) => path);
    expect(await paths({ domain: 'llm' })).toEqual(['reservationId']);
    expect(await paths({ descriptors: about.descriptors, reservationId: madeId })).toEqual(['domain']);
    expect(await paths({ reservationId: madeId, actualAmount: 2 ** 53 })).toEqual(['actualAmount']);
    expect(await errors({ reservationId: 'mine' })).toEqual([
      {
        path: 'domain',
        detail: 'is missing: it is required with a reservationId that the caller chose',
      },
    ]);
  });

  it('look up an id in the domain that they name', async () => {
    const budgets = new ScriptedBudgets();
    budgets.remembered = question;
    const { status } = await post(budgets, '/v1/commit', { domain: 'llm', reservationId: 'mine' });
    expect([status, budgets.recalled, budgets.asked]).toMatchObject([
      ...[200, [['mine', 'llm']], [{ ...question, id: 'mine', unknown: 'report' }]],
    ]);
  });

  it.each(['/v1/commit', '/v1/release'])('%s asks no store about what holds nothing', async (path) => {
    const budgets = new ScriptedBudgets();
    for (const more of [{}, { domain: 'llm' }, about]) {
      const { status } = await post(budgets, path, { reservationId: 'w0.0123abcd.ff', ...more });
      expect([status, budgets.recalled]).toEqual([200, []]);
    }
    expect(budgets.asked).toMatchObject(Array(3).fill({ id: 'w0.0123abcd.ff', descriptors: [] }));
  });

  it('say what keeps the store from knowing the id', async () => {
    const budgets = new ScriptedBudgets();
    budgets.remembered = { failure: 'unavailable', message: 'the store is away' };
    const { status, body } = await post(budgets, '/v1/release', { reservationId: madeId });
    expect([status, body.detail]).toEqual([503, 'the store is away']);
  });

  it('say nothing of the reservations of other domains', async () => {
    const budgets = new ScriptedBudgets();
    budgets.remembered = question;
    const needed: number[] = [];
    const gate: HttpListenerOptions['gate'] = {
      admit: () => ({
        rejected: undefined,
        name: 'a',
        rejection: (_, rights) => void needed.push(rights),
        hasDomain: (domain) => domain !== 'llm',
      }),
    };
    const { status, body } = await post(budgets, '/v1/commit', { reservationId: madeId }, { gate });
    expect([status, body.detail]).toEqual([
      404,
      expect.stringContaining(`the reservation "${madeId}" does not exist`),
    ]);
    expect([needed, budgets.asked]).toEqual([[Right.RESERVE], []]);
  });
});

describe('/v1/budgets', () => {
  const get = async (budgets: Budgets, query: string) => {
    const { status, body } = await asked(budgets, (port) => httpAsk(port, `/v1/budgets?${query}`));
    return { status, body: JSON.parse(body) };
  };

  it('says how the budgets of a descriptor stand', async () => {
    const { status, body } = await get(new ScriptedBudgets(), 'domain=llm&entry=team=a');
    expect([status, body]).toEqual([200, { budgets: [{ ...reportedScope, open: 1, oldestSeconds: 12 }] }]);
  });

  it.each([
    ['entry=team=a', 'domain is missing: expected ?domain=<domain>'],
    ['domain=llm', 'entry is missing: expected entry=key=value, once for each entry, in their order'],
    ['domain=llm&entry=team', 'entry must be key=value, not "team"'],
    ['domain=llm&entry=team=a&all=true', 'unknown parameter "all": expected domain, entry'],
  ])('rejects ?%s', async (query, detail) => {
    expect(await get(new ScriptedBudgets(), query)).toMatchObject({ status: 400, body: { detail } });
  });

  it('answers what the service cannot', async () => {
    const budgets = new ScriptedBudgets();
    budgets.standing = { failure: 'unsupported', message: 'memcache cannot reserve' };
    expect(await get(budgets, 'domain=llm&entry=team=a')).toMatchObject({ status: 501 });
  });
});
