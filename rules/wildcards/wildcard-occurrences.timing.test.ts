import { expect, it } from 'vitest';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { compileRules } from '../table/compile-rules.ts';
import { RuleTable } from '../table/rule-table.ts';

it('matches 100 patterns whose literals are suffixes of one another on 4 MB in a second and 64 MB', () => {
  const patterns = Array.from({ length: 100 }, (_, i) => `*${'a'.repeat(i + 1)}*c${i}*`);
  const rules = patterns.map((value) => rule({ key: 'k', value, rateLimit: limit() }));
  const table = new RuleTable(compileRules([source('d', rules)]));
  const value = 'a'.repeat(4 << 20);
  const before = process.memoryUsage().arrayBuffers;
  // The best of three: what else runs on the machine only lengthens them.
  const times = [1, 2, 3].map(() => {
    const start = performance.now();
    expect(table.match('d', [{ key: 'k', value }])).toBeUndefined();
    return performance.now() - start;
  });
  expect(Math.min(...times)).toBeLessThan(1000);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64e6);
});
