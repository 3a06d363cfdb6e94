import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { totalAfter } from '../folded-run.ts';
import { OwedHits } from './owed-counters.ts';

const step = fc.record({ hits: fc.nat(9), negative: fc.boolean() });
type Step = { hits: number; negative: boolean };

function owe(owed: OwedHits, steps: readonly Step[]): OwedHits {
  for (const { hits, negative } of steps) {
    if (negative) owed.takeBack(hits);
    else owed.add(hits);
  }
  return owed;
}

function oneByOne(total: number, steps: readonly Step[]): number {
  return steps.reduce((before, { hits, negative }) => totalAfter(before, hits, negative), total);
}

describe('OwedHits', () => {
  it('does with one subtraction and one addition what all steps do one by one', () => {
    fc.assert(
      fc.property(fc.nat(30), fc.array(step), (total, steps) => {
        const owed = owe(new OwedHits(), steps);
        const delivered = totalAfter(totalAfter(total, owed.toTakeBack, true), owed.toAdd, false);
        expect([delivered, owed.appliedTo(total)]).toEqual([oneByOne(total, steps), oneByOne(total, steps)]);
      }),
    );
  });

  it('takes over what came later', () => {
    fc.assert(
      fc.property(fc.nat(30), fc.array(step), fc.array(step), (total, first, later) => {
        const owed = owe(new OwedHits(), first);
        owed.follow(owe(new OwedHits(), later));
        expect(owed.appliedTo(total)).toBe(oneByOne(total, [...first, ...later]));
      }),
    );
  });

  it('stays a safe integer', () => {
    const owed = new OwedHits();
    for (let i = 0; i < 3; i += 1) owed.add(Number.MAX_SAFE_INTEGER);
    expect(owed.toAdd).toBe(Number.MAX_SAFE_INTEGER);
    for (let i = 0; i < 3; i += 1) owed.takeBack(Number.MAX_SAFE_INTEGER);
    expect([owed.toAdd, Number.isSafeInteger(owed.toTakeBack)]).toEqual([0, true]);
  });
});
