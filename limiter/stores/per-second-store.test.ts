import { describe, expect, it } from 'vitest';
import { counterOp, submit } from '../../test/support/counter-ops.ts';
import { openMemoryStore } from '../../test/support/open-memory-store.ts';
import { PerSecondStore } from './per-second-store.ts';

function open() {
  const [main, perSecond] = [openMemoryStore(), openMemoryStore()];
  return { main, perSecond, store: new PerSecondStore({ main, perSecond }) };
}

describe('PerSecondStore', () => {
  it('counts limits per second in one store and all others in the other', async () => {
    const { main, perSecond, store } = open();
    const ops = [counterOp({ key: 'a' }), counterOp({ key: 'a', perSecond: true }), counterOp({ key: 'b' })];
    await submit(store, ops);
    await submit(store, [counterOp({ key: 'c', perSecond: true })]);
    await submit(store, [counterOp({ key: 'b' })]);
    expect(ops.map(({ after }) => after)).toEqual([1, 1, 1]);
    expect([main.size, perSecond.size]).toEqual([2, 2]);
  });

  it('holds back in both stores when a counter of either would be over', async () => {
    const { store } = open();
    const request = (secondLimit: number) => [
      counterOp({ key: 'minute', limit: 9 }),
      counterOp({ key: 'second', limit: secondLimit, perSecond: true }),
    ];
    await submit(store, request(1), { stopWhenOver: true });
    const held = await submit(store, request(1), { stopWhenOver: true });
    expect(held.map(({ applied, after }) => [applied, after])).toEqual([
      [0, 1],
      [1, 2],
    ]);
  });

  it('answers what one store counted when the other fails', async () => {
    const { perSecond, store } = open();
    await perSecond.close();
    const ops = await submit(store, [counterOp({ key: 'a' }), counterOp({ key: 'b', perSecond: true })]);
    expect(ops.map(({ after, error }) => [after, error?.message])).toEqual([
      [1, undefined],
      [0, 'memory store is closed'],
    ]);
  });
});
