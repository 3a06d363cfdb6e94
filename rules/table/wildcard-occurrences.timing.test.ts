import { expect, it } from 'vitest';
import { cpuMs } from '../../test/support/cpu-time.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { compileRules } from './compile-rules.ts';
import { RuleTable } from './rule-table.ts';

it('matches 100 patterns whose literals are suffixes of one another on 4 MB in a second and 64 MB', () => {
  const patterns = Array.from({ length: 100 }, (_, i) => `*${'a'.repeat(i + 1)}*c${i}*`);
  const rules = patterns.map((value) => rule({ key: 'k', value, rateLimit: limit() }));
  const table = new RuleTable(compileRules([source('d', rules)]));
  const value = 'a'.repeat(4 << 20);
  const before = process.memoryUsage().arrayBuffers;
  const times = [1, 2, 3].map(() =>
    cpuMs(() => expect(table.match('d', [{ key: 'k', value }])).toBeUndefined()),
  );
  expect(Math.min(...times)).toBeLessThan(1000);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64e6);
});
