import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, type RuleTraits, rule, source } from '../../test/support/rule-builder.ts';
import { Algorithm } from '../algorithms/registry.ts';
import { compositeOf, type Rule } from '../model.ts';
import { compileRules } from '../table/compile-rules.ts';
import { RuleTable } from '../table/rule-table.ts';
import { collidingCounters } from './colliding-counters.ts';

function limited(key: string, value = '', traits: Partial<RuleTraits> = {}): Rule {
  return rule({ key, value, rateLimit: limit(), ...traits });
}

function found(...sources: ReturnType<typeof source>[]): string[] {
  return collidingCounters(sources).pairs.map(({ first, second }) => `${first.keys} ${second.keys}`);
}

describe('rules whose counters could meet', () => {
  it('are found over domains', () => {
    expect(found(source('bank', [limited('ip')]), source('bank_ip', [limited('x', '7')]))).toEqual([
      'bank_ip_*_ bank_ip_x_7_',
    ]);
  });

  it.each<[string, Rule[], string[]]>([
    [
      'any value and a deeper rule',
      [limited('ip', '', { descriptors: [limited('path')] })],
      ['d_ip_*_ d_ip_*_path_*_'],
    ],
    ['keys that begin alike', [limited('a'), limited('a_b')], ['d_a_*_ d_a_b_*_']],
    [
      'a pattern and a deeper rule',
      [
        limited('k', 'a*'),
        limited('k', 'b', { descriptors: [limited('c', 'd')] }),
        limited('k', 'a', { descriptors: [limited('c', 'd')] }),
      ],
      ['d_k_a*_ d_k_a_c_d_'],
    ],
    [
      'any value below any value and below one',
      [
        rule({ key: 'a', descriptors: [limited('b')] }),
        rule({ key: 'a', value: 'v', descriptors: [limited('b')] }),
      ],
      ['d_a_*_b_*_ d_a_v_b_*_'],
    ],
  ])('are found: %s', (_, rules, expected) => {
    expect(found(source('d', rules))).toEqual(expected);
  });

  it.each<[string, Rule[]]>([
    ['a value and any other value', [limited('k'), limited('k', 'v')]],
    ['two values', [limited('k', 'v'), limited('k', 'w')]],
    ['a pattern and the rest', [limited('k', 'a*'), limited('k', 'ab*'), limited('k')]],
    [
      'a shared pattern and a value',
      [limited('k', 'a*', { shareThreshold: true }), limited('k', 'ab'), limited('k')],
    ],
    ['other keys', [limited('a'), limited('b')]],
    [
      'rules below values',
      [
        rule({ key: 'a', value: 'v', descriptors: [limited('b')] }),
        rule({ key: 'a', value: 'w', descriptors: [limited('b')] }),
      ],
    ],
    [
      'an unlimited one',
      [limited('a'), limited('a_b', '', { rateLimit: limit({ unit: '', unlimited: true }) })],
    ],
  ])('are none: %s', (_, rules) => {
    expect(found(source('d', rules))).toEqual([]);
  });

  it('are all found that some requests show', () => {
    const key = fc.constantFrom('a', 'b', 'a_b');
    const value = fc.constantFrom('', '', 'a', 'b', 'a_b', 'a*', '*b', 'b_a_b');
    const level = (depth: number): fc.Arbitrary<Rule[]> =>
      fc.uniqueArray(
        fc
          .tuple(key, value, fc.boolean(), depth === 0 ? fc.constant<Rule[]>([]) : level(depth - 1))
          .map(([k, v, counted, descriptors]) => {
            const rateLimit = counted || descriptors.length === 0 ? limit() : undefined;
            return rule({ key: k, value: v, descriptors, rateLimit });
          }),
        { maxLength: 4, minLength: 1, selector: compositeOf },
      );
    const values = ['a', 'b', 'a_b', 'b_a', 'a_b_a', 'a_a', 'b_b', 'a_a_b_b', '', 'a_'];
    const entries = ['a', 'b', 'a_b'].flatMap((k) => values.map((v) => ({ key: k, value: v })));
    const requests = entries.flatMap((one) => [[one], ...entries.map((two) => [one, two])]);
    let met = 0;
    fc.assert(
      fc.property(level(1), level(1), (one, two) => {
        const sources = [source('d', named(one, '0')), source('d_a', named(two, '1'))];
        const table = new RuleTable(compileRules(sources));
        const reported = new Set(
          collidingCounters(sources).pairs.map(({ first, second }) => pair(place(first), place(second))),
        );
        const byStem = new Map<string, Set<string>>();
        for (const domain of ['d', 'd_a']) {
          for (const request of requests) {
            const match = table.match(domain, request);
            // Keys are the configuration's: `a_b` is not sent where a rule says a=b.
            if (match === undefined || !match.rule.limits[0]!.name.endsWith(keysOf(request))) continue;
            const names = byStem.get(match.counterStem) ?? new Set();
            byStem.set(match.counterStem, names.add(match.rule.limits[0]!.name.split(' ')[0]!));
          }
        }
        for (const names of byStem.values()) {
          for (const a of names) {
            for (const b of names) {
              if (a >= b) continue;
              met++;
              expect([...reported]).toContain(pair(a, b));
            }
          }
        }
      }),
      { numRuns: caseCount(50) },
    );
    expect(met).toBeGreaterThan(caseCount(50));
  });

  it('are those alone that the Go service knows: all others have keys that say where an entry ends', () => {
    const collision = (other: Partial<RuleTraits>): number => {
      const two = rule({ key: 'a', descriptors: [rule({ key: 'b', rateLimit: limit(), ...other })] });
      return collidingCounters([source('d', [limited('a'), two])]).count;
    };
    expect(collision({})).toBe(1);
    expect(collision({ rateLimit: limit({ unitMultiplier: 5 }) })).toBe(0);
    expect(collision({ rateLimit: limit({ algorithm: Algorithm.SLIDING_WINDOW }) })).toBe(0);
    expect(collision({ limits: [limit(), limit({ unit: 'day' })] })).toBe(0);
  });

  it('are reported until a bound of steps, and that there may be more', () => {
    const many = Array.from({ length: 2_000 }, (_, index) =>
      rule({ key: 'k', value: `${index}`, descriptors: [limited('a')] }),
    );
    const { pairs, count, isComplete } = collidingCounters([source('d', [limited('k'), ...many])], {
      pairs: 10,
      steps: 10_000,
    });
    expect([pairs.length, isComplete]).toEqual([10, false]);
    expect(count).toBeGreaterThan(10);
  });

  it('are reported once for two sources, on wish, of those of one source too', () => {
    const one = source('d', [limited('a'), limited('a_b'), limited('a_c')]);
    const other = source('d_a', [limited('b'), limited('c')]);
    const { pairs, count } = collidingCounters([one, other], { pairs: 9, steps: 1e6, onePerSources: true });
    expect(pairs.map(({ first, second }) => [first.source, second.source]).sort()).toEqual([
      [0, 0],
      [0, 1],
    ]);
    expect(count).toBeGreaterThan(2);
  });

  it('are not looked for if two rules are too long together, and there may be more', () => {
    const long = 'v'.repeat(20_000);
    const { count, isComplete } = collidingCounters([
      source('d', [limited('k', `${long}*`), limited('k', `${long}w`, { descriptors: [limited('l')] })]),
    ]);
    expect([count, isComplete]).toEqual([0, false]);
  });

  it('are looked for among 100,000 rules in no time', () => {
    const tenants = Array.from({ length: 50_000 }, (_, index) =>
      limited('tenant', `customer-${index}`, { descriptors: [limited('path', `/api/${index}`)] }),
    );
    const began = process.cpuUsage();
    const { count, isComplete } = collidingCounters([
      source('d', [...tenants, limited('tenant'), limited('path')]),
    ]);
    const { user, system } = process.cpuUsage(began);
    // Any tenant could be called customer-1_path_/api/1.
    expect(count).toBeGreaterThan(isComplete ? 49_999 : 10_000);
    expect((user + system) / 1000).toBeLessThan(3_000);
  });
});

function keysOf(request: readonly { key: string }[]): string {
  return ` ${request.map(({ key }) => key).join(' ')}`;
}

/** Each limit has its place and its keys for a name, by which the matcher says which rule it found. */
function named(rules: readonly Rule[], above: string, keysAbove: readonly string[] = []): Rule[] {
  return rules.map((one, index) => {
    const name = `${above}.descriptors.${index}`;
    const keys = [...keysAbove, one.key];
    const limits = one.limits.map(() => limit({ name: `${name} ${keys.join(' ')}` }));
    return { ...one, limits, descriptors: named(one.descriptors, name, keys) };
  });
}

function place({ source: number, path }: { source: number; path: readonly (string | number)[] }): string {
  return [number, ...path].join('.');
}

function pair(a: string, b: string): string {
  return a < b ? `${a} ${b}` : `${b} ${a}`;
}
