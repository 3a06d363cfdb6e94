import { expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { budgetLoad, runBudgets } from './budget-run.ts';
import { failedOverRedis, onStore } from './budget-stores.ts';
import { budgetBreaches, budgetTable } from './budget-table.ts';
import { reserveThenCommit } from './ways.ts';

const load = budgetLoad({ streams: 300, seed: 7, ttlMs: 6000 });

/** What a master may have acknowledged and not replicated: the streams that begin or end within 0.1 s. */
const unreplicated = 40 * 1000;

describeWithServer('budgets under load, in a Redis that fails over', redisProgram, (redisPath) => {
  it('lose no more than the master had not replicated', { timeout: 150_000 }, async () => {
    const way = reserveThenCommit(load.ttlMs);
    const figures = await onStore(failedOverRedis(redisPath), (store) => runBudgets(way, load, store));
    expect(budgetBreaches(figures, unreplicated), budgetTable([figures])).toEqual([]);
  });
});
