/** The automaton matches what RE2JS matches, which passes the tests of RE2 and Go. */
import fc from 'fast-check';
import { RE2JS } from 're2js';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { Automaton } from './automaton.ts';

const atom = fc.constantFrom(
  ...[
    'a',
    'b',
    '/',
    '.',
    'é',
    'ß',
    'k',
    '𝒳',
    '\\n',
    '\\.',
    '\\d',
    '\\w',
    '\\W',
    '\\s',
    '\\S',
    '\\pL',
    '\\x{212a}',
  ],
  ...[
    '[ab]',
    '[^a]',
    '[a-f0-9]',
    '[^\\n]',
    '[[:alpha:]]',
    '[é-ü]',
    '\\P{Greek}',
    '(?i:k)',
    '(?i:é)',
    '(?s:.)',
    '\\Qa.\\E',
  ],
  ...['^', '$', '\\b', '\\B', '\\A', '\\z', '(?m:^)', '(?m:$)', '(?:)'],
);
const repetition = fc.constantFrom('', '', '', '*', '+', '?', '*?', '{2}', '{1,3}', '{0,9}', '{3,}', '{0}');
const expression = fc.letrec<{ any: string }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    atom,
    fc.tuple(tie('any'), repetition).map(([one, times]) => `(?:${one})${times}`),
    fc.array(tie('any'), { maxLength: 5 }).map((parts) => parts.join('')),
    fc.array(tie('any'), { minLength: 2, maxLength: 3 }).map((parts) => `(${parts.join('|')})`),
  ),
})).any;
const flags = fc.constantFrom('', '', '', '(?i)', '(?s)', '(?m)', '(?im)');
const unit = fc.constantFrom(
  'a',
  'b',
  'A',
  'k',
  'K',
  '\u212a',
  '/',
  '.',
  '1',
  ' ',
  '\n',
  'é',
  'É',
  'ß',
  '\ufffd',
  '𝒳',
  'ω',
);
const text = fc.array(unit, { maxLength: 12 }).map((units) => units.join(''));

/** Nothing where repetitions in each other are more than RE2 takes. */
function compiledOrNothing(text: string): RE2JS | undefined {
  try {
    return RE2JS.compile(text);
  } catch {
    return undefined;
  }
}

describe('an automaton', () => {
  it.each([
    ['whole texts', false],
    ['parts of texts', true],
  ])('matches %s as RE2 does', (_, isAnywhere) => {
    const texts = fc.array(text, { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(flags, expression, texts, (before, rest, ones) => {
        const compiled = compiledOrNothing(before + rest);
        fc.pre(compiled !== undefined);
        const automaton = new Automaton(compiled, { isAnywhere });
        for (const one of ones)
          expect([one, automaton.matches(one)]).toEqual([
            one,
            isAnywhere ? compiled.matcher(one).find() : compiled.matches(one),
          ]);
      }),
      { numRuns: caseCount(1_500) },
    );
  });

  /** More states than a table has sets for, in several words. */
  it.each([
    [
      '.*/.{1,64}/.{1,64}/export',
      ['/a/b/export', `/${'a'.repeat(64)}/b/export`, `${'/a'.repeat(90)}/export`],
    ],
    ['.*a.{40}c', [`a${'b'.repeat(40)}c`, `${'ab'.repeat(40)}c`]],
    ['(?m).*\\bx(a|b){20,60}$\\n.*é', [`x${'ab'.repeat(15)}\né`, `- x${'ab'.repeat(15)}\nab\né`]],
  ])('of many states matches as RE2 does: %s', (expression, matching) => {
    const compiled = RE2JS.compile(expression);
    const automaton = new Automaton(compiled);
    const near = matching.flatMap((one) => Array.from(one, (_, i) => one.slice(0, i) + one.slice(i + 1)));
    const longer = matching.flatMap((one) => [
      `${one}a`,
      `a${one}`,
      `${one}\n`,
      `/${one}`,
      one.replace('a', '/'),
    ]);
    for (const one of [...matching, ...near, ...longer, ''])
      expect([one, automaton.matches(one)]).toEqual([one, compiled.matches(one)]);
  });

  it('does not take the begin of a part for the begin of the text', () => {
    expect(new Automaton(RE2JS.compile('^a'), { isAnywhere: true }).matches('ba')).toBe(false);
    expect(new Automaton(RE2JS.compile('a$'), { isAnywhere: true }).matches('b\na')).toBe(true);
    expect(new Automaton(RE2JS.compile('a$'), { isAnywhere: true }).matches('a\nb')).toBe(false);
  });
});
