import fc from 'fast-check';
import { RE2JS } from 're2js';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../../test/support/property-cases.ts';
import { literalEnd } from './mapper.ts';

describe('literalEnd', () => {
  for (const [expression, end] of [
    ['^a\\.([^.]*)\\.over_limit$', '.over_limit'],
    ['abc$', 'abc'],
    ['a(?:b)?c\\.d$', 'c.d'],
    ['over_limit', ''],
    ['a|b$', ''],
    ['(?i)abc$', ''],
    ['a\\$', ''],
    ['\\x41bc$', ''],
    ['\\Qa.b\\E$', ''],
    ['\\dabc$', ''],
    ['[abc]$', ''],
    ['a*$', ''],
    ['', ''],
    ['$', ''],
  ] as const) {
    it(`is ${JSON.stringify(end)} for ${expression}`, () => expect(literalEnd(expression)).toBe(end));
  }

  it('is the end of all that is matched', () => {
    const part = fc.constantFrom(
      'a',
      'b',
      '\\.',
      '.',
      '\\d',
      '[ab]',
      '(a)',
      '(?:b)',
      'a?',
      'b*',
      '(a|b)',
      '^',
      '$',
    );
    const expressions = fc.array(part, { maxLength: 6 }).map((parts) => parts.join(''));
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '.', '1'), maxLength: 8 });
    fc.assert(
      fc.property(expressions, text, (expression, one) => {
        const isFound = RE2JS.compile(expression).matcher(one).find();
        if (isFound) expect(one.endsWith(literalEnd(expression))).toBe(true);
      }),
      { numRuns: caseCount(20_000) },
    );
  });
});
