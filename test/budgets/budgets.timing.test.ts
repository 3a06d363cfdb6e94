/** A smaller load than that of `npm run budgets`, and what happens to reservations when a limiter or a store dies under them. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { defaultSettings } from '../faults/fault-case.ts';
import { longTestDefects, withDefect } from '../mutants/long-test-defects.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { type BudgetAnswer, BudgetClient } from './budget-client.ts';
import { budgetLoad, runBudgets } from './budget-run.ts';
import { type BudgetStore, onStore, restartedRedis } from './budget-stores.ts';
import { budgetBreaches, budgetTable } from './budget-table.ts';
import { reserveThenCommit } from './ways.ts';

const load = budgetLoad({ streams: 300, seed: 7, ttlMs: 6000 });

describeWithServer('budgets under load', redisProgram, (redisPath) => {
  it('are never overspent, and nothing stays reserved, whatever dies', { timeout: 150_000 }, async () => {
    const way = reserveThenCommit(load.ttlMs);
    const figures = await onStore(restartedRedis(redisPath), (store) => runBudgets(way, load, store));
    expect(budgetBreaches(figures), budgetTable([figures])).toEqual([]);
  });
});

describeWithServer('a limiter with a known defect', redisProgram, (redisPath) => {
  it('is found by fewer streams', { timeout: 150_000 }, async () => {
    const small = budgetLoad({ streams: 100, seed: 7, ttlMs: 2000 });
    const run = (store: BudgetStore) => runBudgets(reserveThenCommit(small.ttlMs), small, store);
    const figures = await withDefect(longTestDefects.budgets, () => onStore(restartedRedis(redisPath), run));
    expect(budgetBreaches(figures)).toContainEqual(expect.stringMatching(/^countedTwice: \d+, and 0 is/));
  });
});

describeWithServer('a reservation whose limiter is killed', redisProgram, (redisPath) => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-budget-faults-'));
  const rule = 'rate_limit: { unit: year, requests_per_unit: 1000 }';
  let store: BudgetStore;
  let survivor: LimiterProcess;
  let other: BudgetClient;

  const start = (): Promise<LimiterProcess> =>
    startLimiter({
      env: { ...defaultSettings, ...store.env, RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: '.' },
    });
  const standing = async (team: string): Promise<{ used: number; reserved: number }> => {
    const { body } = await other.ask(`/v1/budgets?domain=kills&entry=team=${team}`);
    return body.budgets[0];
  };
  const about = (team: string) => ({ domain: 'kills', descriptors: [[{ team }]] });

  beforeAll(async () => {
    writeFileSync(join(folder, 'kills.yaml'), `domain: kills\ndescriptors:\n  - key: team\n    ${rule}\n`);
    store = await restartedRedis(redisPath);
    survivor = await start();
    other = new BudgetClient([survivor.ports.http]);
  }, 60_000);

  afterAll(async () => {
    other?.close();
    await survivor?.stop();
    await store?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  describe('before the commit', () => {
    it('is committed by another one', { timeout: 60_000 }, async () => {
      const limiter = await start();
      const client = new BudgetClient([limiter.ports.http]);
      const reserved = await client.ask('/v1/reserve', { ...about('a'), amount: 600, ttl: '5m' });
      client.close();
      await limiter.program.stop('SIGKILL');
      expect(await standing('a')).toMatchObject({ used: 600, reserved: 600 });
      const { reservationId } = reserved.body;
      const committed = await other.ask('/v1/commit', { reservationId, actualAmount: 400 });
      expect(committed).toMatchObject({ status: 200, body: { outcome: 'settled', charged: 400 } });
      expect(await standing('a')).toMatchObject({ used: 400, reserved: 0 });
    });

    it('is given back if no request commits it', { timeout: 60_000 }, async () => {
      const limiter = await start();
      const client = new BudgetClient([limiter.ports.http]);
      await client.ask('/v1/reserve', { ...about('b'), amount: 600, ttl: '2s' });
      client.close();
      await limiter.program.stop('SIGKILL');
      await eventually(async () => expect(await standing('b')).toMatchObject({ used: 0, reserved: 0 }), {
        timeoutMs: 20_000,
      });
    });
  });

  describe('after the commit, before its answer', () => {
    it('is committed once, however often it is reported', { timeout: 60_000 }, async () => {
      const limiter = await start();
      const proxy = await TcpProxy.to(limiter.ports.http);
      const client = new BudgetClient([proxy.port]);
      try {
        const { body } = await client.ask('/v1/reserve', { ...about('c'), amount: 600, ttl: '5m' });
        const commit = { reservationId: body.reservationId, actualAmount: 400 };
        // The answer is on its way for longer than the limiter lives.
        proxy.delay(3000);
        const lost = client.askOnce('/v1/commit', commit).catch((error: Error) => error);
        await eventually(async () => expect(await standing('c')).toMatchObject({ used: 400, reserved: 0 }));
        await limiter.program.stop('SIGKILL');
        proxy.cut();
        expect(await lost).toBeInstanceOf(Error);
        const again = (): Promise<BudgetAnswer> => other.ask('/v1/commit', commit);
        for (const { body: reported } of [await again(), await again()])
          expect(reported).toMatchObject({ outcome: 'repeated', charged: 400 });
        expect(await standing('c')).toMatchObject({ used: 400, reserved: 0 });
      } finally {
        client.close();
        await proxy.close();
        await limiter.program.stop('SIGKILL');
      }
    });
  });
});
