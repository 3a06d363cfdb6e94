import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Entry, Rule } from '../../rules/model.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { entriesFor, overlappingRules } from '../../test/support/rule-arbitraries.ts';
import { limit, type RuleTraits, rule, source } from '../../test/support/rule-builder.ts';
import { compareSources } from './compare-domain.ts';

function compare(before: Rule[], after: Rule[]): string[] {
  return compareSources([source('d', before)], [source('d', after)], 'default').map(
    ({ kind, rule: path, fields, effect, notes }) => {
      const words = fields.map(({ name, before: was, after: is }) => `${name} ${was ?? '-'}>${is ?? '-'}`);
      return `${kind} ${path.join(' > ')} [${words.join(', ')}] ${effect}: ${notes.join(' | ')}`;
    },
  );
}

const perMinute = (requestsPerUnit: number) => limit({ requestsPerUnit });

describe('a comparison', () => {
  it.each<[string, Rule[], Rule[], string[]]>([
    [
      'an added rule whose requests had another limit',
      [rule({ key: 'path', rateLimit: perMinute(5) })],
      [
        rule({ key: 'path', value: '/a*', rateLimit: perMinute(9) }),
        rule({ key: 'path', rateLimit: perMinute(5) }),
      ],
      [
        "added path=/a* [unit ->minute, requests_per_unit ->9] looser: 9 per minute instead of 5 per minute | before, 'path' applied to them",
      ],
    ],
    [
      'a removed rule whose requests fall to another one',
      [rule({ key: 'k', value: 'v', rateLimit: perMinute(5) }), rule({ key: 'k', rateLimit: perMinute(1) })],
      [rule({ key: 'k', rateLimit: perMinute(1) })],
      [
        "removed k=v [unit minute>-, requests_per_unit 5>-] stricter: 1 per minute instead of 5 per minute | now 'k' applies to them",
      ],
    ],
    [
      'an added rule that lets through what was limited',
      [rule({ key: 'k', rateLimit: perMinute(5) })],
      [rule({ key: 'k', rateLimit: perMinute(5) }), rule({ key: 'k', value: 'v' })],
      ["added k=v [] gone: these requests no longer have a limit | before, 'k' applied to them"],
    ],
    [
      'an added rule that nobody finds',
      [rule({ key: 'k', value: '*', rateLimit: perMinute(5) })],
      [rule({ key: 'k', value: '*', rateLimit: perMinute(5) }), rule({ key: 'k', rateLimit: perMinute(1) })],
      [
        'added k [unit ->minute, requests_per_unit ->1] same: no request matches this rule, because other rules of its level come first',
      ],
    ],
    [
      'another limit of a nested rule',
      [rule({ key: 'a', descriptors: [rule({ key: 'b', rateLimit: perMinute(5) })] })],
      [rule({ key: 'a', descriptors: [rule({ key: 'b', rateLimit: perMinute(7) })] })],
      ['changed a > b [requests_per_unit 5>7] looser: 7 per minute instead of 5 per minute'],
    ],
    [
      'another unit, which begins another counter',
      [rule({ key: 'k', rateLimit: limit({ unit: 'hour' }) })],
      [rule({ key: 'k', rateLimit: limit({ unit: 'day' }) })],
      [
        'changed k [unit hour>day] stricter: 10 per day instead of 10 per hour | another window, so counting starts again at 0',
      ],
    ],
    [
      'a shared threshold: another counter',
      [rule({ key: 'k', value: 'a*', rateLimit: limit() })],
      [rule({ key: 'k', value: 'a*', rateLimit: limit(), shareThreshold: true })],
      [
        'changed k=a* [share_threshold ->true] stricter: all values share one counter | other counter key, so counting starts again at 0: d_k_a<any>_ -> d_k_a*_',
      ],
    ],
    [
      'another lease',
      [rule({ key: 'k', rateLimit: limit({ requestsPerUnit: 1_000 }) })],
      [rule({ key: 'k', rateLimit: limit({ requestsPerUnit: 1_000 }), lease: 20_000 })],
      ['changed k [lease ->2%] same: a limiter leases up to 20 of its hits at a time, if LEASES is on'],
    ],
    [
      'reservations, marks and the name of its hits',
      [rule({ key: 'k', rateLimit: limit() })],
      [
        rule({
          key: 'k',
          rateLimit: limit({ hitsUnit: 'tokens', warnAt: [50, 80] }),
          reserve: { ttlSeconds: 60, estimate: 5, onExpiry: 'charge' },
        }),
      ],
      [
        'changed k [hits_unit ->tokens, warn_at ->[50,80], reserve ->{"estimate":5,"on_expiry":"charge","ttl":"60s"}] same: its hits are called tokens | answers have warnings from 50, 80% on | requests with a reservation_id reserve: held for 60s, 5 if a request has no amount, charged if no request commits',
      ],
    ],
    [
      'a lease that is forbidden',
      [rule({ key: 'k', rateLimit: limit(), lease: 500_000 })],
      [rule({ key: 'k', rateLimit: limit(), lease: 0 })],
      ['changed k [lease 50%>0] same: limiters lease none of its hits'],
    ],
    [
      'a lease that is no longer its own',
      [rule({ key: 'k', rateLimit: limit(), lease: 0 })],
      [rule({ key: 'k', rateLimit: limit() })],
      ['changed k [lease 0>-] same: limiters lease its hits according to their settings'],
    ],
    [
      'other names of metrics alone',
      [rule({ key: 'k', rateLimit: limit() })],
      [rule({ key: 'k', rateLimit: limit(), detailedMetric: true })],
      ['changed k [detailed_metric ->true] same: other metric name: d.k -> d.k_<any>'],
    ],
    [
      'other places of limits in one rule',
      [rule({ key: 'k', limits: [limit(), limit({ unit: 'hour' })] })],
      [rule({ key: 'k', limits: [limit({ unit: 'hour' }), limit()] })],
      [
        'changed k [rate_limits 10 per minute; 10 per hour>10 per hour; 10 per minute] same: 10 per hour; 10 per minute instead of 10 per minute; 10 per hour: no difference for requests',
      ],
    ],
    [
      'another name of one limit of a rule',
      [rule({ key: 'k', limits: [limit(), limit({ unit: 'hour' })] })],
      [rule({ key: 'k', limits: [limit(), limit({ unit: 'hour', name: 'hourly' })] })],
      [
        'changed k [rate_limits 10 per minute; 10 per hour>10 per minute; 10 per hour (name hourly)] same: other metric name: d.k.1h -> d.k.hourly',
      ],
    ],
    [
      'a name that another rule replaces',
      [
        rule({ key: 'k', rateLimit: limit({ name: 'n' }) }),
        rule({ key: 'o', rateLimit: limit({ replaces: ['n'] }) }),
      ],
      [
        rule({ key: 'k', rateLimit: limit({ name: 'm' }) }),
        rule({ key: 'o', rateLimit: limit({ replaces: ['n'] }) }),
      ],
      ['changed k [name n>m] stricter: no other rule replaces it any more'],
    ],
    [
      'other names to replace',
      [rule({ key: 'k', rateLimit: limit({ replaces: ['a'] }) })],
      [rule({ key: 'k', rateLimit: limit({ replaces: ['b'] }) })],
      ['changed k [replaces a>b] mixed: replaces b in a request that matches both | no longer replaces a'],
    ],
    [
      'a new rule that lets pass what another one limits',
      [rule({ key: 'k', rateLimit: limit({ name: 'n' }) })],
      [
        rule({ key: 'k', rateLimit: limit({ name: 'n' }) }),
        rule({
          key: 'o',
          rateLimit: limit({ unit: '', requestsPerUnit: 0, unlimited: true, replaces: ['n'] }),
        }),
      ],
      [
        'added o [unlimited ->true, replaces ->n] looser: for some of its requests: replaces n in a request that matches both',
      ],
    ],
    [
      'a removed rule that replaced another one',
      [
        rule({ key: 'k', rateLimit: limit({ name: 'n' }) }),
        rule({ key: 'o', rateLimit: limit({ requestsPerUnit: 100, replaces: ['n'] }) }),
      ],
      [rule({ key: 'k', rateLimit: limit({ name: 'n' }) })],
      [
        'removed o [unit minute>-, requests_per_unit 100>-, replaces n>-] mixed: these requests no longer have a limit | for some of its requests: no longer replaces n',
      ],
    ],
    [
      'a new quota beside another one',
      [rule({ key: 'k', rateLimit: limit({}), quotaMode: true })],
      [
        rule({ key: 'k', rateLimit: limit({}), quotaMode: true }),
        rule({ key: 'o', rateLimit: limit({ requestsPerUnit: 100 }), quotaMode: true }),
      ],
      [
        'added o [unit ->minute, requests_per_unit ->100, quota_mode ->true] mixed: these requests had no limit, and are limited now | for some of its requests: a request over its other quotas passes while this quota has room',
      ],
    ],
    [
      'the only quota',
      [rule({ key: 'k', rateLimit: limit({}) })],
      [
        rule({ key: 'k', rateLimit: limit({}) }),
        rule({ key: 'o', rateLimit: limit({ requestsPerUnit: 100 }), quotaMode: true }),
      ],
      [
        'added o [unit ->minute, requests_per_unit ->100, quota_mode ->true] new: these requests had no limit, and are limited now',
      ],
    ],
    [
      'a removed quota in shadow mode beside another one',
      [
        rule({ key: 'k', rateLimit: limit({}), quotaMode: true }),
        rule({ key: 'o', rateLimit: limit({}), quotaMode: true, shadowMode: true }),
      ],
      [
        rule({ key: 'k', rateLimit: limit({}), quotaMode: true }),
        rule({ key: 'o', rateLimit: limit({}), shadowMode: true }),
      ],
      [
        'changed o [quota_mode true>-] stricter: this quota no longer lets requests pass that are over their other quotas',
      ],
    ],
    [
      'metadata, and spelling that means the same',
      [
        rule({ key: 'k', rateLimit: limit({ unit: 'MINUTE' }), metadata: { a: 1, b: 2 } }),
        rule({ key: 'l', metadata: { a: 1 } }),
      ],
      [
        rule({ key: 'k', rateLimit: limit(), metadata: { b: 2, a: 1 } }),
        rule({ key: 'l', metadata: { a: 2 } }),
      ],
      ['changed l [metadata {"a":1}>{"a":2}] same: answers carry other dynamic metadata'],
    ],
    [
      'a longer key whose values are looked for before a pattern that takes them as well',
      [rule({ key: 'a', value: '*' }), rule({ key: 'a_k', value: 'x*x', rateLimit: perMinute(1) })],
      [rule({ key: 'a_k', value: 'x*x', rateLimit: perMinute(1) }), rule({ key: 'a', value: '*' })],
      [
        "moved a_k=x*x [] new: stands before 'a=*' now: requests that match both get this rule | these requests had no limit, and are limited now",
      ],
    ],
    [
      'a pattern before a rule, below which one value had a limit',
      [
        rule({
          key: 'a',
          descriptors: [rule({ key: 'b', value: 'y', rateLimit: perMinute(1) }), rule({ key: 'b' })],
        }),
      ],
      [
        rule({ key: '*', rateLimit: perMinute(1), descriptors: [rule({ key: 'b' })] }),
        rule({
          key: 'a',
          descriptors: [rule({ key: 'b', value: 'y', rateLimit: perMinute(1) }), rule({ key: 'b' })],
        }),
      ],
      [
        'added * [unit ->minute, requests_per_unit ->1] new: these requests had no limit, and are limited now | for some of its requests: these requests had no limit, and are limited now',
        "added * > b [] gone: takes requests from 'a > b=y' (1 per minute): these requests no longer have a limit",
      ],
    ],
    [
      'a removed pattern that longer keys fit, beside a rule of its limit',
      [rule({ key: 'k', value: '*', rateLimit: perMinute(5) }), rule({ key: 'k', rateLimit: perMinute(5) })],
      [rule({ key: 'k', rateLimit: perMinute(5) })],
      [
        "removed k=* [unit minute>-, requests_per_unit 5>-] gone: for requests with a longer key, such as 'k_<any>': these requests no longer have a limit",
      ],
    ],
    [
      'a removed pattern that longer keys fit, beside an unlimited rule',
      [
        rule({ key: 'a', rateLimit: limit({ unit: '', requestsPerUnit: 0, unlimited: true }) }),
        rule({ key: 'a', value: '*x', rateLimit: perMinute(1) }),
      ],
      [rule({ key: 'a', rateLimit: limit({ unit: '', requestsPerUnit: 0, unlimited: true }) })],
      [
        "removed a=*x [unit minute>-, requests_per_unit 1>-] looser: these requests are unlimited now | now 'a' applies to them | for requests with a longer key, such as 'a_<any>': these requests no longer have a limit",
      ],
    ],
    [
      'patterns in another order, where a text fits both',
      [
        rule({ key: 'k', value: 'a*', rateLimit: perMinute(5) }),
        rule({ key: 'k', value: '*b', rateLimit: perMinute(9) }),
        rule({ key: 'k', value: 'x*' }),
      ],
      [
        rule({ key: 'k', value: 'x*' }),
        rule({ key: 'k', value: '*b', rateLimit: perMinute(9) }),
        rule({ key: 'k', value: 'a*', rateLimit: perMinute(5) }),
      ],
      [
        "moved k=x* [] gone: stands before 'k=*b' now: requests that match both get this rule | these requests no longer have a limit",
        "moved k=*b [] looser: stands before 'k=a*' now: requests that match both get this rule | 9 per minute instead of 5 per minute",
      ],
    ],
    [
      'a rule without limit that takes the requests of one with a limit',
      [rule({ key: 'a_b', value: 'x*', rateLimit: perMinute(5) })],
      [rule({ key: 'a_b', value: '*' }), rule({ key: 'a_b', value: 'x*', rateLimit: perMinute(5) })],
      [
        "added a_b=* [] gone: takes requests from 'a_b=x*' (5 per minute): these requests no longer have a limit",
      ],
    ],
    [
      'a value whose requests had a limit further down',
      [rule({ key: 't', descriptors: [rule({ key: 'u', rateLimit: perMinute(5) })] })],
      [
        rule({ key: 't', descriptors: [rule({ key: 'u', rateLimit: perMinute(5) })] }),
        rule({ key: 't', value: 'x', rateLimit: perMinute(9) }),
      ],
      [
        "added t=x [unit ->minute, requests_per_unit ->9] mixed: these requests had no limit, and are limited now | takes requests from 't > u' (5 per minute): these requests no longer have a limit",
      ],
    ],
    [
      'a wider pattern before a narrower one, and back',
      [rule({ key: 'p', value: '/ab*', rateLimit: perMinute(5) })],
      [
        rule({ key: 'p', value: '/a*', rateLimit: perMinute(9) }),
        rule({ key: 'p', value: '/ab*', rateLimit: perMinute(5) }),
      ],
      [
        "added p=/a* [unit ->minute, requests_per_unit ->9] mixed: these requests had no limit, and are limited now | takes requests from 'p=/ab*' (5 per minute): 9 per minute instead of 5 per minute",
      ],
    ],
    [
      'a removed pattern that kept requests from another one',
      [
        rule({ key: 'p', value: '/a*', rateLimit: perMinute(9) }),
        rule({ key: 'p', value: '/ab*', rateLimit: perMinute(5) }),
      ],
      [rule({ key: 'p', value: '/ab*', rateLimit: perMinute(5) })],
      [
        "removed p=/a* [unit minute>-, requests_per_unit 9>-] mixed: these requests no longer have a limit | leaves requests to 'p=/ab*' (5 per minute): 5 per minute instead of 9 per minute",
      ],
    ],
    [
      'a pattern that takes the requests of another key, which begins alike',
      [rule({ key: 'user_id', rateLimit: perMinute(5) })],
      [
        rule({ key: 'user_id', rateLimit: perMinute(5) }),
        rule({ key: 'user', value: '*', rateLimit: limit({ unit: '', unlimited: true }) }),
      ],
      [
        "added user=* [unlimited ->true] looser: takes requests from 'user_id' (5 per minute): these requests are unlimited now",
      ],
    ],
    [
      'a key that begins like another one, which takes nothing from it',
      [rule({ key: 'user', rateLimit: perMinute(5) })],
      [rule({ key: 'user', rateLimit: perMinute(5) }), rule({ key: 'user_id', rateLimit: perMinute(9) })],
      [
        'added user_id [unit ->minute, requests_per_unit ->9] new: these requests had no limit, and are limited now',
      ],
    ],
    [
      'a shared threshold above a limit',
      [rule({ key: 'p', value: '/a*', descriptors: [rule({ key: 'u', rateLimit: perMinute(5) })] })],
      [
        rule({
          key: 'p',
          value: '/a*',
          shareThreshold: true,
          descriptors: [rule({ key: 'u', rateLimit: perMinute(5) })],
        }),
      ],
      [
        'changed p=/a* [share_threshold ->true] stricter: all values share the counters of limits below it | other counter keys for the rules below it, too',
      ],
    ],
    [
      'rules without patterns in another order',
      [rule({ key: 'a', rateLimit: limit() }), rule({ key: 'b', rateLimit: limit() })],
      [rule({ key: 'b', rateLimit: limit() }), rule({ key: 'a', rateLimit: limit() })],
      [],
    ],
  ])('reports %s', (_, before, after, expected) => {
    expect(compare(before, after)).toEqual(expected);
  });

  it.each<[string, Partial<RuleTraits>]>([
    ['unit', { rateLimit: limit({ unit: 'hour' }) }],
    ['requests_per_unit', { rateLimit: limit({ requestsPerUnit: 9 }) }],
    ['unlimited', { rateLimit: limit({ unit: '', unlimited: true }) }],
    ['name', { rateLimit: limit({ name: 'n' }) }],
    ['replaces', { rateLimit: limit({ replaces: ['n'] }) }],
    ['shadow_mode', { shadowMode: true }],
    ['quota_mode', { quotaMode: true }],
    ['detailed_metric', { detailedMetric: true }],
    ['value_to_metric', { valueToMetric: true }],
    ['share_threshold', { shareThreshold: true }],
    ['metadata', { metadata: { a: 1 } }],
  ])('sees another %s', (name, traits) => {
    const one = { key: 'k', value: 'a*', rateLimit: limit() };
    const after = source('d', [rule({ ...one, ...traits })]);
    const [change] = compareSources([source('d', [rule(one)])], [after], 'f');
    expect(change?.fields.map((field) => field.name)).toContain(name);
  });

  it('reports domains that come and go, and does not care for files', () => {
    const before = [
      source('d', [rule({ key: 'a', rateLimit: limit() })]),
      source('old', [rule({ key: 'k', rateLimit: limit() })]),
    ];
    const after = [
      source('d', [], 'x'),
      source('d', [rule({ key: 'a', rateLimit: limit() })], 'y'),
      source('new', [rule({ key: 'k' })]),
    ];
    const changes = compareSources(before, after, 'edge');
    expect(changes.map(({ kind, domain, fleet, effect }) => [kind, domain, fleet, effect])).toEqual([
      ['removed', 'old', 'edge', 'gone'],
      ['added', 'new', 'edge', 'same'],
    ]);
  });

  it('says when the order of so many patterns changed that it does not compare them', () => {
    const rules = Array.from({ length: 700 }, (_, i) =>
      rule({ key: 'k', value: `${'x'.repeat(i)}*`, rateLimit: perMinute(i) }),
    );
    expect(compare(rules, rules.toReversed())).toEqual([
      'moved * [] mixed: the order of 700 patterns of one level changed: too many to compare each pair',
    ]);
  });

  it('compares the order of any number of patterns that have nothing in common', () => {
    const rules = Array.from({ length: 2_000 }, (_, i) =>
      rule({ key: 'k', value: `/${i}/*`, rateLimit: perMinute(i) }),
    );
    const narrow = rule({ key: 'k', value: '/7/x*', rateLimit: perMinute(1) });
    expect(compare([...rules, narrow], [narrow, ...rules.toReversed()])).toEqual([
      "moved k=/7/x* [] stricter: stands before 'k=/7/*' now: requests that match both get this rule | 1 per minute instead of 7 per minute",
    ]);
  });

  const pair = fc.oneof(
    fc.tuple(overlappingRules, overlappingRules),
    overlappingRules.map((rules) => [rules, rules.toReversed()] as [Rule[], Rule[]]),
    fc
      .tuple(overlappingRules, fc.nat(5))
      .map(([rules, gone]): [Rule[], Rule[]] => [rules, rules.filter((_, i) => i !== gone)]),
  );

  it('finds no change between a set of rules and itself', () => {
    fc.assert(
      fc.property(overlappingRules, (rules) => {
        expect(compare(rules, structuredClone(rules))).toEqual([]);
      }),
    );
  });

  it('finds a change wherever a request is answered otherwise', () => {
    let differing = 0;
    const cases = pair.chain(([before, after]) =>
      fc.tuple(
        fc.constant([before, after]),
        fc.array(entriesFor([...before, ...after]), { minLength: 10, maxLength: 20 }),
      ),
    );
    fc.assert(
      fc.property(cases, ([[before = [], after = []], requests]) => {
        const [was, is] = [before, after].map((rules) => new RuleTable(compileRules([source('d', rules)])));
        // Its place among the others changes no answer.
        const reported = (table: RuleTable, entries: Entry[]): string =>
          JSON.stringify(table.match('d', entries), (name, value) => (name === 'order' ? undefined : value));
        const isOther = requests.some((entries) => reported(was!, entries) !== reported(is!, entries));
        if (!isOther) return;
        differing++;
        expect(compare(before, after)).not.toEqual([]);
      }),
      { numRuns: caseCount(150) },
    );
    expect(differing).toBeGreaterThan(caseCount(40));
  });
});
