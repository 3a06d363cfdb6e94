import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Descriptors, Limiter, LimiterEvent, LimiterOptions, RuleFile } from './api.ts';
import { createLimiter, LimiterError } from './index.ts';
import { librarySettings } from './library-settings.ts';

const minutes = (requests: number) => ({ unit: 'minute', requests_per_unit: requests });
const shop: RuleFile = {
  domain: 'shop',
  descriptors: [
    { key: 'account', rate_limit: minutes(2) },
    { key: 'address', rate_limit: minutes(1) },
    { key: 'free', rate_limit: { unlimited: true } },
    { key: 'tried', shadow_mode: true, rate_limit: minutes(1) },
    {
      key: 'tokens',
      rate_limits: [
        { ...minutes(10), algorithm: 'token_bucket' },
        { window: '1h', requests_per_unit: 50 },
      ],
    },
  ],
};

async function open(options: Partial<LimiterOptions> = {}): Promise<Limiter & { events: LimiterEvent[] }> {
  const events: LimiterEvent[] = [];
  const limiter = await createLimiter({ rules: shop, onEvent: (event) => events.push(event), ...options });
  onTestFinished(() => limiter.close());
  return Object.assign(limiter, { events });
}

const of = (events: readonly LimiterEvent[], type: LimiterEvent['type']) =>
  events.filter((one) => one.type === type);

describe('check', () => {
  it('counts, and reports over limit with a value', async () => {
    const limiter = await open();
    const first = await limiter.check('shop', { account: 'ann' });
    expect(first).toMatchObject({
      allowed: true,
      reason: undefined,
      rule: 'shop.account',
      limit: 2,
      remaining: 1,
    });
    expect(first.headers).toMatchObject({ 'RateLimit-Limit': '2', 'RateLimit-Remaining': '1' });
    await limiter.check('shop', { account: 'ann' });
    const refused = await limiter.check('shop', { account: 'ann' });
    expect(refused).toMatchObject({ allowed: false, reason: 'limit', remaining: 0 });
    expect(refused.retryAfterMs).toBe(refused.resetMs);
    expect(refused.headers['Retry-After']).toBe(String(refused.retryAfterMs! / 1000));
    expect(await limiter.check('shop', { account: 'bob' })).toMatchObject({ allowed: true, remaining: 1 });
  });

  it('takes pairs, several descriptors and hits', async () => {
    const limiter = await open();
    await limiter.check('shop', [['account', 'ann']], { hits: 2 });
    const decision = await limiter.check('shop', [
      { account: 'ann' },
      { tokens: '1' },
      [['free', '1']],
      { none: 'x' },
    ]);
    expect(decision).toMatchObject({ allowed: false, reason: 'limit', rule: 'shop.account' });
    expect(decision.perDescriptor.map(({ allowed, reason, rule }) => [allowed, reason, rule])).toEqual([
      [false, 'limit', 'shop.account'],
      [true, undefined, 'shop.tokens'],
      [true, 'unlimited', 'shop.free'],
      [true, 'no-rule', undefined],
    ]);
  });

  it('says why it lets pass what no limit holds', async () => {
    const limiter = await open();
    const check = (descriptor: Descriptors) => limiter.check('shop', descriptor);
    expect(await check({ free: 'x' })).toMatchObject({
      allowed: true,
      reason: 'unlimited',
      limit: undefined,
    });
    expect(await check({ other: 'x' })).toMatchObject({ allowed: true, reason: 'no-rule', rule: undefined });
    await check({ tried: 'x' });
    expect(await check({ tried: 'x' })).toMatchObject({
      allowed: true,
      reason: 'shadow',
      rule: 'shop.tried',
    });
    expect(of(limiter.events, 'no-domain')).toEqual([]);
  });

  it('reports a domain without rules once', async () => {
    const limiter = await open();
    for (const _ of [1, 2])
      expect(await limiter.check('shpo', { a: 'b' })).toMatchObject({ reason: 'no-rule' });
    expect(of(limiter.events, 'no-domain')).toEqual([{ type: 'no-domain', domain: 'shpo' }]);
  });

  it('counts a value that is no text by its JSON, and rejects an invalid descriptor', async () => {
    const limiter = await open();
    for (const value of [null, 1n, true, ['a', 'b'], '\ud800']) {
      for (const _ of [1, 2]) await limiter.check('shop', { account: value });
      expect(await limiter.check('shop', { account: value })).toMatchObject({ allowed: false });
    }
    const same = [undefined, 'null', [[null]], 1, '1', [1], ['["a","b"]'], [[['a', 'b']]]];
    for (const account of same)
      expect(await limiter.peek('shop', { account })).toMatchObject({ allowed: false });
    const circle: unknown[] = [];
    circle.push(circle);
    const holed: unknown[] = [{ account: 'x' }];
    holed[2] = { account: 'y' };
    const wrong: unknown[] = [
      holed,
      [],
      {},
      'account',
      null,
      [['', 'x']],
      [['a', 'x'], null],
      [['account', 'x', 'y']],
      { account: circle },
    ];
    for (const descriptors of wrong)
      await expect(limiter.check('shop', descriptors as Descriptors)).rejects.toThrow(LimiterError);
    const domain: unknown = 7;
    await expect(limiter.check(domain as string, { account: 'x' })).rejects.toThrow('domain is text');
    await expect(limiter.check('shop', { account: 'x' }, { hits: -1 })).rejects.toThrow(
      'hits is a whole number',
    );
  });

  it('rejects what no limiter accepts, in the form in which a client may send it', async () => {
    const limiter = await open();
    const account = 'x'.repeat(300 * 1024);
    expect(await limiter.check('shop', { account })).toMatchObject({ allowed: false, reason: 'too-large' });
  });

  it('rejects with the reason of a signal', async () => {
    const limiter = await open();
    const signal = AbortSignal.abort(new Error('gone'));
    await expect(limiter.check('shop', { account: 'ann' }, { signal })).rejects.toThrow('gone');
    expect(await limiter.peek('shop', { account: 'ann' })).toMatchObject({ remaining: 2 });
    const controller: object = new AbortController();
    const wrong = { signal: controller as AbortSignal, amount: 1 };
    await expect(limiter.check('shop', { account: 'ann' }, { signal: wrong.signal })).rejects.toMatchObject({
      ...{ code: 'invalid', message: 'signal is an AbortSignal, not object' },
    });
    await expect(limiter.reserve('shop', { account: 'ann' }, wrong)).rejects.toMatchObject({
      code: 'invalid',
    });
  });
});

