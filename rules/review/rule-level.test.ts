import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { patternMatches } from '../model.ts';
import { patternsOverlap } from './rule-level.ts';

const pattern = fc.array(fc.constantFrom('a', 'b', '*'), { maxLength: 5 }).map((list) => list.join(''));

/** All texts of two letters and a third one that no pattern has, up to a length. */
function texts(longest: number): string[] {
  let last = [''];
  const all = [''];
  for (let length = 1; length <= longest; length++) {
    last = last.flatMap((text) => ['a', 'b', 'x'].map((letter) => text + letter));
    all.push(...last);
  }
  return all;
}

/** Each `*` as any text. */
function naive(written: string): RegExp {
  return new RegExp(`^${written.replaceAll('*', '[^]*')}$`);
}

describe('patterns', () => {
  const some = texts(6);

  it('match as the regular expression does', () => {
    fc.assert(
      fc.property(pattern, (one) => {
        const expression = naive(one);
        for (const text of some) expect(patternMatches(one, text)).toBe(expression.test(text));
      }),
      { numRuns: caseCount(60) },
    );
  });

  it('overlap exactly when some text matches both', () => {
    fc.assert(
      fc.property(pattern, pattern, (a, b) => {
        const common = texts(8).some((text) => naive(a).test(text) && naive(b).test(text));
        expect(patternsOverlap(a, b)).toBe(common);
      }),
      { numRuns: caseCount(60) },
    );
  });
});
