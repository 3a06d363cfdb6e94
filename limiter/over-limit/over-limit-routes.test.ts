import { describe, expect, it } from 'vitest';
import { limitedPlan } from '../../test/support/matched-rule.ts';
import { OverLimitMemory } from './over-limit-memory.ts';
import { overLimitRoutes } from './over-limit-routes.ts';

const start = Date.UTC(2026, 10, 23, 1);

/** Two threads that rejected once for shop, and many times for another domain since. */
function attackedRoute() {
  const clock = { ms: start, nowMs: () => clock.ms };
  const threads = [new OverLimitMemory(80_000, clock), new OverLimitMemory(80_000, clock)];
  const note = (thread: OverLimitMemory, domain: string, value: string) => {
    const plan = { ...limitedPlan({ domain, path: `${domain}.user` }).limits[0]!, key: `${domain}_${value}` };
    thread.note({ counter: plan, windowEndSeconds: 0, secondsToReset: 0 }, [{ key: 'user', value }], 11, {});
  };
  clock.ms += 1_000;
  for (const thread of threads) note(thread, 'shop', 'a');
  clock.ms += 1_000;
  for (const thread of threads) for (let n = 0; n < 1_500; n++) note(thread, 'other', `${n}`);
  const [route] = overLimitRoutes({
    name: 'limiter-1',
    find: async (question) => threads.map((one) => one.find(question)),
  });
  return async (query: string, mayRead: (domain: string) => boolean) => {
    const actor = { name: 'x', address: '', claims: '', mayRead, mayChange: () => false };
    const { body } = await route!.answer({ query: new URLSearchParams(query), body: undefined, actor });
    return body as { refusals: { domain: string; count: number }[]; kept: number; since: string | null };
  };
}

describe('GET /v1/refusals', () => {
  it('shows and counts those of a caller of some domains while another one is attacked', async () => {
    const ask = attackedRoute();
    const own = {
      refusals: [{ domain: 'shop', count: 2 }],
      ...{ kept: 2, since: '2026-11-23T01:00:01.000Z' },
    };
    const isShop = (domain: string) => domain === 'shop';
    expect(await ask('', isShop)).toMatchObject(own);
    expect(await ask('domain=shop&limit=1', isShop)).toMatchObject(own);
    expect(await ask('', () => false)).toEqual({ refusals: [], kept: 0, since: null });
  });

  it('counts all for a caller of every domain', async () => {
    const ask = attackedRoute();
    const all = await ask('', () => true);
    expect([all.refusals.length, all.kept]).toEqual([100, 3_002]);
  });
});