describe('an answer over limit says how long to wait', () => {
  it('only if that helps', async () => {
    const limiter = await open();
    for (const [descriptors, hits] of [
      [{ account: 'a' }, 10],
      [{ tokens: 'a' }, 20],
    ] as const)
      for (const ask of [limiter.peek, limiter.check]) {
        const refused = await ask.call(limiter, 'shop', descriptors, { hits });
        expect(refused).toMatchObject({ allowed: false, retryAfterMs: undefined });
        expect(refused.headers).not.toHaveProperty('Retry-After');
      }
    const reserved = await limiter.reserve('shop', { tokens: 'a' }, { amount: 100 });
    expect(reserved).toMatchObject({ allowed: false, reason: 'limit', retryAfterMs: undefined });
    const held = await limiter.reserve('shop', { tokens: 'a' }, { amount: 8 });
    const later = await limiter.reserve('shop', { tokens: 'a' }, { amount: 8 });
    expect([held.retryAfterMs, later.allowed, later.retryAfterMs! > 0]).toEqual([undefined, false, true]);
  });

  it('the same for reads and for hits', async () => {
    const rules: RuleFile = {
      domain: 'shop',
      descriptors: [
        { key: 'two', rate_limits: [minutes(10), { window: '1d', requests_per_unit: 11 }] },
        { key: 'bucket', rate_limit: { unit: 'day', requests_per_unit: 10, algorithm: 'token_bucket' } },
        { key: 'quota', quota_mode: true, rate_limit: minutes(10) },
      ],
    };
    const limiter = await open({ rules });
    for (const key of ['two', 'bucket', 'quota'])
      for (const [before, hits] of [
        [9, 5],
        [1, 1],
      ] as const) {
        await limiter.check('shop', { [key]: 'x' }, { hits: before });
        const foreseen = await limiter.peek('shop', { [key]: 'x' }, { hits });
        const { allowed, reason, limit, retryAfterMs, ...counted } = await limiter.check(
          'shop',
          { [key]: 'x' },
          { hits },
        );
        expect(foreseen).toMatchObject({ allowed, reason, limit });
        expect(Math.abs((foreseen.retryAfterMs ?? 0) - (retryAfterMs ?? 0))).toBeLessThanOrEqual(1000);
        expect(Math.abs(foreseen.resetMs! - counted.resetMs!)).toBeLessThanOrEqual(1000);
      }
  });
});

