import { describe, expect, it } from 'vitest';
import { cpuMs } from '../../test/support/cpu-time.ts';
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

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
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
});

/** Each would take seconds if every pattern were tried on the text, or every position with every length. */
describe('values of 64 KiB made to be slow', () => {
  const size = 65_536;
  const fill = (text: string) => text.repeat(Math.ceil(size / text.length)).slice(0, size);
  const literals = numbers(70).map((i) => `<${i}>`);
  const cases: { name: string; patterns: string[]; value: string; first: string | undefined }[] = [
    {
      name: 'all literals of all patterns, in the wrong order',
      patterns: literals.flatMap((a, i) => literals.slice(i + 1).map((b) => `p*${a}*${b}*${a}*s`)),
      value: `p${literals
        .toReversed()
        .map((text) => text.repeat(200))
        .join('')}s`,
      first: undefined,
    },
    {
      name: 'every prefix and every suffix, too short between them',
      patterns: numbers(2_000).map((i) => `${'a'.repeat(i + 1)}*b*${'a'.repeat(i + 1)}`),
      value: fill('a'),
      first: undefined,
    },
    {
      name: 'every one of many suffixes under every one of many prefixes',
      patterns: numbers(4_900).map(
        (i) => `${'a'.repeat((i % 70) + 1)}*b*${'a'.repeat(Math.floor(i / 70) + 1)}`,
      ),
      value: fill('a'),
      first: undefined,
    },
    {
      name: 'a literal that nearly occurs at each position',
      patterns: numbers(5_000).map((i) => `*${'a'.repeat(1_000)}${i}*`),
      value: fill('a'),
      first: undefined,
    },
    {
      name: 'literals that are suffixes of one another',
      patterns: numbers(2_000).map((i) => `*${'a'.repeat(i + 1)}*b*`),
      value: fill('a'),
      first: undefined,
    },
    {
      name: 'the last of 5,000 patterns at its very end',
      patterns: numbers(5_000).map((i) => `p*-${i}-*`),
      value: `p${fill('-x4999')}-4999-`,
      first: 'p*-4999-*',
    },
  ];
  for (const { name, patterns, value, first } of cases) {
    it(`finds ${first ?? 'nothing'} in 150 ms: ${name}`, () => {
      const table = tableOf(patterns);
      const times = numbers(3).map(() =>
        cpuMs(() => expect(matched(table, value)).toBe(first === undefined ? undefined : `d.k_${first}`)),
      );
      expect(Math.min(...times)).toBeLessThan(150);
    });
  }

  it('leave nothing behind that changes a later match', () => {
    const table = tableOf(['*aa*', '*b*c*']);
    expect(matched(table, fill('ab'))).toBeUndefined();
    expect(matched(table, 'bc')).toBe('d.k_*b*c*');
    expect(matched(table, 'cb')).toBeUndefined();
    expect(matched(table, fill('a'))).toBe('d.k_*aa*');
    expect(matched(table, 'a')).toBeUndefined();
  });
});
