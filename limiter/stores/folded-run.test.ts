import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { counterOp } from '../../test/support/counter-ops.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { beyondTotal, FoldedRun, maxTotal, totalAfter } from './folded-run.ts';
import { StoreError } from './store-error.ts';

interface Change {
  hits: number;
  negative: boolean;
}

/** Mostly small numbers, so that totals reach 0, and some near the maximum. */
const amount = fc.oneof(
  { weight: 8, arbitrary: fc.nat(20) },
  { weight: 1, arbitrary: fc.nat(20).map((n) => maxTotal - n) },
  { weight: 1, arbitrary: fc.maxSafeNat() },
);
const change: fc.Arbitrary<Change> = fc.record({ hits: amount, negative: fc.boolean() });
const changes = fc.array(change, { minLength: 1, maxLength: 12 });
/** The value of the key. Undefined if it is missing. */
const state = fc.option(amount, { nil: undefined });

/** Counts without folding: one change of one key. The first hit that is added creates a missing key. */
function alone(held: number | undefined, { hits, negative }: Change): number | undefined {
  if (held === undefined && (negative || hits === 0)) return undefined;
  return totalAfter(held ?? 0, hits, negative);
}

/** Applies a run like a store. */
function apply(run: FoldedRun, held: number | undefined): number | undefined {
  if (held === undefined && run.ttlSeconds === 0) return undefined;
  return Math.min(run.high, Math.max(run.low, (held ?? 0) + run.shift));
}

function fold(list: readonly Change[]) {
  const ops = list.map((given) => counterOp({ key: 'k', ...given }));
  const [first, ...rest] = ops as [ReturnType<typeof counterOp>];
  const run = new FoldedRun(first);
  for (const op of rest) run.add(op);
  return { ops, run };
}

describe('FoldedRun', () => {
  it('gives every op its total as if it had come alone, and leaves the same value', () => {
    fc.assert(
      fc.property(state, changes, (start, list) => {
        const { ops, run } = fold(list);
        const totals: number[] = [];
        let held = start;
        for (const one of list) {
          const isCut = !one.negative && maxTotal - (held ?? 0) < one.hits;
          held = alone(held, one);
          totals.push(isCut ? beyondTotal : (held ?? 0));
        }
        const left = apply(run, start);
        run.answer(start ?? 0);
        expect(ops.map((op) => op.after)).toEqual(totals);
        expect(left).toBe(held);
      }),
      { numRuns: caseCount(2000) },
    );
  });

  it('gives the same totals whatever the batches', () => {
    const batches = fc.array(changes, { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(state, batches, (start, lists) => {
        let held = start;
        const inBatches = lists.flatMap((list) => {
          const { ops, run } = fold(list);
          run.answer(held ?? 0);
          held = apply(run, held);
          return ops.map((op) => op.after);
        });
        const whole = fold(lists.flat());
        whole.run.answer(start ?? 0);
        expect(inBatches).toEqual(whole.ops.map((op) => op.after));
        expect(apply(whole.run, start)).toBe(held);
      }),
    );
  });

  it('is an addition exactly when INCRBY by its shift does the same to every total', () => {
    fc.assert(
      fc.property(changes, fc.array(amount, { maxLength: 20 }), (list, totals) => {
        const { run } = fold(list);
        if (!run.isAddition) return;
        expect(run.ttlSeconds).toBe(60);
        for (const total of totals) expect(apply(run, total)).toBe(Math.min(maxTotal, total + run.shift));
      }),
    );
  });

  it.each([
    { changes: [+3, +4], isAddition: true, shift: 7, low: 7, high: maxTotal, ttlSeconds: 60 },
    { changes: [+5, -2], isAddition: false, shift: 3, low: 3, high: maxTotal - 2, ttlSeconds: 60 },
    { changes: [-5, +2], isAddition: false, shift: -3, low: 2, high: maxTotal - 3, ttlSeconds: 60 },
    { changes: [-5], isAddition: false, shift: -5, low: 0, high: maxTotal - 5, ttlSeconds: 0 },
    { changes: [0, 0], isAddition: false, shift: 0, low: 0, high: maxTotal, ttlSeconds: 0 },
  ])('folds $changes', ({ changes: list, ...expected }) => {
    const { run } = fold(list.map((n) => ({ hits: Math.abs(n), negative: n < 0 })));
    const { isAddition, shift, low, high, ttlSeconds } = run;
    expect({ isAddition, shift, low, high, ttlSeconds }).toEqual(expected);
  });

  it('knows the largest value with which none of its hits is over, and misses no other', () => {
    const limited = fc.array(fc.record({ hits: amount, negative: fc.boolean(), limit: amount }), {
      minLength: 1,
      maxLength: 8,
    });
    fc.assert(
      fc.property(limited, fc.array(amount, { maxLength: 20 }), (list, totals) => {
        const ops = list.map((given) => counterOp({ key: 'k', ...given }));
        const run = new FoldedRun(ops[0]!);
        for (const op of ops.slice(1)) run.add(op);
        for (const before of totals) {
          run.answer(before);
          const isOver = list.some(
            ({ negative, limit }, i) => !negative && limit > 0 && ops[i]!.after > limit,
          );
          expect(before > run.max).toBe(isOver);
        }
      }),
      { numRuns: caseCount(300) },
    );
  });

  it('takes the life of a new key from the first op that adds', () => {
    const run = new FoldedRun(counterOp({ key: 'k', negative: true, ttlSeconds: 1 }));
    run.add(counterOp({ key: 'k', hits: 0, ttlSeconds: 2 }));
    run.add(counterOp({ key: 'k', ttlSeconds: 3 }));
    run.add(counterOp({ key: 'k', ttlSeconds: 4 }));
    expect(run.ttlSeconds).toBe(3);
  });

  it('takes a value below zero, which is not ours, for zero', () => {
    const { ops, run } = fold([{ hits: 2, negative: false }]);
    run.answer(-7);
    expect(ops[0]?.after).toBe(2);
  });

  it('fails what a full store could not count, and reports hits beyond the limit as over limit', () => {
    const given = [{ limit: 9 }, { negative: true, limit: 8 }, { limit: 8 }, { hits: 0, limit: 9 }];
    const ops = given.map((one) => counterOp({ key: 'k', ...one }));
    const run = new FoldedRun(ops[0]!);
    for (const op of ops.slice(1)) run.add(op);
    run.answerUncounted(8, new StoreError('full', { transient: true }));
    expect(ops.map(({ error, after, applied }) => [error?.message, after, applied])).toEqual([
      ['full', 0, 0],
      ['full', 0, 0],
      [undefined, 9, 0],
      [undefined, 8, 0],
    ]);
  });

  it('fails all of its ops', () => {
    const { ops, run } = fold([
      { hits: 1, negative: false },
      { hits: 1, negative: true },
    ]);
    const error = new StoreError('no', { transient: true });
    run.fail(error);
    expect(ops.map(({ applied, after, error }) => ({ applied, after, error }))).toEqual([
      { applied: 0, after: 0, error },
      { applied: 0, after: 0, error },
    ]);
  });
});