describe('peek, refund and reset', () => {
  it('look ahead, and count nothing', async () => {
    const limiter = await open();
    await limiter.check('shop', { account: 'ann' });
    expect(await limiter.peek('shop', { account: 'ann' })).toMatchObject({ allowed: true, remaining: 1 });
    const two = await limiter.peek('shop', { account: 'ann' }, { hits: 2 });
    expect(two).toMatchObject({ allowed: false, reason: 'limit', remaining: 1 });
    expect(two.headers).toHaveProperty('Retry-After');
    expect(await limiter.check('shop', { account: 'ann' })).toMatchObject({ allowed: true, remaining: 0 });
  });

  it('leave what they foresee to no other decision', async () => {
    const limiter = await open();
    await limiter.check('shop', { account: 'ann' }, { hits: 2 });
    expect(await limiter.peek('shop', { account: 'ann' })).toMatchObject({ allowed: false, reason: 'limit' });
    const others = [limiter.refund('shop', { account: 'ann' }), limiter.check('shop', { account: 'ann' })];
    for (const other of others) expect(await other).toMatchObject({ allowed: true, reason: undefined });
  });

  it('give hits back', async () => {
    const limiter = await open();
    await limiter.check('shop', { account: 'ann' }, { hits: 2 });
    expect(await limiter.refund('shop', { account: 'ann' })).toMatchObject({ remaining: 1 });
    expect(await limiter.check('shop', { account: 'ann' })).toMatchObject({ allowed: true });
  });

  it('remove the counters of all limits of a rule', async () => {
    const limiter = await open();
    await limiter.check('shop', { tokens: 'a' }, { hits: 10 });
    await limiter.check('shop', { tokens: 'b' }, { hits: 10 });
    expect(await limiter.reset('shop', { tokens: 'a' })).toBe(2);
    expect(await limiter.peek('shop', { tokens: 'a' })).toMatchObject({ allowed: true, remaining: 10 });
    expect(await limiter.peek('shop', { tokens: 'b' })).toMatchObject({ allowed: false });
    expect(await limiter.reset('shop', { none: 'a' })).toBe(0);
  });
});

