/** Who is over limit, in a whole limiter: what is seen of it, and what its settings do. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { httpAsk } from '../support/http-ask.ts';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { ManualTimers } from '../support/manual-timers.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
mkdirSync(join(folder, 'config'));
const domains = Array.from({ length: 40 }, (_, n) => `d${n}`);
for (const domain of domains) {
  writeFileSync(
    join(folder, `config/${domain}.yaml`),
    `domain: ${domain}
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 2 }
  - key: tried
    shadow_mode: true
    rate_limit: { unit: day, requests_per_unit: 2 }
  - key: path
    value: a*
    share_threshold: true
    rate_limit: { unit: day, requests_per_unit: 2 }
  - key: several
    rate_limits:
      - { window: 5m, requests_per_unit: 2, algorithm: sliding_window }
      - { unit: day, requests_per_unit: 3, name: daily }
`,
  );
}

let timers: ManualTimers;
beforeEach(() => {
  timers = new ManualTimers();
});

const start = limitersOfSuite(() => ({
  timers,
  clock: { nowMs: () => Date.UTC(2026, 1, 1), monotonicMs: () => performance.now() },
  env: { RUNTIME_ROOT: folder },
}));

/** Keys and hits over limit of a domain. */
async function shown(running: InProcessLimiter, domain = 'd0'): Promise<Record<string, number>> {
  const { domains: found } = await running.top(`n=1000&domain=${domain}`);
  return Object.fromEntries((found[0]?.keys ?? []).map(({ key, atMost }) => [key, atMost]));
}

describe('/top of a limiter', () => {
  it('distinguishes several limits of a rule, by name or window', async () => {
    const running = await start();
    await running.ask('d0', [{ several: 'a' }], 3);
    await running.ask('d0', [{ several: 'a' }], 4);
    expect(await shown(running)).toEqual({ 'several=a (5m)': 7, 'several=a (daily)': 4 });
  });

  it('says which callers are over limit by which rule, as over_limit counts it', async () => {
    const running = await start({ CACHE_KEY_PREFIX: 'prefix_', LOCAL_CACHE_SIZE_IN_BYTES: '1000000' });
    await running.ask('d0', [{ user: 'alice' }], 5);
    await running.ask('d0', [{ user: 'alice' }, { tried: 'bob' }], 7);
    await running.ask('d0', [{ user: 'carol' }], 2);
    await running.ask('d1', [{ path: 'ab' }], 2);
    await running.ask('d1', [{ path: 'ac' }], 3);
    const { domainCount, domains: found, since } = await running.top();
    expect({ domainCount, since, found }).toEqual({
      since: '2026-02-01T00:00:00.000Z',
      domainCount: 2,
      found: [
        {
          domain: 'd0',
          overLimit: 15,
          missed: 0,
          keys: [
            {
              key: 'user_alice',
              rule: 'd0.user',
              shadowMode: false,
              atLeast: 10,
              atMost: 10,
              share: 10 / 15,
            },
            { key: 'tried_bob', rule: 'd0.tried', shadowMode: true, atLeast: 5, atMost: 5, share: 5 / 15 },
          ],
        },
        {
          domain: 'd1',
          overLimit: 3,
          missed: 0,
          keys: [{ key: 'path_a*', rule: 'd1.path_a*', shadowMode: false, atLeast: 3, atMost: 3, share: 1 }],
        },
      ],
    });
    const stats = await running.stats();
    expect(stats.get('ratelimit.service.rate_limit.d0.user.over_limit')).toBe(10);
    expect(stats.get('ratelimit.top_offenders.domains')).toBe(2);
    expect(stats.get('ratelimit.top_offenders.bytes')).toBeGreaterThan(0);
    expect(stats.get('ratelimit.top_offenders.dropped')).toBe(0);
  });

  it('is text unless asked otherwise', async () => {
    const running = await start();
    await running.ask('d0', [{ user: 'alice' }], 5);
    const { status, headers, body } = await httpAsk(running.ports.debug, '/top');
    expect([status, headers['content-type']]).toEqual([200, 'text/plain; charset=utf-8']);
    expect(body).toContain('100.0%  "user_alice"  "d0.user"\n');
  });

  it.each([
    ['2', { user_a: 10, user_c: 12 }],
    ['10', { user_a: 10, user_b: 2, user_c: 10 }],
  ])('holds as many keys as STATS_TOP_KEYS=%s says', async (value, keys) => {
    const running = await start({ STATS_TOP_KEYS: value });
    for (const [user, hits] of Object.entries({ a: 12, b: 4, c: 12 })) {
      await running.ask('d0', [{ user }], hits);
    }
    expect(await shown(running)).toEqual(keys);
  });

  it('keeps nothing with STATS_TOP_KEYS=0', async () => {
    const running = await start({ STATS_TOP_KEYS: '0' });
    await running.ask('d0', [{ user: 'alice' }], 5);
    const { status, body } = await httpAsk(running.ports.debug, '/top');
    expect([status, body]).toEqual([404, '/top is off: STATS_TOP_KEYS is 0\n']);
    expect((await running.stats()).has('ratelimit.top_offenders.bytes')).toBe(false);
  });

  it.each([
    ['1m', { user_new: 1 }],
    ['1h', { user_old: 3, user_new: 1 }],
  ])('forgets after two periods of STATS_TOP_PERIOD=%s', async (value, keys) => {
    const running = await start({ STATS_TOP_PERIOD: value });
    await running.ask('d0', [{ user: 'old' }], 5);
    timers.advance(61_000);
    await running.ask('d0', [{ user: 'new' }], 3);
    expect(await shown(running)).toEqual({ user_old: 3, user_new: 1 });
    timers.advance(60_000);
    expect(await shown(running)).toEqual(keys);
  });

  it.each([
    ['4194304', false],
    ['104857600', true],
  ])('keeps within STATS_TOP_MAX_BYTES=%s', async (value, all) => {
    const running = await start({ STATS_TOP_MAX_BYTES: value, STATS_TOP_KEYS: '1000' });
    const user = (n: number): string => `${'x'.repeat(400)}${n}`;
    for (const domain of domains) {
      const descriptors = Array.from({ length: 150 }, (_, n) => ({ user: user(n) }));
      await running.ask(domain, descriptors, 3);
    }
    const stats = await running.stats();
    expect(stats.get('ratelimit.top_offenders.bytes')).toBeLessThanOrEqual(Number(value));
    expect(stats.get('ratelimit.top_offenders.domains') === domains.length).toBe(all);
    expect(stats.get('ratelimit.top_offenders.dropped') === 0).toBe(all);
    expect(Object.keys(await shown(running, 'd39'))).toHaveLength(150);
  });
});

