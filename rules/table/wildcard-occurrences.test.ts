import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NaiveMatcher } from '../../test/support/naive-matcher.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { compileRules } from './compile-rules.ts';
import { AutomatonCompiler } from './compile-wildcards.ts';
import { RuleTable } from './rule-table.ts';
import { Occurrences } from './wildcard-index.ts';

function occurrencesOf(literals: readonly string[]): { root: number; found: Occurrences } {
  const automata = new AutomatonCompiler();
  const root = automata.add(literals.map((text, id) => ({ text, id })));
  const sections = {
    states: automata.states.toWords(),
    labels: automata.labels.toUnits(),
    literals: Int32Array.from(literals, (literal) => literal.length),
  };
  return { root, found: new Occurrences(sections) };
}

/** Every answer about every literal and position, and what is said to be found. */
function answers(literals: readonly string[], found: Occurrences, size: number): unknown {
  const firsts = literals.map((_, id) =>
    Array.from({ length: size + 1 }, (_, position) => found.firstFrom(id, position)),
  );
  return { firsts, found: [...found.found.slice(0, found.foundCount)].sort((a, b) => a - b) };
}

function plainAnswers(literals: readonly string[], text: string, { from, to }: { from: number; to: number }) {
  const firstFrom = (literal: string, position: number) => {
    const start = text.slice(0, to).indexOf(literal, Math.max(from, position));
    return start;
  };
  const firsts = literals.map((literal) =>
    Array.from({ length: text.length + 1 }, (_, position) => firstFrom(literal, position)),
  );
  return { firsts, found: literals.flatMap((literal, id) => (firstFrom(literal, 0) < 0 ? [] : [id])) };
}

describe('Occurrences', () => {
  it.each([1, 5])('answers as a plain search does in texts of pieces that come %i times', (times) => {
    const letters = fc.array(fc.constantFrom('a', 'a', 'a', 'b'), { minLength: 1, maxLength: 12 });
    const nested = letters.map((list) => list.map((_, i) => list.slice(i).join('')));
    const literals = fc.tuple(nested, nested).map(([a, b]) => [...new Set([...a, ...b])]);
    const text = fc.array(fc.constantFrom('a', 'aaaa', 'aaaaaaaaaaaaa', 'b'), { maxLength: 14 });
    fc.assert(
      fc.property(
        literals,
        fc.array(fc.tuple(text, fc.nat(4), fc.nat(4)), { minLength: 1, maxLength: 3 }),
        (list, scans) => {
          const { root, found } = occurrencesOf(list);
          for (const [pieces, before, after] of scans) {
            const value = pieces.join('').repeat(times);
            const from = Math.min(before, value.length);
            const to = Math.max(from, value.length - after);
            found.scan(root, value, { from, to });
            expect(answers(list, found, value.length)).toEqual(plainAnswers(list, value, { from, to }));
            found.release();
          }
        },
      ),
      { numRuns: caseCount(150) },
    );
  });

  it('keeps blocks of more than 8 characters apart in a long text', () => {
    const literals = ['a', 'ba', 'x', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbba'];
    const { root, found } = occurrencesOf(literals);
    const pieces = Array.from({ length: 300 }, (_, i) => `${'b'.repeat((i * 37) % 101)}a`);
    const text = `${pieces.join('')}x${pieces.join('')}`;
    found.scan(root, text, { from: 0, to: text.length });
    expect(text.length).toBeGreaterThan(32 * 512);
    for (const [id, literal] of literals.entries()) {
      for (let position = 0; position <= text.length; position += 7) {
        expect(found.firstFrom(id, position)).toBe(text.indexOf(literal, position));
      }
    }
  });
});

describe('patterns whose literals are suffixes of one another', () => {
  it('match as the naive matcher says on texts with very many occurrences', () => {
    const count = 100;
    const patterns = Array.from(
      { length: count },
      (_, i) => `*${'a'.repeat(i + 1)}*c${i}*${'a'.repeat(i % 7)}`,
    );
    const rules = [
      source(
        'd',
        patterns.map((value) => rule({ key: 'k', value, rateLimit: limit() })),
      ),
    ];
    const table = new RuleTable(compileRules(rules));
    const naive = new NaiveMatcher(rules);
    for (const [before, marks, after] of [
      [800, 'c7c9', 0],
      [95, 'c99c98c97c96c95c94c93', 750],
      [800, '', 0],
      [3, 'c3', 800],
    ] as const) {
      const entries = [{ key: 'k', value: `${'a'.repeat(before)}${marks}${'a'.repeat(after)}` }];
      expect(table.match('d', entries)).toEqual(naive.match('d', entries));
    }
  });
});
