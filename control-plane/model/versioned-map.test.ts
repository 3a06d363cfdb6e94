import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { changedKeys, VersionedMap } from './versioned-map.ts';

const key = fc.integer({ min: 0, max: 30 }).map(String);
const changes = fc.array(fc.tuple(key, fc.option(fc.nat(3), { nil: undefined })), { maxLength: 8 });

describe('VersionedMap', () => {
  it('has in each version what a map has that is changed in the same way', () => {
    fc.assert(
      fc.property(fc.array(changes, { maxLength: 90 }), (rounds) => {
        const model = new Map<string, number>();
        const versions = [{ map: VersionedMap.of<number>(), copy: new Map(model) }];
        for (const round of rounds) {
          const before = versions.at(-1)!.map;
          const map = before.with(new Map(round));
          for (const [changed, value] of new Map(round)) {
            if (value === undefined) model.delete(changed);
            else model.set(changed, value);
          }
          if (changedKeys(model, versions.at(-1)!.copy).size === 0) expect(map).toBe(before);
          versions.push({ map, copy: new Map(model) });
        }
        const { map: newest, copy: last } = versions.at(-1)!;
        for (const { map, copy } of versions) {
          expect(new Map(map)).toEqual(copy);
          expect([map.size, [...map.keys()].length, [...map.values()].length]).toEqual(
            Array(3).fill(copy.size),
          );
          expect(changedKeys(newest, map)).toEqual(changedKeys(last, copy));
          expect(changedKeys(map, newest)).toEqual(changedKeys(copy, last));
        }
      }),
      { numRuns: caseCount(200) },
    );
  });

  it('keeps the order of a map', () => {
    const map = VersionedMap.of<number>(['a', 'b', 'c', 'd', 'e'].map((one) => [one, 1] as const));
    const next = map.with(new Map([['a', 2]])).with(new Map([['b', undefined]]));
    expect([...next.with(new Map([['f', 1]])).keys()]).toEqual(['a', 'c', 'd', 'e', 'f']);
  });

  it('knows what differs without a look at all entries', () => {
    const map = VersionedMap.of<number>(
      Array.from({ length: 1_000 }, (_, index) => [`${index}`, 1] as const),
    );
    const next = map.with(new Map([['7', 2]])).with(new Map([['9', 2]]));
    expect(next.keysSince(map)).toEqual(new Set(['7', '9']));
    expect(map.keysSince(next)).toBeUndefined();
  });

  it('does not take versions that were made of one map for versions of each other', () => {
    const map = VersionedMap.of<number>([['a', 1]]);
    const [one, other] = [map.with(new Map([['b', 1]])), map.with(new Map([['c', 1]]))];
    expect(one.keysSince(other)).toBeUndefined();
    expect(changedKeys(one, other)).toEqual(new Set(['b', 'c']));
  });
});
