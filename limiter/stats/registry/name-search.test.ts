import { describe, expect, it } from 'vitest';
import { maxGroupSteps, NameSearch } from './name-search.ts';

describe('a search', () => {
  it('finds the first match and its groups', () => {
    const search = new NameSearch('a(?P<mid>b*)(c)?');
    expect(search).toMatchObject({ groupCount: 2, namedGroups: { mid: 1 } });
    const groups = search.find('x.abba')!;
    expect([0, 1, 2, 3].map(groups)).toEqual(['abb', 'bb', undefined, undefined]);
    expect(search.find('xyz')).toBeUndefined();
    expect(search.cost).toBeGreaterThan(0);
  });

  it('matches a name whose groups would take too long, and has no groups', () => {
    const search = new NameSearch('(.*)a.{1,200}b$');
    expect(search.find('xacb')!(1)).toBe('x');
    const long = `${'a'.repeat(maxGroupSteps / 200)}b`;
    expect(search.find(long)!(1)).toBeUndefined();
    expect(search.find(`${long}c`)).toBeUndefined();
  });
});
