import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { entriesFor, overlappingRules } from '../../test/support/rule-arbitraries.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { compileRules } from '../table/compile-rules.ts';
import { RuleTable } from '../table/rule-table.ts';
import { explainDescriptor, ruleName, unknownKeyWords } from './explain-descriptor.ts';
import { placedRules } from './rule-level.ts';

const rules = [
  rule({ key: 'path', value: '/search*', descriptors: [rule({ key: 'plan', rateLimit: limit() })] }),
  rule({ key: 'path', value: '/search/s*', rateLimit: limit() }),
  rule({ key: 'path', rateLimit: limit() }),
  rule({ key: 'path', value: '/free' }),
];
const top = placedRules(rules, 0, []);

function explained(...pairs: string[]): unknown {
  const entries = pairs.map((pair) => ({ key: pair.split('=')[0]!, value: pair.split('=')[1]! }));
  const { steps, outcome } = explainDescriptor(top, entries);
  const levels = steps.map(({ found, passedOver, near }) => [
    found === undefined ? undefined : `${ruleName(found.placed)} ${found.how}`,
    passedOver.map(({ placed, how }) => `${ruleName(placed)} ${how}`),
    near.map(ruleName),
  ]);
  return {
    levels,
    outcome: 'placed' in outcome ? { ...outcome, placed: ruleName(outcome.placed) } : outcome,
  };
}

describe('an explanation', () => {
  it('names the rule of each level, what fitted as well and what nearly did', () => {
    expect(explained('path=/search/shoes', 'plan=gold')).toEqual({
      levels: [
        ['path=/search* wildcard', ['path=/search/s* wildcard', 'path key'], ['path=/free']],
        ['plan key', [], []],
      ],
      outcome: { kind: 'found', placed: 'plan' },
    });
  });

  it.each([
    [['path=/search/x'], { kind: 'rule-without-limit', placed: 'path=/search*', below: 1 }],
    [['path=/free'], { kind: 'rule-without-limit', placed: 'path=/free', below: 0 }],
    [['host=a'], { kind: 'no-rule', position: 0 }],
    [['path=/search/x', 'user=a'], { kind: 'no-rule', position: 1 }],
    [['path=/other', 'user=a'], { kind: 'too-deep', position: 1 }],
    [[], { kind: 'no-entries' }],
  ])('of %j ends as %j', (pairs, outcome) => {
    expect(explained(...pairs)).toMatchObject({ outcome });
  });

  it('takes keys that differ in case or marks for near ones, the nearest value first', () => {
    expect(explained('Path=/free')).toMatchObject({
      levels: [[undefined, [], ['path=/free', 'path=/search*', 'path=/search/s*', 'path']]],
    });
  });

  it.each(['paths', 'pat', 'ptah', 'pzth'])(
    'takes the mistyped key %s for near, and no other word',
    (key) => {
      expect(explained(`${key}=/free`)).toMatchObject({
        levels: [[undefined, [], expect.arrayContaining(['path'])]],
      });
      expect(explained('host=/free')).toMatchObject({ levels: [[undefined, [], []]] });
    },
  );

  it('finds the rule that the matcher finds', () => {
    let found = 0;
    const cases = overlappingRules.chain((one) =>
      fc.tuple(fc.constant(one), fc.array(entriesFor(one), { minLength: 5, maxLength: 10 })),
    );
    fc.assert(
      fc.property(cases, ([one, requests]) => {
        const table = new RuleTable(compileRules([source('d', one)]));
        for (const entries of requests) {
          const { outcome } = explainDescriptor(placedRules(one, 0, []), entries);
          const matched = table.match('d', entries)?.rule;
          const limited = outcome.kind === 'found' ? outcome.placed.rule : undefined;
          expect(matched === undefined).toBe(limited === undefined);
          if (matched === undefined || limited === undefined) continue;
          found++;
          const limit = limited.limits[0]!;
          expect(matched).toMatchObject({
            unlimited: limit.unlimited,
            limits: limit.unlimited
              ? []
              : limited.limits.map(({ requestsPerUnit, name }) => ({ requestsPerUnit, name })),
            replaces: limited.limits.flatMap(({ replaces }) => replaces),
            shadowMode: limited.shadowMode,
            quotaMode: limited.quotaMode,
            metadata: limited.metadata,
          });
        }
      }),
      { numRuns: caseCount(500) },
    );
    expect(found).toBeGreaterThan(caseCount(150));
  });
});

describe('a key that no rule has', () => {
  const below = [rule({ key: 'plan', value: 'gold' })];
  const written = [
    rule({ key: 'remote_address' }),
    rule({ key: 'path', value: '/search*', descriptors: below }),
  ];
  // As a table has them.
  const joined = [
    rule({ key: 'remote_address' }),
    rule({ key: 'path_/search*', descriptors: [rule({ key: 'plan_gold' })] }),
  ];

  it.each([
    ['remote_adress=1', 'the key "remote_adress"; did you mean "remote_address"?'],
    ['paht=/x', 'the key "paht"; did you mean "path"?'],
    ['tenant=a', 'the key "tenant"'],
    ['path=/search/a plna=gold', 'the key "plna" at level 2; did you mean "plan"?'],
  ])('is named: %s', (entries, words) => {
    for (const top of [written, joined])
      expect(unknownKeyWords('shop', top, entriesOf(entries))).toBe(`no rule of "shop" has ${words}`);
  });

  it.each([
    ['remote_address=1', 'a rule of any value'],
    ['path=/other', 'other values'],
    ['path=/search/a plan=silver', 'other values below'],
    ['remote_address=1 more=2', 'no rules below'],
  ])('is none of %s: %s', (entries) => {
    for (const top of [written, joined])
      expect(unknownKeyWords('shop', top, entriesOf(entries))).toBeUndefined();
  });

  it('is none if a pattern begins before the value', () => {
    expect(unknownKeyWords('shop', [rule({ key: 'ten*' })], entriesOf('tenant=a'))).toBeUndefined();
    expect(unknownKeyWords('shop', [rule({ key: 'tenant_a*' })], entriesOf('tenant=b'))).toBeUndefined();
  });

  function entriesOf(text: string) {
    return text.split(' ').map((one) => {
      const [key = '', value = ''] = one.split('=');
      return { key, value };
    });
  }
});
