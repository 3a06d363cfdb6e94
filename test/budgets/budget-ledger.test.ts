import { describe, expect, it } from 'vitest';
import { BudgetLedger } from './budget-ledger.ts';
import { budgetBreaches, budgetTable } from './budget-table.ts';
import { counterName, domain, planStreams, type StreamPlan } from './stream-plan.ts';

const streams = 100;
/** Of all, of a team, of a user. */
const [limit, teamLimit] = [60_000, 6_200];
const stream: StreamPlan = {
  id: 'stream-0',
  scopes: ['model', 'team', 'user'].map((key) => ({ key, value: '0' })),
  ...{ estimate: 1000, actual: 1200, beginMs: 0, lastsMs: 0, dies: false, isTwice: false },
};
const noEvents = { retries: { limiterAway: 0, storeAway: 0 }, limitersEnded: 0 };
const held = (model: number, team = 0, user = 0) =>
  new Map([model, team, user].map((tokens, i) => [counterName(stream.scopes[i]!), tokens] as const));

function ledgerOf(...kept: ('ended' | 'died' | 'refused')[]): BudgetLedger {
  const ledger = new BudgetLedger(streams);
  for (const end of kept) {
    ledger.arrived();
    if (end === 'ended') ledger.ended(stream);
    else ledger[end]();
  }
  return ledger;
}

describe('the ledger of streams', () => {
  it('finds nothing wrong if the store holds what streams cost', () => {
    const ledger = ledgerOf(...Array<'ended'>(50).fill('ended'), 'died', 'refused');
    ledger.leaked = 0;
    const figures = ledger.figures('one', held(60_000, 60_000, 60_000), {
      retries: { limiterAway: 1, storeAway: 2 },
      limitersEnded: 1,
    });
    expect(figures).toMatchObject({ answered: 50, refused: 1, died: 1, maxAtOnce: 1 });
    expect(budgetTable([figures])).toContain('| calls retried | 3 |');
    expect(figures).toMatchObject({
      limit,
      charged: 60_000,
      countedTwice: 0,
      lost: 0,
      leaked: 0,
      budgets: 111,
    });
  });

  it('finds what was overspent at any moment, and what was allowed to be', () => {
    const ledger = ledgerOf();
    ledger.allow(stream, 200);
    ledger.look(held(limit + 200, teamLimit + 200));
    expect(ledger.figures('one', held(0), noEvents)).toMatchObject({ overspent: 0, overspentBudgets: 0 });
    ledger.look(held(limit + 201, teamLimit + 200));
    const figures = ledger.figures('one', held(0), noEvents);
    expect(figures).toMatchObject({ overspent: 1, overspentBudgets: 1 });
    expect(budgetBreaches(figures)).toContain('overspent: 1, and 0 is the most');
  });

  it('finds what is missing, what is too much and what stays reserved', () => {
    const ledger = ledgerOf('ended');
    ledger.leaked = 7;
    const figures = ledger.figures('one', held(1200, 1201, 1100), noEvents);
    expect(figures).toMatchObject({ countedTwice: 1, lost: 100 });
    expect(budgetBreaches(figures, 50)).toEqual([
      'leaked: 7, and 0 is the most',
      'lost: 100, and 50 is the most',
      'only 1 of 100 streams were answered',
      'died: none in this run',
      'limitersEnded: none in this run',
      'limiterAway: none in this run',
      'storeAway: none in this run',
    ]);
    expect(budgetTable([figures])).toContain('| still reserved after the TTL | 7 |');
  });
});

it('streams cost 0.8 of their estimate, and some more than it', () => {
  const plans = planStreams({ seed: 3, streams: 5000, withinMs: 1, lastMs: [1, 2] });
  const sum = (of: (plan: StreamPlan) => number): number =>
    plans.reduce((total, plan) => total + of(plan), 0);
  expect(sum(({ actual }) => actual) / sum(({ estimate }) => estimate)).toBeCloseTo(0.8, 1);
  for (const [share, of] of [
    [0.05, ({ dies }: StreamPlan) => dies],
    [0.02, ({ isTwice }: StreamPlan) => isTwice],
    [0.1, ({ actual, estimate }: StreamPlan) => actual > estimate],
  ] as const)
    expect(sum((plan) => Number(of(plan))) / 5000).toBeCloseTo(share, 1.7);
  expect(new Set(plans.map(({ id }) => id)).size).toBe(5000);
  expect(counterName(plans[0]!.scopes[0]!)).toBe(`${domain}_model_0`);
});
