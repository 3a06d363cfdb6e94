import { describe, expect, it } from 'vitest';
import { parseLabelSelector } from './label-selector.ts';

const long = 'a'.repeat(63);

const good: [text: string, selected: Record<string, string>[], others: Record<string, string>[]][] = [
  ['', [{}, { a: 'b' }], []],
  [' ', [{}], []],
  ['team', [{ team: '' }], [{}, { Team: '' }]],
  ['!team', [{}], [{ team: '' }]],
  ['team=payments', [{ team: 'payments' }], [{}, { team: '' }]],
  ['team==payments,tier', [{ team: 'payments', tier: '1' }], [{ team: 'payments' }]],
  ['team != payments', [{}, { team: 'x' }], [{ team: 'payments' }]],
  ['team=', [{ team: '' }], [{}, { team: 'x' }]],
  ['example.com/team=Pay_ments.2', [{ 'example.com/team': 'Pay_ments.2' }], [{}]],
  ['tier in (edge,core)', [{ tier: 'edge' }, { tier: 'core' }], [{}, { tier: 'x' }]],
  ['tier notin ( edge , core ), !legacy', [{}, { tier: 'x' }], [{ tier: 'edge' }, { legacy: '' }]],
  ['tier in ()', [{ tier: '' }], [{}, { tier: 'x' }]],
  ['in in (in)', [{ in: 'in' }], [{}]],
  ['size>3', [{ size: '4' }], [{}, { size: '3' }, { size: 'x' }]],
  ['size < 9223372036854775807', [{ size: '1' }], [{ size: '9223372036854775808' }]],
  ['toString', [], [{}]],
  [`a=${long}`, [{ a: long }], [{}]],
];

const bad: [text: string, problem: string][] = [
  [',', "found ',' instead of a key"],
  ['a,', "found the end after ',' instead of a key"],
  ['=a', "found '=' instead of a key"],
  ['a=b=c', "found '=' after 'b' instead of ',' or the end"],
  ['team=pay ments', "found 'ments' after 'pay' instead of ',' or the end"],
  ['tier in edge', "found 'edge' after 'in' instead of '('"],
  ['tier in (edge', "found the end after 'edge' instead of ',' or ')'"],
  ['Example.com/team', "'Example.com/team' is not a key of a label"],
  ['a/b/c', "'a/b/c' is not a key of a label"],
  ['a b', "found 'b' after 'a' instead of one of =, ==, !=, in, notin, < and >"],
  ['!a=b', "found '=' after 'a' instead of ',' or the end"],
  [`a=${long}a`, `'${long}a' is not a value of a label`],
  ['team=-a', "'-a' is not a value of a label"],
  ['a>b', "'b' is not a whole number"],
];

describe('a label selector', () => {
  it.each(good)('may be "%s"', (text, selected, others) => {
    const parsed = parseLabelSelector(text);
    if ('problem' in parsed) throw new Error(parsed.problem);
    expect(selected.filter(parsed.selects)).toEqual(selected);
    expect(others.filter(parsed.selects)).toEqual([]);
  });

  it.each(bad)('is never "%s"', (text, problem) => {
    expect(parseLabelSelector(text)).toEqual({ problem });
  });
});
