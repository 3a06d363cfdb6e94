import { describe, expect, it } from 'vitest';
import { limit, rule, source, validateSources } from '../test/support/rule-builder.ts';
import type { Rule, RuleSource } from './model.ts';
import { formatRuleError } from './rule-error.ts';

function errorsOf(...sources: RuleSource[]): string[] {
  return validateSources(sources, { mergeDomains: false }).map(formatRuleError);
}

function errorsOfRules(...rules: Rule[]): string[] {
  return errorsOf(source('d', rules, 'r'));
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
      'share_threshold without wildcard',
      [rule({ key: 'k', value: 'v', shareThreshold: true })],
      "share_threshold can only be used with wildcard values (containing '*'), but found key 'k_v'",
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

  it('refuses an empty domain and goes on', () => {
    expect(errorsOf(source('', [rule({ key: '' })], 'a'), source('', [], 'b'))).toEqual([
      'a: config file cannot have empty domain',
      'a: descriptor has empty key',
      'b: config file cannot have empty domain',
    ]);
  });

  it('refuses a domain of two sources, whose rules do not meet', () => {
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

  it('lists 1,000 errors at most', () => {
    const rules = Array.from({ length: 1500 }, () => rule({ key: '' }));
    expect(errorsOfRules(...rules)).toHaveLength(1000);
  });
});
