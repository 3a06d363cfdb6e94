import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule } from '../../test/support/rule-builder.ts';
import { compositeOf, type Limit, type Rule } from '../model.ts';
import { compileRules } from '../table/compile-rules.ts';
import { RuleTable } from '../table/rule-table.ts';
import { unreachableRules } from './review-sources.ts';

/** Each rule has a limit of its own name, by which the matcher says which one it found. */
function level(...written: [key: string, value: string][]): Rule[] {
  return written.map(([key, value]) => rule({ key, value, rateLimit: named(`${key}|${value}`) }));
}

function named(name: string): Limit {
  return limit({ requestsPerUnit: 1, name });
}

function names(rules: readonly Rule[]): string[] {
  return unreachableRules(rules).map(
    ({ index, takenBy }) => `${compositeOf(rules[index]!)} by ${compositeOf(rules[takenBy]!)}`,
  );
}

const cases: [string, [string, string][], string[]][] = [
  [
    'a rule without value beside a pattern for all values',
    [
      ['k', ''],
      ['k', '*'],
    ],
    ['k by k_*'],
  ],
  [
    'a rule without value beside a pattern for some values',
    [
      ['k', ''],
      ['k', 'a*'],
    ],
    [],
  ],
  [
    'a pattern within an earlier one',
    [
      ['k', 'a*'],
      ['k', 'ab*'],
    ],
    ['k_ab* by k_a*'],
  ],
  [
    'a pattern within a later one',
    [
      ['k', 'ab*'],
      ['k', 'a*'],
    ],
    [],
  ],
  [
    'patterns that overlap',
    [
      ['k', 'a*'],
      ['k', '*b'],
    ],
    [],
  ],
  [
    'a pattern with the same meaning',
    [
      ['k', 'a*'],
      ['k', 'a**'],
    ],
    ['k_a** by k_a*'],
  ],
  [
    'a rule with a value beside a pattern before it',
    [
      ['k', '*'],
      ['k', 'v'],
    ],
    [],
  ],
  [
    'a pattern of the key',
    [
      ['k*', ''],
      ['key', ''],
    ],
    ['key by k*'],
  ],
  [
    'stars in several places',
    [
      ['k', '*a*'],
      ['k', 'x*a*y'],
      ['k', '*b*'],
    ],
    ['k_x*a*y by k_*a*'],
  ],
  [
    'other keys',
    [
      ['k', '*'],
      ['l', ''],
    ],
    [],
  ],
];

describe('rules that are never found', () => {
  it.each(cases)('%s', (_, written, expected) => {
    expect(names(level(...written))).toEqual(expected);
  });

  const piece = fc.constantFrom('a', 'b', '_', '*', '*', 'ab', '');
  const text = fc.array(piece, { minLength: 1, maxLength: 4 }).map((pieces) => pieces.join(''));
  const key = fc.oneof(fc.constantFrom('k', 'k_a', 'a'), text);
  const rules = fc
    .uniqueArray(fc.tuple(key, fc.oneof(fc.constant(''), text)), {
      minLength: 2,
      maxLength: 7,
      selector: ([one, value]) => compositeOf({ key: one, value }),
    })
    .filter((written) => written.every(([one]) => one !== ''))
    .map((written) => level(...written));
  const free = fc.array(fc.constantFrom('a', 'b', '_', '*', 'ab', 'x'), { maxLength: 6 });

  it('are found by no request, except for one that carries the pattern itself', () => {
    let reported = 0;
    const entries = fc.array(
      fc.tuple(
        key,
        free.map((list) => list.join('')),
      ),
      { minLength: 20, maxLength: 30 },
    );
    fc.assert(
      fc.property(rules, entries, (one, requests) => {
        const table = new RuleTable(compileRules([{ name: 'n', domain: 'd', descriptors: one }]));
        const unreachable = unreachableRules(one);
        reported += unreachable.length;
        for (const { index, kind } of unreachable) {
          const composite = compositeOf(one[index]!);
          const along = requests.map(([, value]): [string, string] => [
            one[index]!.key.replaceAll('*', value),
            value,
          ]);
          for (const [requestKey, value] of [...requests, ...along]) {
            if (`${requestKey}_${value}` === composite) continue;
            // The key of a rule without value; as the key of a request, a pattern stands for itself.
            if ((requestKey === composite) !== (kind === 'key')) continue;
            const match = table.match('d', [{ key: requestKey, value }]);
            expect(match?.rule.limits[0]?.name).not.toBe(one[index]!.limits[0]!.name);
          }
        }
      }),
      { numRuns: caseCount(500) },
    );
    expect(reported).toBeGreaterThan(caseCount(200));
  });

  it('are all of those that some value in the place of the stars does not find', () => {
    fc.assert(
      fc.property(rules, (one) => {
        const table = new RuleTable(compileRules([{ name: 'n', domain: 'd', descriptors: one }]));
        const unreachable = new Set(unreachableRules(one).map(({ index }) => index));
        for (const [index, { key: own, value, limits }] of one.entries()) {
          if (unreachable.has(index)) continue;
          // Characters that no rule has: the most general request that the rule is for.
          const request = {
            key: own.replaceAll('*', '\u{1f600}'),
            value: value === '' ? '\u{1f601}' : value.replaceAll('*', '\u{1f600}'),
          };
          // A pattern of keys is for all texts with a _, of which more can be known.
          if (!own.includes('*'))
            expect(table.match('d', [request])?.rule.limits[0]?.name).toBe(limits[0]!.name);
        }
      }),
      { numRuns: caseCount(500) },
    );
  });
});
