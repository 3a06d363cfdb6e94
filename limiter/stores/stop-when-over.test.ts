import { describe, expect, it } from 'vitest';
import { counterOp } from '../../test/support/counter-ops.ts';
import { FixedWindow } from '../algorithms/fixed-window.ts';
import { FoldedRun } from './folded-run.ts';
import type { Operation } from './operation.ts';
import { readThenCount } from './stop-when-over.ts';
import { StoreError } from './store-error.ts';

type Totals = Record<string, number | StoreError>;

/** Counts requests from these totals. Returns what each step submitted, and the answers. */
function counted(requests: Operation[][], totals: Totals) {
  const submitted: string[][] = [];
  const submit = (ops: Operation[], done: () => void) => {
    submitted.push(ops.map(({ verb, key, hits }) => `${verb} ${key} ${hits}`));
    for (const op of ops) {
      const run = new FoldedRun(op);
      const total = totals[op.key]!;
      if (typeof total !== 'number') run.fail(total);
      else {
        run.answer(total);
        totals[op.key] = op.after;
      }
    }
    done();
  };
  readThenCount(requests, submit, () => void submitted.push(['done']));
  const answers = requests.map((ops) =>
    ops.map(({ applied, after, error }) => error?.message ?? [applied, after]),
  );
  return { submitted, answers };
}

describe('readThenCount', () => {
  it('asks for the total of every key once', () => {
    const request = [counterOp({ key: 'a', limit: 9 }), counterOp({ key: 'b', limit: 9 })];
    const { submitted } = counted([request, [counterOp({ key: 'a', limit: 9 })]], { a: 0, b: 0 });
    expect(submitted).toEqual([['add a 0', 'add b 0'], ['add a 1', 'add b 1', 'add a 1'], ['done']]);
  });

  it('counts only what would be over, and leaves the others as they were read', () => {
    const request = [counterOp({ key: 'full', limit: 2 }), counterOp({ key: 'free', limit: 9 })];
    const { submitted, answers } = counted([request], { full: 2, free: 5 });
    expect(submitted[1]).toEqual(['add full 1']);
    expect(answers).toEqual([
      [
        [1, 3],
        [0, 5],
      ],
    ]);
  });

  it('reads again the keys of a refund to bounds, each of its group, before it judges a request about one', () => {
    const bound = new FixedWindow(9);
    const refund = ['a', 'b'].map((key) => counterOp({ key, bound, verb: 'refund', groupSize: 2 }));
    const { submitted } = counted([refund, [counterOp({ key: 'b', bound })]], { a: 5, b: 9 });
    expect(submitted).toEqual([
      ['add a 0', 'add b 0'],
      ['refund a 1', 'refund b 1'],
      ['add b 0'],
      ['add b 1'],
      ['done'],
    ]);
  });

  it('judges each request by what those before it leave', () => {
    const request = () => [counterOp({ key: 'shared', limit: 2 }), counterOp({ key: 'own', limit: 9 })];
    const { answers } = counted([request(), request(), request()], { shared: 0, own: 0 });
    expect(answers.map((ops) => ops.map((answer) => answer[1]))).toEqual([
      [1, 1],
      [2, 2],
      [3, 2],
    ]);
  });

  it('lets a bound be filled by what fits, and counts nothing beside it then', () => {
    const bound = new FixedWindow(2);
    const request = () => [counterOp({ key: 'bound', bound, limit: 2 }), counterOp({ key: 'own', limit: 9 })];
    const { submitted } = counted([request(), request(), request()], { bound: 0, own: 0 });
    const both = ['add bound 1', 'add own 1'];
    expect(submitted[1]).toEqual([...both, ...both, 'add bound 1', 'peek own 1']);
  });

  it('counts no op that could not be read, and counts the others', () => {
    const broken = new StoreError('broken', { transient: true });
    const ops = [counterOp({ key: 'well', hits: 2 }), counterOp({ key: 'broken', hits: 3 })];
    const { submitted, answers } = counted([ops], { well: 0, broken });
    expect(submitted).toEqual([['add well 0', 'add broken 0'], ['add well 2'], ['done']]);
    expect(answers).toEqual([[[2, 2], 'broken']]);
    expect(ops[1]!.error!.notCounted).toBe(true);
  });

  it('counts nothing of a group of which one limit could not be read', () => {
    const broken = new StoreError('broken', { transient: true });
    const bound = new FixedWindow(9);
    const ops = ['well', 'broken'].map((key) => counterOp({ key, bound, groupSize: 2 }));
    const { submitted, answers } = counted([ops], { well: 0, broken });
    expect(submitted.flat().filter((text) => text.startsWith('add well') && !text.endsWith(' 0'))).toEqual(
      [],
    );
    expect(answers).toEqual([['broken', 'broken']]);
  });
});
