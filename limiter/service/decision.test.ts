import { expect, it } from 'vitest';
import { budgetLimiter } from '../../test/support/budget-limiter.ts';
import { limit, rule } from '../../test/support/rule-builder.ts';
import { failAll, type Reservation } from '../stores/operation.ts';
import { StoreError } from '../stores/store-error.ts';
import { budgetOutcomes } from './decision.ts';

it('names every outcome that calls about reservations have', () => {
  const seen = { reserve: new Set<string>(), settle: new Set<string>() };
  /** Undefined: the store fails. */
  let answer: Partial<Reservation> | undefined;
  const { service } = budgetLimiter({
    rules: [
      rule({ key: 'k', limits: [limit()], reserve: { ttlSeconds: 20, estimate: 1, onExpiry: 'release' } }),
    ],
    events: { onBudgetCall: (call, outcome) => seen[call].add(outcome) },
    around: (store) => ({
      submit: (ops, _, done) => {
        if (answer === undefined) failAll(ops, new StoreError('away', { transient: true }));
        else Object.assign(ops[0]!.hold!.reservation, answer);
        done();
      },
      notes: store.notes,
      ping: () => store.ping(),
      close: () => store.close(),
    }),
  });
  const ask = (given: Partial<Reservation> | undefined, ...entries: string[]): void => {
    answer = given;
    const all = ['k', 'reservation_id', ...entries].map((key) => ({ key, value: 'true' }));
    const one = { entries: all, limit: undefined, hitsAddend: 1, isNegativeHits: false };
    const request = { domain: 'd', descriptors: [one], hitsAddend: 0 };
    service.decide(request, { abandoned: false }, { answer: () => {}, reject: () => {} });
  };

  ask(undefined);
  ask(undefined, 'settle');
  for (const outcome of ['reserved', 'repeated', 'refused', 'conflict'] as const) ask({ outcome });
  for (const of of ['counter', 'domain', 'caller', 'memory'] as const)
    ask({ outcome: 'full', full: { of, roomAtMs: 0 } });
  for (const settled of ['settled', 'late', 'repeated', 'unknown', 'partial'] as const)
    ask({ commitOutcome: settled }, 'settle');
  expect([...seen.reserve].toSorted()).toEqual(budgetOutcomes.reserve.toSorted());
  expect([...seen.settle].toSorted()).toEqual(budgetOutcomes.settle.toSorted());
});