describe('reserve', () => {
  it('holds an amount, and charges what was used', async () => {
    const limiter = await open();
    const held = await limiter.reserve('shop', { tokens: 'a' }, { amount: 8 });
    expect(held).toMatchObject({ allowed: true, amount: 8, reason: undefined });
    expect(await limiter.reserve('shop', { tokens: 'a' }, { amount: 8 })).toMatchObject({
      allowed: false,
      reason: 'limit',
    });
    expect(await held.commit(3)).toBe(3);
    expect(await limiter.peek('shop', { tokens: 'a' })).toMatchObject({ remaining: 7 });
    const other = await limiter.reserve('shop', { tokens: 'a' }, { amount: 7 });
    await other.release();
    expect(await limiter.peek('shop', { tokens: 'a' })).toMatchObject({ remaining: 7 });
  });

  it('takes amounts of descriptors, all or none, and one cost for each', async () => {
    const limiter = await open({
      rules: {
        domain: 'llm',
        descriptors: [
          { key: 'user', rate_limit: { ...minutes(1_000), hits_unit: 'tokens' } },
          { key: 'team', rate_limit: { ...minutes(9_000), hits_unit: 'micro-dollars' } },
        ],
      },
    });
    const ask = (tokens: number, money: number) =>
      limiter.reserve('llm', [
        { entries: { user: 'ann' }, amount: tokens },
        { entries: [['team', 'a']], amount: money },
      ]);
    const left = async () => {
      const peeks = [{ user: 'ann' }, { team: 'a' }].map((one) => limiter.peek('llm', one));
      return (await Promise.all(peeks)).map(({ remaining }) => remaining);
    };
    const held = await ask(600, 5_000);
    expect([held.allowed, await left()]).toEqual([true, [400, 4_000]]);
    expect([(await ask(100, 4_001)).allowed, await left()]).toEqual([false, [400, 4_000]]);
    await expect(held.commit([100])).rejects.toThrow(
      'the reservation has 2 descriptors, so commit takes as many amounts, not 1',
    );
    await expect(held.commit(5)).rejects.toThrow('llm.user counts tokens, llm.team counts micro-dollars');
    expect(await held.commit([100, 4_500])).toBe(100);
    expect(await left()).toEqual([900, 4_500]);
    const both = [{ user: 'ann' }, { team: 'a' }];
    await expect(limiter.reserve('llm', both, { amount: 5 })).rejects.toThrow('give each descriptor');
    await expect(
      limiter.reserve('llm', [{ entries: { user: 'a' }, amount: 1 }, { team: 'a' }]),
    ).rejects.toThrow('amount is a whole number');
    await expect(limiter.reserve('llm', { entries: { user: 'a' }, amount: -1 })).rejects.toThrow('not -1');
    // Keys of these names are keys.
    expect(await limiter.reserve('llm', { entries: 'x', amount: 1 }, { amount: 1 })).toMatchObject({
      reason: 'no-rule',
    });
  });

  it('holds nothing if nothing is limited', async () => {
    const limiter = await open();
    expect(await limiter.reserve('shop', { free: 'a' }, { amount: 8 })).toMatchObject({
      allowed: true,
      reason: 'unlimited',
    });
    const none = await limiter.reserve('shpo', { free: 'a' }, { amount: 8 });
    expect(none).toMatchObject({ allowed: true, reason: 'no-rule', id: undefined });
    expect(await none.commit()).toBe(0);
    expect(await limiter.reserve('shop', { none: 'a' }, { amount: 8 })).toMatchObject({ reason: 'no-rule' });
  });

  it('lets pass in shadow mode, and says so', async () => {
    const limiter = await open();
    const amounts = [1, 8];
    const reasons = [];
    for (const amount of amounts)
      reasons.push((await limiter.reserve('shop', { tried: 'a' }, { amount })).reason);
    expect(reasons).toEqual([undefined, 'shadow']);
  });

  it('rejects invalid amounts, times and IDs, and holds nothing', async () => {
    const limiter = await open();
    const wrong = [
      ...[{ amount: Number.NaN }, { amount: 1.5 }, { amount: 1, ttlMs: 1 }, { amount: 1, ttlMs: Number.NaN }],
      ...['', 'w0.a', 'w1.a', 'a b', 'ä', 'x'.repeat(256)].map((id) => ({ amount: 1, id })),
    ];
    for (const options of wrong)
      await expect(limiter.reserve('shop', { tokens: 'a' }, options)).rejects.toMatchObject({
        code: 'invalid',
      });
    expect(await limiter.peek('shop', { tokens: 'a' })).toMatchObject({ remaining: 10 });
    const held = await limiter.reserve('shop', { tokens: 'a' }, { amount: 8 });
    const nothing: unknown = null;
    for (const actual of [Number.NaN, -1, 1.5, 2 ** 53, nothing as number])
      await expect(held.commit(actual)).rejects.toMatchObject({ code: 'invalid' });
    expect(await limiter.peek('shop', { tokens: 'a' })).toMatchObject({ remaining: 2 });
    expect(await held.commit(3)).toBe(3);
  });

  it('commits by the rules of the reservation, if they have changed', async () => {
    const limiter = await open();
    const held = await limiter.reserve('shop', { tokens: 'a' }, { amount: 8 });
    await limiter.reload({ domain: 'other' });
    expect(await held.commit(3)).toBe(3);
    await limiter.reload(shop);
    expect(await limiter.peek('shop', { tokens: 'a' })).toMatchObject({ remaining: 7 });
    await limiter.close();
    await expect(held.commit()).rejects.toMatchObject({ code: 'closed' });
  });
});

