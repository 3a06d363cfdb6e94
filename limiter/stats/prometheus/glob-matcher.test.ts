import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../../test/support/property-cases.ts';
import { GlobMatcher, globCaptures } from './mapper.ts';

function matches(pattern: string, name: string): boolean {
  const [parts, segments] = [pattern.split('.'), name.split('.')];
  return parts.length === segments.length && parts.every((part, i) => part === '*' || part === segments[i]);
}

/** Returns the matching pattern that, at its first difference from each other one, has a text rather than `*`. */
function mostSpecific(patterns: readonly string[], name: string): number | undefined {
  const shape = (pattern: string) =>
    pattern
      .split('.')
      .map((part) => (part === '*' ? '1' : '0'))
      .join('');
  return patterns
    .map((pattern, index) => ({ pattern, index }))
    .filter(({ pattern }) => matches(pattern, name))
    .sort((a, b) => shape(a.pattern).localeCompare(shape(b.pattern)) || a.index - b.index)[0]?.index;
}

function matcher(patterns: readonly string[], isMostSpecific = false): GlobMatcher {
  const made = new GlobMatcher({ mostSpecific: isMostSpecific });
  for (const [index, pattern] of patterns.entries()) made.add(pattern, index);
  return made;
}

const segment = fc.constantFrom('a', 'b', 'c', '');
const name = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('.'));
const pattern = fc
  .array(fc.constantFrom('a', 'b', 'c', '*'), { minLength: 1, maxLength: 4 })
  .map((parts) => parts.join('.'));
const patterns = fc.array(pattern, { maxLength: 12 });

describe('GlobMatcher', () => {
  it('finds the first pattern that matches segment by segment', () => {
    fc.assert(
      fc.property(patterns, name, (all, one) => {
        const first = all.findIndex((candidate) => matches(candidate, one));
        expect(matcher(all).find(one)).toBe(first === -1 ? undefined : first);
      }),
      { numRuns: caseCount(2_000) },
    );
  });

  it('finds the most specific one from left to right if order does not count', () => {
    fc.assert(
      fc.property(patterns, name, (all, one) => {
        expect(matcher(all, true).find(one)).toBe(mostSpecific(all, one));
      }),
      { numRuns: caseCount(2_000) },
    );
  });

  it('lets an earlier rule win over a more specific one', () => {
    expect(matcher(['a.*', 'a.b']).find('a.b')).toBe(0);
    expect(matcher(['a.*', 'a.b'], true).find('a.b')).toBe(1);
  });

  it('comes back from a branch that leads nowhere', () => {
    expect(matcher(['a.b.c', 'a.*.d']).find('a.b.d')).toBe(1);
  });
});

describe('globCaptures', () => {
  it('gives the segments at the asterisks', () => {
    expect(globCaptures('a.*.b.*', 'a.1.b.two')).toEqual(['1', 'two']);
  });
});
