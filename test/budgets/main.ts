/**
 * `npm run budgets -- [--streams N] [--seed N] [--write]`: streams whose cost is known afterward, over four limiters and one
 * Redis, with reservations and without. Ends with an error when a budget with reservations was overspent, or one leaked.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { withTable } from '../faults/fault-table.ts';
import { findServer, redisProgram } from '../support/find-server.ts';
import { defineFlags, scriptFlags } from '../support/script-flags.ts';
import { budgetLoad, runBudgets } from './budget-run.ts';
import { restartedRedis } from './budget-stores.ts';
import { budgetBreaches, budgetTable } from './budget-table.ts';
import { checkThenCharge, reserveThenCommit, type Way } from './ways.ts';

const document = new URL('../../docs/budgets.md', import.meta.url);

const { streams, seed, write } = scriptFlags(
  defineFlags({
    help: `Usage: npm run budgets -- [--streams <n>] [--seed <n>] [--write]

Lets streams of answers begin at once over four limiters and one Redis: each is charged to the budgets of its model, its
team and its user. 5% die, 2% say twice what they cost, a limiter is killed, Redis is killed and started again with its data.
First with reservations, then by a check before and a charge after. It takes some four minutes and needs redis-server.

  --streams <n>  100 to 50000 (default 10000)
  --seed <n>     of what streams cost and when they begin (default 1)
  --write        puts the table into docs/budgets.md

Exit status: 0 when no budget with reservations was overspent, nothing leaked and nothing was counted twice or lost, 1
when not, 2 for a wrong command line or without redis-server.
`,
    rows: {
      streams: { type: 'number', min: 100, max: 50_000, whole: true, default: 10_000 },
      seed: { type: 'number', min: 1, max: 2 ** 31, whole: true, default: 1 },
      write: { type: 'boolean' },
    },
  }),
);
const redis = findServer(redisProgram);
if ('missing' in redis) {
  console.error(redis.missing);
  process.exit(2);
}
const load = budgetLoad({ streams, seed, ttlMs: 60_000 });

async function run(way: Way, path: string) {
  console.error(`${way.name}: ${streams} streams`);
  const store = await restartedRedis(path);
  try {
    return await runBudgets(way, load, store);
  } finally {
    await store.stop();
  }
}

const reserved = await run(reserveThenCommit(load.ttlMs), redis.path);
const checked = await run(checkThenCharge, redis.path);
const table = budgetTable([reserved, checked]);
console.log(table);
const breaches = budgetBreaches(reserved);
for (const breach of breaches) console.error(`NOT AS IT MUST BE: ${breach}`);
if (write && breaches.length === 0)
  writeFileSync(document, withTable(readFileSync(document, 'utf8'), table, 'budgets'));
process.exitCode = breaches.length === 0 ? 0 : 1;
