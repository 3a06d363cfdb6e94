import { setFlagsFromString } from 'node:v8';
import { runInThisContext } from 'node:vm';
import { expect, it } from 'vitest';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import { type BudgetLimiter, budgetLimiter } from '../../test/support/budget-limiter.ts';
import { limit, rule } from '../../test/support/rule-builder.ts';
import {
  copyOperation,
  newHold,
  newOperation,
  newReservation,
  type Operation,
  plainCounter,
} from './operation.ts';
import type { Store } from './store.ts';

setFlagsFromString('--allow-natives-syntax');
/** Whether V8 gives two objects one shape. */
const haveOneShape: (one: object, other: object) => boolean = runInThisContext(
  '(one, other) => %HaveSameMap(one, other)',
);

const max = Number.MAX_SAFE_INTEGER;
const asker = { abandoned: false };

/** One request of each kind: hits, refunded hits, several limits, and a budget. */
function askAll({ service, budgets }: BudgetLimiter): void {
  const descriptor = (key: string, hitsAddend: number, isNegativeHits = false) => ({
    entries: [{ key, value: 'v' }],
    limit: undefined,
    hitsAddend,
    isNegativeHits,
  });
  const descriptors = [
    descriptor('plain', 1),
    descriptor('plain', 3, true),
    descriptor('several', 2),
    descriptor('bucket', max),
  ];
  service.decide({ domain: 'd', descriptors, hitsAddend: 0 }, asker, { answer: () => {}, reject: () => {} });
  const about = { domain: 'd', descriptors: [descriptor('several', 1)] };
  const terms = { amount: 2, ttlMs: 60_000, id: 'id', recalled: false };
  budgets.reserve({ ...about, ...terms }, asker, () => {});
  budgets.status(about, asker, () => {});
  budgets.commit({ ...about, id: 'id', actual: 1, unknown: 'report' }, asker, () => {});
}

it('has one shape, whatever is asked, so that the loops of stores stay monomorphic', () => {
  const seen: Operation[] = [];
  const around = (store: Store): Store => ({
    submit: (ops, options, done) => {
      seen.push(...ops);
      store.submit(ops, options, done);
    },
    notes: store.notes,
    ping: () => store.ping(),
    close: () => store.close(),
  });
  const day = limit({ unit: 'day', requestsPerUnit: 100 });
  const rules = [
    rule({ key: 'plain', limits: [day] }),
    rule({
      key: 'several',
      limits: [{ ...day, name: 'a' }, limit({ unit: 'hour', requestsPerUnit: 9, name: 'b' })],
    }),
    rule({
      key: 'bucket',
      limits: [limit({ unit: 'hour', requestsPerUnit: 9, algorithm: Algorithm.TOKEN_BUCKET })],
    }),
  ];
  const limiter = budgetLimiter({ rules, around });
  // Shapes are stable after they have held the largest numbers.
  for (let i = 0; i < 3; i += 1) askAll(limiter);
  seen.length = 0;
  askAll(limiter);
  const one = newOperation(plainCounter('k', { perSecond: false }), 'k', 'add', 1, 60);
  const copy = copyOperation(one, 'refund', 1);
  const reservation = newReservation({ id: 'r', width: 1 });
  const terms = {
    isShadow: false,
    isQuota: false,
    group: 0,
    amount: 1,
    ttlMs: 1,
    onExpiry: 'release',
  } as const;
  copy.hold = newHold({ reservation, ...terms });
  expect(new Set(seen.map(({ verb }) => verb))).toEqual(
    new Set(['add', 'refund', 'reserve', 'look', 'commit']),
  );
  expect([...seen, copy].filter((op) => !haveOneShape(op, one))).toEqual([]);
});
