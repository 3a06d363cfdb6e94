import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { composite, NaiveMatcher } from '../../test/support/naive-matcher.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { Algorithm } from '../algorithms/registry.ts';
import { defaultNames, type NameForm } from '../match-result.ts';
import type { Entry, JsonObject, Rule, RuleSource } from '../model.ts';
import { compileRules } from './compile-rules.ts';
import { RuleTable } from './rule-table.ts';

/** Short bounds, so that most texts are beyond them. */
const nameForm: fc.Arbitrary<NameForm> = fc.record({
  sanitizeDescriptorMetricDots: fc.boolean(),
  counterKeys: fc.constant('compatible' as const),
  maxTextBytes: fc.constantFrom(defaultNames.maxTextBytes, 2, 4),
});

const special = fc.constantFrom(
  '__proto__',
  'constructor',
  '_',
  'a_b',
  'k*',
  '*',
  'é',
  '\ud83d\ude00',
  '\ud83d',
);
const units = fc.constantFrom('a', 'b', '_', '*', '.', 'é', '\ude00');
const key = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('a', 'k', 'a_b') },
  { weight: 1, arbitrary: special },
);
const value = fc.oneof(
  { weight: 2, arbitrary: fc.constant('') },
  { weight: 6, arbitrary: fc.array(units, { maxLength: 5 }).map((list) => list.join('')) },
  { weight: 1, arbitrary: special },
);
const rateLimit = fc
  .record({
    unit: fc.constantFrom('second', 'MINUTE', 'Hour', 'day', 'week', 'month', 'year'),
    requestsPerUnit: fc.constantFrom(0, 1, 2 ** 31, 2 ** 32 - 1),
    unitMultiplier: fc.constantFrom(1, 1, 65_535),
    algorithm: fc.constantFrom<Algorithm>(...Object.values(Algorithm)),
    burst: fc.constantFrom(undefined, 0, 2 ** 32 - 1),
    unlimited: fc.boolean(),
    name: fc.constantFrom('', 'n', 'é'),
    replaces: fc.subarray(['x', 'y']),
  })
  .map(limit);
const bare = fc.record({
  key,
  value,
  limits: fc.oneof(
    fc.array(rateLimit, { maxLength: 1 }),
    fc.array(
      rateLimit.map((one) => ({ ...one, unlimited: false })),
      { maxLength: 3 },
    ),
  ),
  shadowMode: fc.boolean(),
  quotaMode: fc.boolean(),
  detailedMetric: fc.boolean(),
  valueToMetric: fc.boolean(),
  shareThreshold: fc.boolean(),
  metadata: fc.option(fc.constantFrom<JsonObject>({}, { a: [1, { b: null }] }), { nil: undefined }),
});

const { level } = fc.letrec<{ level: Rule[] }>((tie) => ({
  level: fc
    .array(
      fc
        .tuple(bare, fc.option(tie('level'), { nil: undefined, maxDepth: 3, freq: 2 }))
        .map(([traits, descriptors]): Rule => rule({ ...traits, descriptors: descriptors ?? [] })),
      { minLength: 2, maxLength: 8 },
    )
    .map(distinct),
}));

function distinct(rules: Rule[]): Rule[] {
  const seen = new Set<string>();
  return rules.filter((each) => !seen.has(composite(each)) && seen.add(composite(each)));
}

const sources = fc
  .array(fc.tuple(fc.constantFrom('d', 'd_a', '__proto__'), level), { minLength: 1, maxLength: 4 })
  .map((list): RuleSource[] => {
    const seen = new Set<string>();
    return list.map(([domain, rules]) => {
      const fresh = rules.filter((each) => !seen.has(`${domain}\n${composite(each)}`));
      for (const each of fresh) seen.add(`${domain}\n${composite(each)}`);
      return source(domain, fresh);
    });
  });

