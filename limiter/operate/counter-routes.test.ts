import { describe, expect, it, vi } from 'vitest';
import type { ApiAnswer, ApiRoute, OperatorChange } from '../../process/http/api-route.ts';
import { eventually } from '../../test/support/eventually.ts';
import { StoreError } from '../stores/store-error.ts';
import { type CounterParts, counterRoutes } from './counter-routes.ts';
import type { ResetOutcome } from './resets.ts';
import type { CounterRef } from './store-admin/store-admin.ts';

const actor = { name: 'desk', address: '', claims: '', mayRead: () => true, mayChange: () => true };

/** Routes over a store that returns its slices when they are released, in order. */
function storeWithKeys(keys: readonly string[] = []) {
  const slices: (() => void)[] = [];
  const scan = vi.fn(async () => {
    await new Promise<void>((resolve) => slices.push(resolve));
    const counters: CounterRef[] = keys.map((key) => ({ key, perSecond: false }));
    return { counters, place: undefined, scanned: keys.length, notes: [] };
  });
  const storeAdmin = {
    ...{ kind: 'redis', missing: [], scan },
    read: (refs: readonly CounterRef[]) => Promise.resolve(refs.map(() => ({ held: [7, 0, 0], leased: 0 }))),
  };
  const changes: OperatorChange[] = [];
  const reset = vi.fn(
    (refs: readonly CounterRef[]): Promise<ResetOutcome> =>
      Promise.resolve({ reset: refs.length, limiters: [], missing: [] }),
  );
  const routes = counterRoutes(
    {
      storeAdmin,
      rules: () => undefined,
      settings: { cacheKeyPrefix: '', counterKeys: 'unambiguous', useCalendarMonthRateLimit: false },
      clock: { nowMs: Date.now, monotonicMs: () => performance.now() },
    } as unknown as CounterParts,
    { resets: { reset }, report: (change) => changes.push(change) },
  );
  const ask = (method: ApiRoute['method'], query: string): Promise<ApiAnswer> =>
    routes
      .find((route) => route.method === method)!
      .answer({ query: new URLSearchParams(query), body: undefined, actor });
  return { slices, scan, reset, changes, ask };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('/v1/counters', () => {
  it('lists one page at a time, lets eight wait and reports to others when to come again', async () => {
    const { ask, scan, slices } = storeWithKeys();
    const asked = Array.from({ length: 9 }, (_, n) =>
      n % 2 === 0 ? ask('GET', 'domain=shop') : ask('DELETE', 'domain=shop&all=true&over=true'),
    );
    await turn();
    expect(scan).toHaveBeenCalledTimes(1);
    const problem = { status: 429, members: { retryAfterSeconds: 2 } };
    await expect(ask('GET', 'domain=shop')).rejects.toMatchObject(problem);
    await expect(ask('DELETE', 'domain=shop&all=true')).rejects.toMatchObject(problem);
    // A question for one descriptor scans nothing.
    await expect(ask('GET', 'domain=shop&entry=k=v')).resolves.toHaveProperty('lines');
    for (let n = 1; n <= 9; n++) {
      await eventually(() => expect(slices).toHaveLength(n));
      expect(scan).toHaveBeenCalledTimes(n);
      slices[n - 1]!();
      await asked[n - 1];
    }
  });

  it('lists on after a list that failed', async () => {
    const { ask, scan, slices } = storeWithKeys();
    scan.mockRejectedValueOnce(new StoreError('redis is away', { transient: true }));
    const [failed, next] = [ask('GET', 'domain=shop'), ask('GET', 'domain=shop')];
    await expect(failed).rejects.toMatchObject({ status: 503 });
    await eventually(() => expect(slices).toHaveLength(1));
    slices[0]!();
    await expect(next).resolves.toHaveProperty('lines');
  });

  it('reports a reset that failed, as some counters may be gone', async () => {
    const key = `1{shop;k=v}31536000:${Math.floor(Date.now() / 1000)}`;
    const { ask, slices, reset, changes } = storeWithKeys([key]);
    reset.mockRejectedValueOnce(new StoreError('redis is away', { transient: true }));
    const failed = ask('DELETE', 'domain=shop&all=true');
    await eventually(() => expect(slices).toHaveLength(1));
    slices[0]!();
    await expect(failed).rejects.toMatchObject({ status: 503 });
    expect(changes).toEqual([
      {
        ...{ actor, what: 'counters-reset', domain: 'shop', target: 'all counters' },
        before: `${key}: 7 of ?`,
        after: 'failed: redis is away (of 1; none, some or all of them may be reset)',
      },
    ]);
  });
});
