import { expect, it } from 'vitest';
import type { Calendar } from '../../rules/model.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { type RuleRoutesParts, ruleRoutes } from './rule-routes.ts';

it('lists rules in lines of one rule each, however deep they lie', async () => {
  const below = Array.from({ length: 1_000 }, (_, n) =>
    rule({ key: 'tenant', value: `t${n}`, rateLimit: limit({ unit: 'minute', requestsPerUnit: 5 }) }),
  );
  const calendar: Calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 };
  const large = { requestsPerUnit: Number.MAX_SAFE_INTEGER, hitsUnit: 'tokens' } as const;
  const budget = limit({ unit: 'month', calendar, warnAt: [80], ...large });
  const table = new RuleTable(
    compileRules([
      source('shop', [rule({ key: 'path', descriptors: below }), rule({ key: 'team', rateLimit: budget })]),
    ]),
  );
  const parts = {
    table: () => table,
    registry: new StatsRegistry(),
    sampler: { ofRule: () => ({ hitsPerSecond: 0, overPerSecond: 0 }) },
    explaining: { names: { sanitizeDescriptorMetricDots: false } },
  } as unknown as RuleRoutesParts;
  const list = ruleRoutes(parts)[0]!;
  const call = { query: new URLSearchParams(), actor: { mayRead: () => true } };
  const { lines = [] } = await list.answer(call as unknown as Parameters<typeof list.answer>[0]);
  const all = [...lines];
  expect(Math.max(...all.map(({ length }) => length))).toBeLessThan(600);
  const [{ rules }] = JSON.parse(all.join('\n')).domains;
  expect(rules[0]).toMatchObject({ path: 'shop.path', hits: null });
  expect(rules[0].rules).toHaveLength(1_000);
  expect(rules[0].rules[999].limits).toEqual([
    {
      ...{ words: '5 per minute', name: '', requestsPerUnit: 5, unit: 'minute', multiplier: 1 },
      ...{ algorithm: 'fixed_window', burst: null, unlimited: false },
    },
  ]);
  expect(rules[1].limits).toMatchObject([{ ...large, calendar, warnAt: [80] }]);
  expect(rules[0].rules[999]).toMatchObject({ path: 'shop.path.tenant_t999', hits: 0, rules: [] });
});
