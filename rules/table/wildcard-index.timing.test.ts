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
});