/** Entries that walk down the rules, with stars filled in and little mistakes, so that most requests come far. */
function requestAlong(rules: readonly Rule[], choices: readonly Choice[]): Entry[] {
  const entries: Entry[] = [];
  let current = rules;
  for (const { pick, fill, wild } of choices) {
    if (wild !== undefined) {
      entries.push(wild);
      continue;
    }
    const chosen = current[pick % Math.max(1, current.length)];
    if (chosen === undefined) break;
    const filled = chosen.value === '' ? fill : chosen.value.replaceAll('*', () => fill);
    entries.push({ key: chosen.key, value: filled });
    current = chosen.descriptors;
  }
  return entries;
}

interface Choice {
  pick: number;
  fill: string;
  wild: Entry | undefined;
}
const choice: fc.Arbitrary<Choice> = fc.record({
  pick: fc.nat(20),
  fill: fc.array(units, { maxLength: 3 }).map((list) => list.join('')),
  wild: fc.option(fc.record({ key, value }), { nil: undefined, freq: 6 }),
});

describe('RuleTable', () => {
  it('matches as the naive matcher does', () => {
    let found = 0;
    const requests = fc.array(fc.array(choice, { maxLength: 4 }), { minLength: 10, maxLength: 20 });
    fc.assert(
      fc.property(sources, requests, nameForm, (rules, walks, names) => {
        const table = new RuleTable(compileRules(rules));
        const naive = new NaiveMatcher(rules);
        expect(table.domainCount).toBe(naive.domainCount);
        for (const { domain } of [...rules, source('none', [])]) {
          expect(table.hasDomain(domain)).toBe(naive.hasDomain(domain));
          const top = rules.flatMap((each) => (each.domain === domain ? each.descriptors : []));
          for (const walk of walks) {
            const entries = requestAlong(top, walk);
            const expected = naive.match(domain, entries, names);
            expect(table.match(domain, entries, names)).toEqual(expected);
            if (expected === undefined) continue;
            found++;
            const { counterStem } = table.match(domain, entries, { ...names, counterKeys: 'unambiguous' })!;
            expect(counterStem).toBe(naive.unambiguousStem(domain, entries, names.maxTextBytes));
          }
        }
      }),
      { numRuns: caseCount(150) },
    );
    expect(found).toBeGreaterThan(caseCount(250));
  });

  it('finds the first of many patterns on one level as the naive matcher does', () => {
    const letter = fc.constantFrom('a', 'b', 'a', 'b', '*', '*');
    const pattern = fc.array(letter, { minLength: 1, maxLength: 9 }).map((list) => list.join(''));
    const text = fc
      .array(fc.constantFrom('a', 'b', 'ab', '*'), { maxLength: 14 })
      .map((list) => list.join(''));
    fc.assert(
      fc.property(
        fc.uniqueArray(pattern, { minLength: 1, maxLength: 60 }),
        fc.array(text, { minLength: 20, maxLength: 40 }),
        (patterns, values) => {
          const rateLimit = limit({ unit: 'day', requestsPerUnit: 1 });
          const rules = [
            source(
              'd',
              patterns.map((each) => rule({ key: 'k', value: each, rateLimit })),
            ),
          ];
          const table = new RuleTable(compileRules(rules));
          const naive = new NaiveMatcher(rules);
          for (const each of values) {
            const entries = [{ key: 'k', value: each }];
            expect(table.match('d', entries)).toEqual(naive.match('d', entries));
          }
        },
      ),
      { numRuns: caseCount(200) },
    );
  });

  it('lists the same limits whatever the split into sources', () => {
    fc.assert(
      fc.property(level, fc.nat(8), (rules, cut) => {
        const whole = new RuleTable(compileRules([source('d', rules)]));
        const split = new RuleTable(
          compileRules([source('d', rules.slice(0, cut), 'a'), source('d', rules.slice(cut), 'b')]),
        );
        expect([...split.rlconfigLines()]).toEqual([...whole.rlconfigLines()]);
        expect(split.contentHash).toBe(whole.contentHash);
      }),
    );
  });
});
