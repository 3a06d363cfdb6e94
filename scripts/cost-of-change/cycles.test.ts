import { describe, expect, it } from 'vitest';
import { cyclesOf } from './cycles.ts';

const cycles = (imports: Record<string, string[]>) => cyclesOf(new Map(Object.entries(imports)));

describe('import cycles', () => {
  it('are none if imports point one way', () => {
    expect(cycles({ a: ['b', 'c'], b: ['c'], c: [] })).toEqual({ groups: [], imports: [] });
  });

  it('are counted by groups, with the imports within them', () => {
    expect(
      cycles({ a: ['b', 'd'], b: ['c'], c: ['a'], d: ['e', 'a'], e: ['f'], f: ['e', 'g'], g: [] }),
    ).toEqual({
      groups: [
        ['a', 'b', 'c', 'd'],
        ['e', 'f'],
      ],
      imports: ['a -> b', 'a -> d', 'b -> c', 'c -> a', 'd -> a', 'e -> f', 'f -> e'],
    });
  });

  it('grow by imports when two groups become one', () => {
    const apart = cycles({ a: ['b'], b: ['a'], c: ['d'], d: ['c'] });
    const joined = cycles({ a: ['b'], b: ['a', 'c'], c: ['d'], d: ['c', 'a'] });
    expect([apart.groups.length, joined.groups.length]).toEqual([2, 1]);
    expect([apart.imports.length, joined.imports.length]).toEqual([4, 6]);
  });

  it('leave out what is not counted', () => {
    expect(cycles({ a: ['a.test', 'a'] })).toEqual({ groups: [['a']], imports: ['a -> a'] });
  });
});
