/**
 * Measures nanoseconds per match, by the number of rules and the kinds of wildcards on one level. It also measures the time that 10,000
 * overrides of the domain add to a match, alternating with matches without overrides, and the cost of creating and opening a table of
 * 100,000 rules.
 *
 *   npx node bench/match.ts
 */
import { performance } from 'node:perf_hooks';
import { OverrideIndex } from '../limiter/decide/override-index.ts';
import type { Entry, Rule } from '../rules/model.ts';
import type { Override } from '../rules/override.ts';
import { compileRules } from '../rules/table/compile-rules.ts';
import { RuleTable } from '../rules/table/rule-table.ts';
import { limit, rule, source } from '../test/support/rule-builder.ts';

const requestCount = 1_000;

interface Case {
  name: string;
  rules: Rule[];
  request(i: number): Entry[];
  /** Whether the requests match a rule. The measurement checks it. */
  hit: boolean;
}

function numbered(count: number, value: (i: string) => string): Rule[] {
  return Array.from({ length: count }, (_, i) =>
    rule({ key: 'path', value: value(String(i).padStart(6, '0')), rateLimit: limit() }),
  );
}

/** Requests that are spread over all rules. */
function spread(count: number, value: (i: string) => string): (i: number) => Entry[] {
  return (i) => [{ key: 'path', value: value(String(Math.imul(i, 7919) % count).padStart(6, '0')) }];
}

function exactCase(count: number): Case {
  const rules = numbered(count, (i) => `/api/v1/${i}`);
  return { name: `${count} rules`, rules, request: spread(count, (i) => `/api/v1/${i}`), hit: true };
}

function twoLevelCase(tenants: number): Case {
  const rules = Array.from({ length: tenants }, (_, i) =>
    rule({ key: 'tenant', value: `t${i}`, descriptors: numbered(10, (n) => `/v1/${n}`) }),
  );
  const request = (i: number): Entry[] => [
    { key: 'tenant', value: `t${Math.imul(i, 7919) % tenants}` },
    { key: 'path', value: `/v1/00000${i % 10}` },
  ];
  return { name: `${tenants} x 10 rules on two levels`, rules, request, hit: true };
}

function wildcardCases(
  count: number,
  kind: string,
  shape: { pattern: string; text: string; miss: string },
): Case[] {
  const rules = numbered(count, (i) => shape.pattern.replace('#', i));
  return [
    { name: `${count} ${kind}`, rules, request: spread(count, (i) => shape.text.replace('#', i)), hit: true },
    {
      name: `${count} ${kind}, no hit`,
      rules,
      request: spread(count, (i) => shape.miss.replace('#', i)),
      hit: false,
    },
  ];
}

const long = 'tenant-x'.repeat(8_192);
const cases: Case[] = [
  ...[10, 1_000, 100_000].map(exactCase),
  twoLevelCase(10_000),
  ...wildcardCases(5_000, 'prefixes', {
    pattern: '/api/#/*',
    text: '/api/#/items/1',
    miss: '/api/x#/items/1',
  }),
  ...wildcardCases(5_000, 'suffixes', { pattern: '*/#.json', text: '/api/v1/#.json', miss: '/api/v1/#.xml' }),
  ...wildcardCases(5_000, 'with one prefix and one suffix', {
    pattern: '/api/*/#/*/end',
    text: '/api/v1/#/items/end',
    miss: '/api/v1/x#/items/end',
  }),
  ...wildcardCases(5_000, 'with one prefix, suffix and first literal', {
    pattern: '/api/*/tenant/*/#/*/end',
    text: '/api/v1/tenant/x/#/items/end',
    miss: '/api/v1/tenant/x/x#/items/end',
  }),
  ...wildcardCases(1_000, 'with neither', {
    pattern: '*/#/*',
    text: '/api/v1/#/items',
    miss: '/api/v1/x#/items',
  }),
  {
    name: '5000 with one prefix and suffix, 64 KiB value',
    rules: numbered(5_000, (i) => `/*-x${i}*/`),
    request: () => [{ key: 'path', value: `/${long}/` }],
    hit: false,
  },
];

