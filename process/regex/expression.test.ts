import { describe, expect, it } from 'vitest';
import {
  automatonOf,
  type CostBudget,
  ExpressionError,
  maxLength,
  newCostBudget,
  spend,
} from './expression.ts';

function problemOf(text: string, budget: CostBudget = newCostBudget()): string {
  try {
    spend(budget, text, automatonOf(text).stepCost);
  } catch (error) {
    expect(error).toBeInstanceOf(ExpressionError);
    return (error as Error).message;
  }
  return expect.unreachable(`${text} is within the bounds`);
}

describe('an expression', () => {
  it('that is none is rejected in the words of RE2', () => {
    expect(problemOf('(')).toBe('error parsing regexp: missing closing ): `(`');
    expect(problemOf('(?=a)')).toContain('invalid or unsupported Perl syntax');
  });

  it('of too many characters is rejected', () => {
    expect(problemOf('a|'.repeat(maxLength))).toBe(
      'the expression has 8,192 characters, and at most 4,096 are allowed',
    );
  });

  it('of too many states is rejected before it is compiled, with the repetition and its position', () => {
    expect(problemOf('/é/(?:\\pL{1,40}x){30}')).toBe(
      'the expression needs 1,233 states, and at most 1,000 are allowed; {30} at character 18 accounts for 1,230 states',
    );
    expect(problemOf('a{1001}')).toContain('{1001} at character 2 accounts for 1,001 states');
    expect(problemOf('a{900000000}{900000000}')).toContain('at most 1,000');
    expect(problemOf('abc'.repeat(334))).toBe(
      'the expression needs 1,002 states, and at most 1,000 are allowed',
    );
  });

  it.each([
    [`${'(?:(?:|\\b)*){1000}'.repeat(100)}a`, '600,001'],
    ['((\\b){1000}a)'.repeat(30), '90,060'],
  ])('of very many parts that read no character is rejected before it is compiled', (text, parts) => {
    expect(problemOf(text)).toBe(
      `the expression has ${parts} parts with its repetitions written out, and at most 10,000 are allowed`,
    );
  });

  it('that costs too much on the largest request is rejected', () => {
    expect(problemOf('(a.{0,9}b.{0,9}){25}x')).toMatch(
      /^the expression costs [\d,]+ for each byte of a text, and at most 122 are allowed together; \{25} at character 17 /,
    );
  });

  it('is rejected if those before it leave too little', () => {
    const budget = newCostBudget();
    const expression = '.*/.{1,64}/.{1,64}/export';
    const { stepCost } = automatonOf(expression);
    const fitting = Math.floor(budget.max / stepCost);
    for (let i = 0; i < fitting; i += 1) spend(budget, expression, stepCost);
    expect(problemOf(expression, budget)).toBe(
      `the expressions up to here cost ${stepCost * (fitting + 1)} for each byte of a text, this one ${stepCost}, ` +
        'and at most 122 are allowed together; {1,64} at character 5 accounts for 64 states',
    );
  });

  it('of a kind that people write costs little: twenty-five of them fit', () => {
    const budget = newCostBudget();
    const written = [
      '/api/v[0-9]+/.*',
      '(?i)(curl|wget|python-requests)/.*',
      '^/users/\\d{1,12}(/.*)?$',
      '.*\\.php',
    ];
    for (let i = 0; i < 25; i += 1) {
      const text = written[i % written.length]!;
      spend(budget, text, automatonOf(text).stepCost);
    }
  });

  it('may cost less if texts are longer', () => {
    expect(newCostBudget(65_536).max).toBe(61);
  });
});
