import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { callAbandoned, type Operation } from '../../limiter/stores/operation.ts';
import type { Store } from '../../limiter/stores/store.ts';
import { counterOp, type GivenTerms, submit, totalOf } from '../support/counter-ops.ts';

/** What every store does that does not count within `submit`. */
export function abandonedOpsSuite(open: () => Promise<Store>, { bounds = false } = {}): void {
  let store: Store;
  beforeAll(async () => {
    store = await open();
  });
  afterAll(() => store.close());

  const answerOf = ({ applied, after, error }: Operation): unknown => error ?? [applied, after];

  it('leaves out what was abandoned before it is sent, and counts the others as if it had not been there', async () => {
    const key = randomUUID();
    const caller = { abandoned: false };
    const requests = [
      [counterOp({ key, hits: 1 })],
      [counterOp({ key, hits: 10, caller }), counterOp({ key: `${key} other`, hits: 10, caller })],
      [counterOp({ key, hits: 100, caller: { abandoned: false } })],
      [counterOp({ key, hits: 1000, negative: true, caller })],
    ];
    const answered = Promise.all(requests.map((ops) => submit(store, ops)));
    caller.abandoned = true;
    expect((await answered).flat().map(answerOf)).toEqual([
      [1, 1],
      callAbandoned,
      callAbandoned,
      [100, 101],
      callAbandoned,
    ]);
    expect([
      await totalOf(store, { key, hits: 0 }),
      await totalOf(store, { key: `${key} other`, hits: 0 }),
    ]).toEqual([101, 0]);
  });

  it('leaves out whole requests with stop-when-over', async () => {
    const key = randomUUID();
    const caller = { abandoned: false };
    const ops = (given: GivenTerms) => [
      counterOp({ key, limit: 5, ...given }),
      counterOp({ key: `${key} other`, limit: 5, ...given }),
    ];
    const requests = [ops({ hits: 5, caller }), ops({ hits: 3 }), ops({ hits: 5, caller })];
    const answered = Promise.all(requests.map((request) => submit(store, request, { stopWhenOver: true })));
    caller.abandoned = true;
    expect((await answered).flat().map(answerOf)).toEqual([
      callAbandoned,
      callAbandoned,
      [3, 3],
      [3, 3],
      callAbandoned,
      callAbandoned,
    ]);
    expect(await totalOf(store, { key, hits: 0 })).toBe(3);
  });

  const counting = bounds ? it : undefined;
  counting?.(
    'leaves out the groups of an abandoned request, and lets the others have their room',
    async () => {
      const bound = new FixedWindow(4);
      for (const stopWhenOver of [false, true]) {
        const key = `{${randomUUID()}}`;
        const caller = { abandoned: false };
        const ops = (given: GivenTerms) => [
          counterOp({ key, limit: 4, bound, groupSize: 2, ...given }),
          counterOp({ key: `${key} other`, limit: 4, bound, groupSize: 2, ...given }),
        ];
        // All of one step, and one of another that the abandoned ones stand around.
        const requests = [ops({ caller }), ops({}), ops({ caller }), ops({ hits: 3 }), ops({ caller })];
        const answered = Promise.all(requests.map((request) => submit(store, request, { stopWhenOver })));
        caller.abandoned = true;
        const left = [callAbandoned, callAbandoned];
        expect((await answered).flat().map(answerOf)).toEqual([
          ...left,
          [1, 1],
          [1, 1],
          ...left,
          [3, 4],
          [3, 4],
          ...left,
        ]);
        const all = ops({ caller });
        await submit(store, all, { stopWhenOver });
        expect(all.map(({ error }) => error)).toEqual(left);
      }
    },
  );

  it('leaves out a request of more keys than one call takes', async () => {
    const key = randomUUID();
    const caller = { abandoned: false };
    const ops = Array.from({ length: 600 }, (_, index) => counterOp({ key: `${key} ${index}`, caller }));
    const answered = submit(store, ops, { stopWhenOver: true });
    caller.abandoned = true;
    expect(new Set((await answered).map(({ error }) => error))).toEqual(new Set([callAbandoned]));
    expect(await totalOf(store, { key: `${key} 7`, hits: 0 })).toBe(0);
  });

  it('has counted what is abandoned once it is answered', async () => {
    const key = randomUUID();
    const caller = { abandoned: false };
    const [op] = await submit(store, [counterOp({ key, hits: 2, caller })]);
    caller.abandoned = true;
    expect([op && answerOf(op), await totalOf(store, { key, hits: 0 })]).toEqual([[2, 2], 2]);
  });
}
