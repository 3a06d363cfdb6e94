import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Heap } from './heap.ts';

interface Weighed {
  weight: number;
  place: number;
}

const act = fc.oneof(
  fc.record({ add: fc.nat(20) }),
  fc.record({ remove: fc.nat() }),
  fc.record({ move: fc.nat(), to: fc.nat(20) }),
);

describe('Heap', () => {
  it('has a member first that no other one goes before, whatever was added, moved and removed', () => {
    fc.assert(
      fc.property(fc.array(act, { maxLength: 60 }), (acts) => {
        const heap = new Heap<Weighed>(
          (one, other) => one.weight < other.weight,
          (member, place) => {
            member.place = place;
          },
        );
        const expected: Weighed[] = [];
        for (const one of acts) {
          if ('add' in one) {
            const member = { weight: one.add, place: -1 };
            expected.push(member);
            heap.add(member);
          } else if (expected.length > 0 && 'remove' in one) {
            const [gone] = expected.splice(one.remove % expected.length, 1);
            heap.remove(gone!.place);
          } else if (expected.length > 0 && 'move' in one) {
            const member = expected[one.move % expected.length]!;
            member.weight = one.to;
            heap.moved(member.place);
          }
          expect(heap.size).toBe(expected.length);
          expect(heap.members.map(({ place }) => place)).toEqual([...expected.keys()]);
          expect(new Set(heap.members)).toEqual(new Set(expected));
          const lightest = Math.min(...expected.map(({ weight }) => weight));
          expect(heap.first?.weight ?? Number.POSITIVE_INFINITY).toBe(lightest);
        }
      }),
    );
  });

  it('gives its members in order', () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), (numbers) => {
        const heap = new Heap<number>((one, other) => one < other);
        for (const number of numbers) heap.add(number);
        const taken = numbers.map(() => {
          const first = heap.first;
          heap.remove();
          return first;
        });
        expect(taken).toEqual(numbers.toSorted((one, other) => one - other));
        expect([heap.first, heap.size]).toEqual([undefined, 0]);
      }),
    );
  });
});