describe('rules', () => {
  const text = (requests: number) =>
    `domain: shop\ndescriptors:\n  - key: account\n    rate_limit: { unit: minute, requests_per_unit: ${requests} }\n`;

  it('come from a file, a folder, a text or objects', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'weir-test-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    writeFileSync(join(folder, 'shop.yaml'), text(7));
    for (const rules of [folder, join(folder, 'shop.yaml'), text(7), [shop, { domain: 'other' }]]) {
      const limiter = await open({ rules });
      expect(await limiter.check('shop', { account: 'a' })).toMatchObject({ allowed: true });
    }
    await expect(open({ rules: join(folder, 'none.yaml') })).rejects.toThrow(
      'none.yaml: no such file or directory',
    );
    await expect(open({ rules: text(7).replace('minute', 'x') })).rejects.toThrow(/^rules:\d+:\d+: /);
  });

  it('are read again; bad ones change nothing, and are reported', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'weir-test-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const path = join(folder, 'shop.yaml');
    writeFileSync(path, text(3));
    const limiter = await open({ rules: path });
    await limiter.check('shop', { account: 'a' });
    writeFileSync(path, text(0).replace('minute', 'fortnight'));
    expect(await limiter.reload()).toBe(false);
    expect(of(limiter.events, 'rules-rejected')).toEqual([
      {
        type: 'rules-rejected',
        errors: [expect.stringContaining("shop.yaml:4:25: invalid rate limit unit 'fortnight'")],
      },
    ]);
    expect(await limiter.peek('shop', { account: 'a' })).toMatchObject({ limit: 3, remaining: 2 });
    writeFileSync(path, text(5));
    expect(await limiter.reload()).toBe(true);
    expect(await limiter.peek('shop', { account: 'a' })).toMatchObject({ limit: 5, remaining: 4 });
    expect(await limiter.reload(shop)).toBe(true);
    expect(await limiter.peek('shop', { account: 'a' })).toMatchObject({ limit: 2, remaining: 1 });
    rmSync(path);
    const none: unknown[] = [folder, [], [shop, 1n], { domain: 'shop', descriptors: [{ key: 1n }] }, null];
    for (const rules of none) {
      expect(await limiter.reload(rules as RuleFile)).toBe(false);
      await expect(open({ rules: rules as RuleFile })).rejects.toMatchObject({ code: 'invalid' });
    }
    expect(of(limiter.events, 'rules-rejected')).toHaveLength(1 + none.length);
    expect(await limiter.peek('shop', { account: 'a' })).toMatchObject({ limit: 2, remaining: 1 });
  });
});

it('reports rules that limit nothing', async () => {
  const limiter = await open({ rules: shop });
  for (const rules of [{ domain: 'shop', descriptors: [] }, 'domain: shop\ndescriptors:\n'])
    expect(await limiter.reload(rules)).toBe(true);
  expect(of(limiter.events, 'rules-loaded')).toMatchObject([
    { warnings: [] },
    { warnings: ["rules: 'shop' has no descriptors: nothing is limited"] },
    { warnings: ["rules: 'shop' has no descriptors: nothing is limited"] },
  ]);
});

