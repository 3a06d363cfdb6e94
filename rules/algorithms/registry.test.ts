import { describe, expect, it } from 'vitest';
import { RateLimitAlgorithm } from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { compileRules } from '../table/compile-rules.ts';
import { RuleTable } from '../table/rule-table.ts';
import { Algorithm, algorithmNames, algorithmOf, algorithmOfKeyEnd, hasWindows } from './registry.ts';

const unknown = 7 as Algorithm;
const message = 'there is no algorithm with the number 7';
const rulesOf = (algorithm: Algorithm) =>
  compileRules([source('d', [rule({ key: 'k', rateLimit: limit({ algorithm }) })])]);

describe('the algorithms', () => {
  it('have the numbers and names of the enum in resources', () => {
    const names = Object.keys(RateLimitAlgorithm).filter((name) => !/^\d+$/.test(name));
    expect(names.map((name) => RateLimitAlgorithm[name as never])).toEqual(Object.values(Algorithm));
    expect(names.map((name) => name.toLowerCase())).toEqual(algorithmNames);
  });

  it('are distinguished by the ends of their counter keys', () => {
    for (const algorithm of Object.values(Algorithm)) {
      const { steady } = algorithmOf({ algorithm });
      expect(algorithmOfKeyEnd(steady?.keyWord ?? '1700000000')).toBe(algorithm);
      expect(hasWindows({ algorithm })).toBe(steady === undefined);
    }
    expect(algorithmOfKeyEnd('unheard')).toBeUndefined();
  });
});

describe('an algorithm that is not known', () => {
  it('has no windows, and is none of the others', () => {
    expect(hasWindows({ algorithm: unknown })).toBe(false);
    expect(() => algorithmOf({ algorithm: unknown })).toThrow(message);
  });

  it('is not compiled', () => {
    expect(() => rulesOf(unknown)).toThrow(message);
  });

  it('is not read from compiled rules', () => {
    const bytes = rulesOf(Algorithm.SLIDING_WINDOW);
    const units = new Uint16Array(bytes);
    const others = new Uint16Array(rulesOf(Algorithm.TOKEN_BUCKET));
    const isUnit = (unit: number | undefined, digit: number) => unit === String(digit).charCodeAt(0);
    for (const [at, unit] of units.entries())
      if (isUnit(unit, Algorithm.SLIDING_WINDOW) && isUnit(others[at], Algorithm.TOKEN_BUCKET))
        units[at] = String(unknown).charCodeAt(0);
    const table = new RuleTable(bytes);
    expect(() => table.match('d', [{ key: 'k', value: 'v' }])).toThrow(message);
  });
});
