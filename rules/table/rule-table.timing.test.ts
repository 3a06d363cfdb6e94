import { performance } from 'node:perf_hooks';
import { describe, expect, it } from 'vitest';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import type { RuleSource } from '../model.ts';
import { compileRules } from './compile-rules.ts';
import { RuleTable } from './rule-table.ts';

function manyRules(count: number): RuleSource {
  const rules = Array.from({ length: count }, (_, i) =>
    rule({ key: 'tenant', value: `customer-${i}`, rateLimit: limit({ requestsPerUnit: i }) }),
  );
  return source('d', rules);
}

describe('a table of 100,000 rules', () => {
  it('is made in 2 s and opens at once', { timeout: 60_000 }, () => {
    const sources = [manyRules(100_000)];
    const start = performance.now();
    const bytes = compileRules(sources);
    expect(performance.now() - start).toBeLessThan(2_000);
    expect(bytes.byteLength).toBeLessThan(16 * 2 ** 20);
    const opened = performance.now();
    const table = new RuleTable(bytes);
    expect(performance.now() - opened).toBeLessThan(20);
    expect(table.ruleCount).toBe(100_000);
    expect(
      table.match('d', [{ key: 'tenant', value: 'customer-99999' }])?.rule.limits[0]?.requestsPerUnit,
    ).toBe(99_999);
  });
});

describe('the cost of a match', () => {
  it('is about the same with 10, 1,000 and 100,000 rules', { timeout: 60_000, retry: 2 }, () => {
    const sizes = [10, 1_000, 100_000].map((count) => ({
      table: new RuleTable(compileRules([manyRules(count)])),
      requests: Array.from({ length: 1_000 }, (_, i) => [
        { key: 'tenant', value: `customer-${Math.imul(i, 7919) % count}` },
      ]),
      rounds: [] as number[],
    }));
    for (let round = 0; round < 60; round++) {
      for (const { table, requests, rounds } of sizes) {
        const start = performance.now();
        for (const entries of requests) table.match('d', entries);
        rounds.push(performance.now() - start);
      }
    }
    const [small, middle, large] = sizes.map(({ rounds }) => rounds.sort((a, b) => a - b)[30]!);
    expect(middle! / small!).toBeLessThan(3);
    expect(large! / small!).toBeLessThan(3);
  });
});