for (const each of cases) {
  const table = new RuleTable(compileRules([source('bench', each.rules)]));
  const { median, best } = nanosecondsPerMatch(table, each);
  console.log(`${each.name.padEnd(56)} ${median.toFixed(0).padStart(8)} ns/match (best ${best.toFixed(0)})`);
}
for (const kind of ['exact', 'patterns']) reportOverrides(kind);
reportTable();

/** Measures descriptors without an override, as nearly all are, and descriptors with one. */
function reportOverrides(kind: string): void {
  const table = new RuleTable(compileRules([source('bench', exactCase(10_000).rules)]));
  const overrides = Array.from({ length: 10_000 }, (_, i): Override => {
    const id = `${i}`;
    const value = kind === 'exact' ? `/api/v2/${id.padStart(6, '0')}` : `/api/v2/${id.padStart(6, '0')}/*`;
    return {
      ...{ id, source: 'api', name: id, domain: 'bench', match: [{ key: 'path', value }], limit: '' },
      ...{ effect: { kind: 'block' }, createdMs: 0, endsMs: undefined, reason: 'bench', by: '' },
    };
  });
  const start = performance.now();
  const index = new OverrideIndex(overrides);
  const made = performance.now() - start;
  for (const version of ['v1', 'v2']) {
    const tail = kind === 'exact' || version === 'v1' ? '' : '/x';
    const requests = Array.from({ length: requestCount }, (_, i): Entry[] => [
      {
        key: 'path',
        value: `/api/${version}/${String(Math.imul(i, 7919) % 10_000).padStart(6, '0')}${tail}`,
      },
    ]);
    const rounds: { alone: number[]; under: number[] } = { alone: [], under: [] };
    const time = (to: number[], each: (entries: Entry[]) => unknown): void => {
      const from = performance.now();
      for (const entries of requests) each(entries);
      to.push(((performance.now() - from) * 1e6) / requestCount);
    };
    for (let round = 0; round < 2_000; round++) {
      time(rounds.alone, (entries) => table.match('bench', entries));
      time(rounds.under, (entries) => index.find('bench', entries, 0) ?? table.match('bench', entries));
    }
    const [alone, under] = [rounds.alone, rounds.under].map((times) => times.sort((a, b) => a - b)[1_000]!);
    const found = version === 'v1' ? 'none found' : 'one found';
    console.log(
      `10000 overrides, ${kind}, ${found}: ${under!.toFixed(0)} ns against ${alone!.toFixed(0)} ns; index made in ${made.toFixed(0)} ms`,
    );
  }
}

function nanosecondsPerMatch(
  table: RuleTable,
  { name, request, hit }: Case,
): { median: number; best: number } {
  const requests = Array.from({ length: requestCount }, (_, i) => request(i));
  for (const entries of requests) {
    if ((table.match('bench', entries) !== undefined) !== hit) throw new Error(`${name}: unexpected outcome`);
  }
  const rounds: number[] = [];
  const until = performance.now() + 1_000;
  while (rounds.length < 5 || performance.now() < until) {
    const start = performance.now();
    for (const entries of requests) table.match('bench', entries);
    rounds.push(((performance.now() - start) * 1e6) / requestCount);
  }
  rounds.sort((a, b) => a - b);
  return { median: rounds[rounds.length >> 1]!, best: rounds[0]! };
}

function reportTable(): void {
  const sources = [source('bench', exactCase(100_000).rules)];
  const start = performance.now();
  const bytes = compileRules(sources);
  const compiled = performance.now();
  const table = new RuleTable(bytes);
  const opened = performance.now();
  console.log(
    `${table.ruleCount} rules: ${(bytes.byteLength / 2 ** 20).toFixed(1)} MiB, ` +
      `compiled in ${(compiled - start).toFixed(0)} ms, opened in ${(opened - compiled).toFixed(3)} ms`,
  );
}
