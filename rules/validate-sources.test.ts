import { describe, expect, it } from 'vitest';
import { type LimitParts, limit, rule, source, validateSources } from '../test/support/rule-builder.ts';
import { Algorithm } from './algorithms/registry.ts';
import type { Limit, Rule, RuleSource } from './model.ts';
import { formatRuleError } from './rule-error.ts';
import type { RuleSupport } from './validate-limits.ts';

function errorsOf(...sources: RuleSource[]): string[] {
  return validateSources(sources, { mergeDomains: false }).map(formatRuleError);
}

function errorsOfRules(...rules: Rule[]): string[] {
  return errorsOf(source('d', rules, 'r'));
}

const bucket = { algorithm: Algorithm.TOKEN_BUCKET };
const sliding = { algorithm: Algorithm.SLIDING_WINDOW };

function one(traits: LimitParts): Rule {
  return rule({ key: `one${traits.unitMultiplier ?? ''}${traits.unit ?? ''}`, rateLimit: limit(traits) });
}

function several(...limits: Limit[]): Rule {
  return rule({ key: 'k', limits });
}

describe('checkSources', () => {
  const table: [what: string, rules: Rule[], ...errors: string[]][] = [
    ['rules with all traits', [rule({ key: 'k', value: 'v*', rateLimit: limit(), shareThreshold: true })]],
    ['a limit of zero', [rule({ key: 'k', rateLimit: limit({ requestsPerUnit: 0 }) })]],
    ['one key with and without value', [rule({ key: 'k' }), rule({ key: 'k', value: 'v' })]],
    ['one key on two levels', [rule({ key: 'k', descriptors: [rule({ key: 'k' })] })]],
    ['unlimited without unit', [rule({ key: 'k', rateLimit: limit({ unlimited: true, unit: '' }) })]],
    ['a wildcard in the key', [rule({ key: 'k*', shareThreshold: true })]],
    ['metadata of any depth', [rule({ key: 'k', metadata: { a: [null, true, 'x', { b: 1.5 }] } })]],
    ['an empty key', [rule({ key: '' })], 'descriptor has empty key'],
    [
      'colliding composite keys',
      [rule({ key: 'a', value: 'b_c' }), rule({ key: 'a_b', value: 'c' })],
      "duplicate descriptor composite key 'd.a_b_c'",
    ],
    [
      'a duplicate below a rule with a value',
      [rule({ key: 'a', value: 'b', descriptors: [rule({ key: 'c' }), rule({ key: 'c' })] })],
      "duplicate descriptor composite key 'd.a_b.c'",
    ],
    [
      'an unknown unit',
      [rule({ key: 'k', rateLimit: limit({ unit: 'fortnight' }) })],
      "invalid rate limit unit 'fortnight'",
    ],
    [
      'the unit UNKNOWN',
      [rule({ key: 'k', rateLimit: limit({ unit: 'UNKNOWN' }) })],
      "invalid rate limit unit 'UNKNOWN'",
    ],
    [
      'unlimited with a unit',
      [rule({ key: 'k', rateLimit: limit({ unlimited: true }) })],
      'should not specify rate limit unit when unlimited',
    ],
    [
      'an empty name in replaces',
      [rule({ key: 'k', rateLimit: limit({ replaces: ['a', ''] }) })],
      'should not have an empty replaces entry',
    ],
    [
      'its own name in replaces',
      [rule({ key: 'k', rateLimit: limit({ name: 'n', replaces: ['n'] }) })],
      'replaces should not contain name of same descriptor',
    ],
    [
      'windows of any length',
      [one({ unitMultiplier: 65_535, unit: 'second' }), one({ unit: 'year', unitMultiplier: 10 })],
    ],
    ['a bucket that lets nothing through', [one({ requestsPerUnit: 0, burst: 2 ** 32 - 1, ...bucket })]],
    [
      'a bucket that is large, and not too large',
      [one({ requestsPerUnit: 2 ** 24, unit: 'year', burst: 2 ** 26, ...bucket })],
    ],
    [
      'several limits',
      [
        several(
          limit(),
          limit({ unitMultiplier: 2 }),
          limit({ ...sliding }),
          limit({ unit: 'day', name: 'n', replaces: ['m'] }),
        ),
      ],
    ],
    ['a window of no units', [one({ unitMultiplier: 0 })], 'unit_multiplier must be 1 to 65535, found 0'],
    [
      'a window of too many',
      [one({ unitMultiplier: 65_536 })],
      'unit_multiplier must be 1 to 65535, found 65536',
    ],
    [
      'a window of more than ten years',
      [one({ unit: 'day', unitMultiplier: 3651, ...sliding })],
      'the window 3651d is 315446400 seconds, and a window has at most 315360000 (10 years)',
    ],
    ['a burst without bucket', [one({ burst: 5 })], 'burst works only with algorithm token_bucket'],
    [
      'traits of a window that is not there',
      [one({ unlimited: true, unit: '', unitMultiplier: 2, burst: 1, ...bucket })],
      'should not specify unit_multiplier when unlimited',
      'should not specify algorithm when unlimited',
      'should not specify burst when unlimited',
    ],
    [
      'a bucket beyond exact numbers',
      [one({ requestsPerUnit: 3, unit: 'year', burst: 4_000_000_000, ...bucket })],
      'burst can be at most 466 at 3 per year, to be counted exactly, found 4000000000',
    ],
    [
      'a bucket whose rest is beyond exact numbers',
      [one({ requestsPerUnit: 2 ** 32 - 1, burst: 2 ** 32 - 1, unit: 'year', ...bucket })],
      'burst can be at most 3832654 at 4294967295 per year, to be counted exactly, found 4294967295',
    ],
    [
      'the least bucket that is too large',
      [one({ requestsPerUnit: 1, burst: 156, unit: 'year', ...bucket })],
      'burst can be at most 155 at 1 per year, to be counted exactly, found 156',
    ],
    [
      'a bucket as large as its rate, where that is too large',
      [one({ requestsPerUnit: 123_456_789, unit: 'day', ...bucket })],
      'burst can be at most 86854477 at 123456789 per day, to be counted exactly: the default is requests_per_unit; write a smaller burst',
    ],
    [
      'something unlimited among several',
      [several(limit(), limit({ unlimited: true, unit: '' }))],
      'unlimited cannot be one of rate_limits',
    ],
    [
      'equal names',
      [several(limit({ name: 'n' }), limit({ name: 'n', unit: 'day' }))],
      "two of its rate_limits have the name 'n'",
    ],
    [
      'names that are one in statistics',
      [several(limit({ name: 'a:b' }), limit({ name: 'a_b', unit: 'day' }))],
      "two of its rate_limits have the names 'a:b' and 'a_b', which are one in statistics: 'a_b'",
    ],
    [
      'a name that is the window of another',
      [several(limit({ unitMultiplier: 5 }), limit({ name: '5m', unit: 'day' }))],
      "two of its rate_limits are called '5m', one by its name and one by its window",
    ],
    [
      'equal windows and algorithms',
      [several(limit(), limit({ unit: 'second', unitMultiplier: 60 }), limit({ ...bucket }))],
      'two of its rate_limits have the window 1m and the algorithm fixed_window',
    ],
    [
      'a month beside 30 days',
      [several(limit({ unit: 'month' }), limit({ unit: 'day', unitMultiplier: 30 }))],
      'two of its rate_limits have the window 30d and the algorithm fixed_window',
    ],
    [
      'the name of another of its limits in replaces',
      [several(limit({ name: 'n' }), limit({ unit: 'day', replaces: ['n'] }))],
      'replaces should not contain name of same descriptor',
    ],
    [
      'share_threshold without wildcard',
      [rule({ key: 'k', value: 'v', shareThreshold: true })],
      "share_threshold can only be used with wildcard values (containing '*'), but found key 'k_v'",
    ],
    [
      'leases of one fixed window, and none of anything',
      [
        rule({ key: 'k', rateLimit: limit({ unitMultiplier: 5 }), lease: 20_000 }),
        rule({ key: 'l', rateLimit: limit(sliding), lease: 0 }),
        rule({ key: 'm', limits: [limit(), limit({ unit: 'day' })], lease: 0 }),
      ],
    ],
    [
      'a lease of a sliding window',
      [rule({ key: 'k', rateLimit: limit(sliding), lease: 1 })],
      'lease can only be 0 with algorithm sliding_window: only fixed windows are leased',
    ],
    [
      'a lease of several limits',
      [rule({ key: 'k', limits: [limit(), limit({ unit: 'day' })], lease: 1 })],
      'lease can only be 0 beside rate_limits, which one operation counts',
    ],
    [
      'a number without JSON form',
      [rule({ key: 'k', metadata: { a: { b: Infinity } } })],
      "error parsing metadata: number Infinity at 'a.b' has no JSON form",
    ],
    [
      'half a character as a key',
      [rule({ key: 'k', metadata: { '\ud800': 1 } })],
      "error parsing metadata: text at '\ud800' is not valid Unicode",
    ],
    [
      'everything wrong at once, in the order of the Go service',
      [
        rule({
          key: '',
          rateLimit: limit({ unit: 'x', replaces: [''] }),
          shareThreshold: true,
          metadata: { a: Number.NaN },
          descriptors: [rule({ key: '' })],
        }),
      ],
      'descriptor has empty key',
      "invalid rate limit unit 'x'",
      'should not have an empty replaces entry',
      "share_threshold can only be used with wildcard values (containing '*'), but found key ''",
      "error parsing metadata: number NaN at 'a' has no JSON form",
      'descriptor has empty key',
    ],
  ];
  it.each(table)('judges %s', (_, rules, ...errors) => {
    expect(errorsOfRules(...rules)).toEqual(errors.map((error) => `r: ${error}`));
  });

  it('rejects an empty domain and continues', () => {
    expect(errorsOf(source('', [rule({ key: '' })], 'a'), source('', [], 'b'))).toEqual([
      'a: config file cannot have empty domain',
      'a: descriptor has empty key',
      'b: config file cannot have empty domain',
    ]);
  });

  it('rejects a domain of two sources whose rules do not overlap', () => {
    const sources = [source('d', [rule({ key: 'k' })], 'a'), source('d', [rule({ key: 'k' })], 'b')];
    expect(errorsOf(...sources)).toEqual(["b: duplicate domain 'd' in config file"]);
  });

  it('joins the top levels of one domain when domains may be merged', () => {
    const sources = [
      source('d', [rule({ key: 'k', descriptors: [rule({ key: 'l' })] })], 'a'),
      source('e', [rule({ key: 'k' })], 'b'),
      source('d', [rule({ key: 'l' }), rule({ key: 'k' })], 'c'),
    ];
    expect(validateSources(sources, { mergeDomains: true }).map(formatRuleError)).toEqual([
      "c: duplicate descriptor composite key 'd.k'",
    ]);
  });

  it('gives codes and paths', () => {
    const rules = [
      rule({ key: 'k', descriptors: [rule({ key: 'k', rateLimit: limit({ replaces: ['', 'x'] }) })] }),
    ];
    expect(validateSources([source('d', rules)], { mergeDomains: false })).toEqual([
      {
        code: 'empty-replaces',
        source: 'd.yaml',
        text: 'should not have an empty replaces entry',
        path: ['descriptors', 0, 'descriptors', 0, 'rate_limit', 'replaces', 0, 'name'],
        line: undefined,
        column: undefined,
      },
    ]);
  });

  it('places what is wrong with several limits', () => {
    const limits = [limit({ name: 'n' }), limit({ unitMultiplier: 0 }), limit({ name: 'n', ...sliding })];
    const errors = validateSources([source('d', [rule({ key: 'k', limits })])], { mergeDomains: false });
    expect(errors.map(({ code, path }) => [code, path.slice(2).join('.')])).toEqual([
      ['invalid-window', 'rate_limits.1.unit_multiplier'],
      ['duplicate-limit', 'rate_limits.2.name'],
    ]);
  });

  const rules = [
    one(sliding),
    one({ unit: 'day', ...bucket }),
    one({ unit: 'month', unitMultiplier: 2 }),
    one({ unit: 'month' }),
    one({ unit: 'hour', unitMultiplier: 3 }),
    several(limit(), limit({ unit: 'day' })),
  ];
  const all = { admission: undefined, groups: undefined, calendarMonths: false };
  it.each<[string, RuleSupport, ...string[]]>([
    ['everything', all],
    [
      'fixed windows alone',
      { ...all, admission: 'because' },
      "algorithm sliding_window of 'd.one' cannot be counted: because",
      "algorithm token_bucket of 'd.oneday' cannot be counted: because",
      "rate_limits of 'd.k' cannot be counted: because",
    ],
    ['one limit a rule', { ...all, groups: 'so it is' }, "rate_limits of 'd.k' cannot be counted: so it is"],
    [
      'calendar months',
      { ...all, calendarMonths: true },
      "the window of 2 months of 'd.one2month' cannot be counted: USE_CALENDAR_MONTH_RATE_LIMIT=true gives months no fixed length",
    ],
  ])('rejects what a limiter cannot count that counts %s', (_, support, ...errors) => {
    const found = validateSources([source('d', rules)], { mergeDomains: false, support });
    expect(found.map(({ text }) => text)).toEqual(errors);
  });

  it('lists 1,000 errors at most', () => {
    const rules = Array.from({ length: 1500 }, () => rule({ key: '' }));
    expect(errorsOfRules(...rules)).toHaveLength(1000);
  });
});
