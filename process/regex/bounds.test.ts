import { RE2JS } from 're2js';
import { describe, expect, it } from 'vitest';
import { Automaton } from './automaton.ts';
import { writtenSize } from './expression.ts';

describe('writtenSize', () => {
  it.each([
    ['abc', 3],
    ['a{3}', 3],
    ['a{2,5}b', 6],
    ['a{3,}', 3],
    ['a{0,}', 1],
    ['a{0}b', 1],
    ['(ab){3}', 6],
    ['((?:ab|c){3}d){2}', 20],
    ['(?P<name>ab){2}', 4],
    ['(?i)a(?-i:b)', 2],
    ['[a{3}]{2}', 2],
    ['[]a]{2}[^]]', 3],
    ['[[:alpha:]\\]]{4}', 4],
    ['\\{3}', 3],
    ['a{,3}', 5],
    ['\\x{41}{2}\\x41{2}', 4],
    ['\\p{Greek}{2}\\pL{2}', 4],
    ['\\Qa{3}\\E{2}', 8],
    ['^\\ba$', 1],
    ['a|b', 2],
    ['𝒳{2}', 2],
    ['\\141{2}', 2],
  ])('of %s is %i states', (expression, states) => {
    expect(writtenSize(expression).states).toBeGreaterThanOrEqual(states);
    const compiled = new Automaton(RE2JS.compile(expression)).stateCount;
    expect(writtenSize(expression).states).toBeGreaterThanOrEqual(compiled);
    expect(writtenSize(expression).states).toBeLessThanOrEqual(states + 4);
  });

  it('names the repetition that accounts for most states', () => {
    expect(writtenSize('é(?:a{30}b){20}c{9}').largest).toEqual({ text: '{20}', position: 12, states: 620 });
    expect(writtenSize('abc').largest).toBeUndefined();
  });

  it('reads text that is no expression', () => {
    for (const text of ['(', ')', '[', '[a', '\\', 'a{2', '{3}', ')))a{2}', '\\Qa', '(?P<'])
      expect(writtenSize(text).states).toBeLessThan(10);
  });
});