describe('options', () => {
  it('are none but those that are known', async () => {
    const limiter = await open();
    const misspelled: object = { hit: 5 };
    const asks = [
      () => limiter.check('shop', { account: 'ann' }, misspelled),
      () => limiter.peek('shop', { account: 'ann' }, misspelled),
      () => limiter.refund('shop', { account: 'ann' }, misspelled),
      () => limiter.reserve('shop', { account: 'ann' }, misspelled),
      () => createLimiter({ rules: shop, ...misspelled }),
      () => createLimiter({ rules: shop, store: { redis: 'localhost:1', ...misspelled } }),
    ];
    for (const ask of asks) await expect(ask()).rejects.toThrow(/ has no option 'hit'; it has \w+/);
    // @ts-expect-error no options
    await expect(limiter.check('shop', { account: 'ann' }, 5)).rejects.toThrow(
      'check takes an object of options, not 5',
    );
    expect(await limiter.peek('shop', { account: 'ann' })).toMatchObject({ remaining: 2 });
  });

  it('are checked', async () => {
    await expect(open({ settings: { GRPC_PORT: '1' } })).rejects.toThrow(
      'settings.GRPC_PORT is not a setting',
    );
    await expect(open({ settings: { COUNTER_KEYS: 'x' } })).rejects.toThrow('COUNTER_KEYS');
    await expect(open({ onError: 'no' as 'deny' })).rejects.toThrow(
      'onError is allow, deny or throw, not no',
    );
    await expect(open({ store: { redis: 'http://x' } })).rejects.toMatchObject({ code: 'invalid' });
    for (const timeoutMs of [0, Number.NaN, Number.POSITIVE_INFINITY])
      await expect(open({ store: { redis: 'x', timeoutMs } })).rejects.toThrow('store.timeoutMs is from 1');
    const of = (value: unknown) => value as undefined;
    await expect(open({ store: { redis: 'x', type: 'Cluster' as 'cluster' } })).rejects.toThrow(
      'store.type is single, sentinel or cluster, not Cluster',
    );
    await expect(createLimiter({ rules: shop, store: of(null) })).rejects.toThrow('store takes an object');
    await expect(open({ settings: of(null) })).rejects.toThrow('settings is an object, not null');
    await expect(open({ onEvent: of('log') })).rejects.toThrow('onEvent is a function, not string');
    await expect(open({ rules: ' ' })).rejects.toThrow('rules: the text is empty');
    await expect(
      open({ rules: of([{ toJSON: () => undefined }]) as unknown as RuleFile }),
    ).rejects.toMatchObject({ code: 'invalid' });
    const none: unknown = undefined;
    await expect(open({ rules: none as RuleFile })).rejects.toThrow('rules: expected a path');
    const client = { status: 'ready', callBuffer: async () => null };
    for (const [redis, message] of [
      [undefined, 'store.redis is an address, or a client'],
      [{ ...client, isCluster: true }, 'store.redis is a client of a cluster'],
      [{ ...client, options: { keyPrefix: 'app:' } }, 'store.redis has a keyPrefix'],
    ] as const)
      await expect(open({ store: { redis: redis as unknown as string } })).rejects.toThrow(message);
  });

  it('have no effect on who listens', async () => {
    const fail = () => {
      throw new Error('listener');
    };
    // A rejection that nobody handles would fail the run.
    for (const onEvent of [fail, async () => fail()]) {
      const limiter = await open({ onEvent });
      expect(await limiter.check('shpo', { account: 'a' })).toMatchObject({ allowed: true });
    }
  });

  it('say what happens without a store', async () => {
    const store = { redis: '127.0.0.1:1', timeoutMs: 50 };
    const allowing = await open({ store });
    const allowed = await allowing.check('shop', [{ account: 'a' }, { free: 'x' }]);
    expect(allowed).toMatchObject({ allowed: true, reason: 'store', limit: undefined });
    expect(of(allowing.events, 'store-error')).toHaveLength(1);
    const denying = await open({ store, onError: 'deny' });
    const denied = await denying.check('shop', { account: 'a' });
    expect(denied).toMatchObject({ allowed: false, reason: 'store', retryAfterMs: 1000 });
    expect(denied.headers['Retry-After']).toBe('1');
    expect(await denying.check('shop', { free: 'a' })).toMatchObject({ allowed: true, reason: 'unlimited' });
    expect(await denying.reserve('shop', { tokens: 'a' }, { amount: 1 })).toMatchObject({
      allowed: false,
      reason: 'store',
    });
    const throwing = await open({ store, onError: 'throw' });
    await expect(throwing.check('shop', { account: 'a' })).rejects.toMatchObject({
      name: 'LimiterError',
      code: 'store',
    });
  });

  it('look for a Redis that comes later every second at least', () => {
    const { redisStartupMaxIntervalMs } = librarySettings({ rules: shop, store: { redis: 'x' } });
    expect(redisStartupMaxIntervalMs).toBe(1000);
  });

  it('end with the limiter', async () => {
    const limiter = await open();
    await limiter.close();
    await expect(limiter.check('shop', { account: 'a' })).rejects.toMatchObject({ code: 'closed' });
  });
});