describe('/v1/refusals of a limiter', () => {
  interface Found {
    refusals: { rule: string; entries: { value: string }[]; count: number; used: number }[];
    kept: number;
    since: string | null;
  }

  const refusals = async (running: InProcessLimiter, query = ''): Promise<Found> => {
    const url = `http://127.0.0.1:${running.ports.debug}/v1/refusals${query}`;
    return (await (await fetch(url)).json()) as Found;
  };

  it('says which callers were over limit, not those that passed or were only watched', async () => {
    const running = await start();
    for (let n = 0; n < 2; n++) await running.ask('d0', [{ user: 'alice' }], 3);
    await running.ask('d0', [{ user: 'carol' }, { tried: 'bob' }], 2);
    await running.ask('d0', [{ tried: 'bob' }], 3);
    await running.ask('d1', [{ several: 'dan' }], 4);
    const { refusals: rows, kept, since } = await refusals(running);
    expect(rows.map(({ rule, entries, count }) => [rule, entries[0]!.value, count])).toEqual([
      ['d1.several', 'dan', 1],
      ['d0.user', 'alice', 2],
    ]);
    expect([kept, since]).toEqual([2, '2026-02-01T00:00:00.000Z']);
    expect((await refusals(running, '?domain=d1')).refusals).toHaveLength(1);
    expect((await refusals(running, '?entry=user=alice')).refusals).toMatchObject([{ used: 6 }]);
    expect((await refusals(running, '?until=2026-01-01T00:00:00Z')).refusals).toEqual([]);
  });

  it('remembers as many as REFUSALS_KEPT says', async () => {
    const running = await start({ REFUSALS_KEPT: '3' });
    for (const user of ['a', 'b', 'c', 'd']) await running.ask('d0', [{ user }], 3);
    const { refusals: rows, kept } = await refusals(running);
    expect(rows.map(({ entries }) => entries[0]!.value)).toEqual(['d', 'c', 'b']);
    expect([kept, (await running.stats()).get('ratelimit.refusals.kept')]).toEqual([3, 3]);
    const without = await start({ REFUSALS_KEPT: '0' });
    await without.ask('d0', [{ user: 'a' }], 3);
    expect(await refusals(without)).toEqual({ refusals: [], kept: 0, since: null });
  });
});
