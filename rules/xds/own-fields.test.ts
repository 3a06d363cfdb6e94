import { describe, expect, it } from 'vitest';
import { rule, source } from '../../test/support/rule-builder.ts';
import { ownFieldsOf } from './own-fields.ts';

describe('ownFieldsOf', () => {
  const own = rule({ key: 'a', valueToMetric: true });
  const shared = rule({ key: 'b', value: '*', shareThreshold: true });
  const cases: [what: string, rules: ReturnType<typeof rule>[], fields: string[]][] = [
    ['nothing for rules that every limiter knows', [rule({ key: 'k', detailedMetric: true })], []],
    ['one that is used', [own], ['valueToMetric']],
    [
      'one that is used below',
      [rule({ key: 'k', descriptors: [rule({ key: 'k' }), shared] })],
      ['shareThreshold'],
    ],
    ['both, in one order', [shared, own, own], ['valueToMetric', 'shareThreshold']],
  ];
  it.each(cases)('names %s', (_, rules, fields) => {
    expect(ownFieldsOf(source('d', rules))).toEqual(fields);
  });
});
