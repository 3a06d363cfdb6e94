import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../../test/support/property-cases.ts';
import { SortedNames } from './slot-table.ts';

describe('SortedNames', () => {
  it('gives every slot once, by name, over any number of runs', () => {
    const count = fc.integer({ min: 0, max: 20_000 });
    fc.assert(
      fc.property(count, fc.integer({ min: 1, max: 20_000 }), (slots, different) => {
        // A multiplicative walk spreads the names over all runs; a small range makes many of them equal.
        const names = Array.from({ length: slots }, (_, slot) => `n${(slot * 7919) % different}`);
        const sorted = new SortedNames({ nameOf: (slot) => names[slot] as string, generationOf: () => 1 });
        for (let slot = 0; slot < slots; slot += 1) sorted.add(slot);
        const read = [...sorted.slots()];
        expect(read.map((slot) => names[slot])).toEqual([...names].sort());
        expect(new Set(read).size).toBe(slots);
      }),
      { numRuns: caseCount(30) },
    );
  });

  it('gives what is there, under its present name, however slots come, go and come again', () => {
    const step = fc.record({ slot: fc.nat(400), goes: fc.boolean(), name: fc.nat(1000) });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1000, maxLength: 8000, size: 'max' }), (steps) => {
        const names = new Map<number, string>();
        const generations = new Map<number, number>();
        const sorted = new SortedNames({
          nameOf: (slot) => names.get(slot) as string,
          generationOf: (slot) => (names.has(slot) ? (generations.get(slot) as number) : 0),
        });
        for (const { slot, goes, name } of steps) {
          if (names.has(slot) && goes) {
            names.delete(slot);
            sorted.remove();
          } else if (!names.has(slot)) {
            generations.set(slot, (generations.get(slot) ?? 0) + 1);
            names.set(slot, `n${name}.${slot}`);
            sorted.add(slot);
          }
        }
        expect([...sorted.slots()].map((slot) => names.get(slot))).toEqual([...names.values()].sort());
      }),
      { numRuns: caseCount(20) },
    );
  });

  it('leaves out what is added while it is read', () => {
    const sorted = new SortedNames({
      nameOf: (slot) => String(slot).padStart(6, '0'),
      generationOf: () => 1,
    });
    for (let slot = 0; slot < 3000; slot += 1) sorted.add(slot);
    const seen: number[] = [];
    for (const slot of sorted.slots()) {
      seen.push(slot);
      if (slot < 3000) sorted.add(10_000 + slot);
    }
    expect(seen).toEqual(Array.from({ length: 3000 }, (_, slot) => slot));
  });
});
