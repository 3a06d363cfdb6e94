import { describe, expect, it } from 'vitest';
import { NaiveMatcher } from '../../test/support/naive-matcher.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { compileRules } from './compile-rules.ts';
import { RuleTable } from './rule-table.ts';

function tableOf(patterns: Iterable<string>): RuleTable {
  const rules = Array.from(patterns, (value) => rule({ key: 'k', value, rateLimit: limit() }));
  return new RuleTable(compileRules([source('d', rules)]));
}

function matched(table: RuleTable, value: string): string | undefined {
  return table.match('d', [{ key: 'k', value }])?.metricKey;
}

describe('the wildcard index', () => {
  const tables: { patterns: string[]; value: string; first: string | undefined }[] = [
    { patterns: ['a/*/b'], value: 'a/1/b', first: 'a/*/b' },
    { patterns: ['a/*/b'], value: 'a/1/c', first: undefined },
    { patterns: ['a*a'], value: 'a', first: undefined },
    { patterns: ['a*a'], value: 'aa', first: 'a*a' },
    { patterns: ['*b', 'a*'], value: 'ab', first: '*b' },
    { patterns: ['a*', '*b'], value: 'ab', first: 'a*' },
    { patterns: ['a*', 'ab*', 'abc*'], value: 'abcd', first: 'a*' },
    { patterns: ['abc*', 'ab*', 'a*'], value: 'abcd', first: 'abc*' },
    { patterns: ['*xy*yz*'], value: 'xyz', first: undefined },
    { patterns: ['*xy*yz*'], value: 'xyyz', first: '*xy*yz*' },
    { patterns: ['a*aa*a'], value: 'aaa', first: undefined },
    { patterns: ['a*aa*a'], value: 'aaaa', first: 'a*aa*a' },
    { patterns: ['*x*y*', '*y*x*'], value: 'yx', first: '*y*x*' },
    { patterns: ['**', '*'], value: '', first: '**' },
    { patterns: ['a*b*c', 'a*c', 'a*d*c'], value: 'adc', first: 'a*c' },
    { patterns: ['*aab*'], value: 'aaab', first: '*aab*' },
    { patterns: ['*abab*b', '*bab*'], value: 'ababa', first: '*bab*' },
  ];
  for (const { patterns, value, first } of tables) {
    it(`finds ${first ?? 'nothing'} for '${value}' among ${patterns.join(' ')}`, () => {
      expect(matched(tableOf(patterns), value)).toBe(first === undefined ? undefined : `d.k_${first}`);
    });
  }

  it('finds the first among more suffixes, literals and groups than its lists have room for at first', () => {
    const numbers = Array.from({ length: 90 }, (_, i) => i);
    const nested = numbers.slice(1, 40).map((n) => `${'a'.repeat(n % 7)}*${'b'.repeat(n)}`);
    const patterns = [...nested.toReversed(), ...numbers.map((n) => `*<${n}>*${'c'.repeat(n % 3)}`)];
    const rules = [
      source(
        'd',
        patterns.map((value) => rule({ key: 'k', value, rateLimit: limit() })),
      ),
    ];
    const table = new RuleTable(compileRules(rules));
    const naive = new NaiveMatcher(rules);
    const all = numbers.map((n) => `<${n}>`).join('');
    const values = [
      ...numbers.map((n) => `${'a'.repeat(n % 9)}${'b'.repeat(n)}`),
      ...[all, `${all}c`, `${all.slice(0, -1)}cc`, all.slice(4), `x${all.slice(12)}bb`],
    ];
    for (const value of values) {
      const entries = [{ key: 'k', value }];
      expect(table.match('d', entries)?.metricKey).toBe(naive.match('d', entries)?.metricKey);
    }
  });

  it('keeps the levels of different parents apart', () => {
    const child = (value: string) => rule({ key: 'c', value, rateLimit: limit() });
    const rules = [
      rule({ key: 'a', descriptors: [child('*x*y*')] }),
      rule({ key: 'b', descriptors: [child('*y*x*')] }),
    ];
    const table = new RuleTable(compileRules([source('d', rules)]));
    const request = (key: string, value: string) => [
      { key, value: '' },
      { key: 'c', value },
    ];
    expect(table.match('d', request('a', 'xy'))?.metricKey).toBe('d.a.c_*x*y*');
    expect(table.match('d', request('a', 'yx'))).toBeUndefined();
    expect(table.match('d', request('b', 'yx'))?.metricKey).toBe('d.b.c_*y*x*');
  });

  it('keeps nothing of a long value that changes a later match', () => {
    const fill = (text: string) => text.repeat(Math.ceil(65_536 / text.length)).slice(0, 65_536);
    const table = tableOf(['*aa*', '*b*c*']);
    expect(matched(table, fill('ab'))).toBeUndefined();
    expect(matched(table, 'bc')).toBe('d.k_*b*c*');
    expect(matched(table, 'cb')).toBeUndefined();
    expect(matched(table, fill('a'))).toBe('d.k_*aa*');
    expect(matched(table, 'a')).toBeUndefined();
  });
});
