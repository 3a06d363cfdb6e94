import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Expiring, ExpiryQueue } from './expiry-queue.ts';

const newElement = (expiresAtMs: number): Expiring => ({
  expiresAtMs,
  queuedTick: 0,
  nextInTick: undefined,
});

describe('ExpiryQueue', () => {
  it('gives elements in the order of the seconds they end in', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(100_000)), (ends) => {
        const queue = new ExpiryQueue<Expiring>();
        for (const end of ends) queue.add(newElement(end));
        const taken = ends.map(() => Math.ceil((queue.take() as Expiring).expiresAtMs / 1000));
        expect(taken).toEqual(ends.map((end) => Math.ceil(end / 1000)).sort((a, b) => a - b));
        expect(queue.take()).toBeUndefined();
      }),
    );
  });

  it('gives only what has ended, and that completely', () => {
    const step = fc.record({ addEnd: fc.nat(30_000), takeAt: fc.nat(30_000) });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const queue = new ExpiryQueue<Expiring>();
        let held: number[] = [];
        for (const { addEnd, takeAt } of steps) {
          queue.add(newElement(addEnd));
          held.push(addEnd);
          const taken: number[] = [];
          for (let one = queue.takeEndedBy(takeAt); one !== undefined; one = queue.takeEndedBy(takeAt)) {
            taken.push(one.expiresAtMs);
          }
          const ended = held.filter((end) => Math.ceil(end / 1000) * 1000 <= takeAt);
          held = held.filter((end) => Math.ceil(end / 1000) * 1000 > takeAt);
          expect(taken.sort((a, b) => a - b)).toEqual(ended.sort((a, b) => a - b));
        }
      }),
    );
  });
});
