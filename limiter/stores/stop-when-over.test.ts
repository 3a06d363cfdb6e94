import { expect, it } from 'vitest';
import { counterOp } from '../../test/support/counter-ops.ts';
import type { Operation } from './operation.ts';
import { lookThenCount } from './stop-when-over.ts';
import type { Store } from './store.ts';
import { StoreError } from './store-error.ts';

it('counts no op whose look failed', () => {
  const submitted: string[][] = [];
  const store: Pick<Store, 'submit'> = {
    submit(ops: Operation[], _, done) {
      submitted.push(ops.map(({ key, hits }) => `${key} ${hits}`));
      for (const op of ops) {
        op.after = op.hits;
        op.applied = op.hits;
        if (op.key === 'broken') op.error = new StoreError('broken', { transient: false });
      }
      done();
    },
  };
  const ops = [counterOp({ key: 'well', hits: 2 }), counterOp({ key: 'broken', hits: 3 })];
  lookThenCount(store as Store, ops, () => {});
  expect(submitted).toEqual([['well 0', 'broken 0'], ['well 2']]);
  expect(ops.map(({ applied, after, error }) => [applied, after, error?.message])).toEqual([
    [2, 2, undefined],
    [0, 0, 'broken'],
  ]);
});
