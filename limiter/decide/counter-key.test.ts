import { describe, expect, it } from 'vitest';
import { defaultTextBytes } from '../../rules/long-text.ts';
import { Unit } from '../../rules/model.ts';
import { counterKey, overrideMetricKey, stemOfValues } from './counter-key.ts';
import { windowAt } from './windows.ts';

const nowSeconds = 1_000_000;

describe('counterKey', () => {
  it.each([
    ['SECOND', 'd_k_v_1000000'],
    ['MINUTE', 'd_k_v_999960'],
    ['HOUR', 'd_k_v_997200'],
    ['DAY', 'd_k_v_950400'],
    ['WEEK', 'd_k_v_604800'],
    ['MONTH', 'd_k_v_0'],
    ['YEAR', 'd_k_v_0'],
  ] as const)('ends in the start of the %s: %s', (unit, key) => {
    expect(
      counterKey(
        'd_k_v_',
        windowAt({ unit: Unit[unit], unitMultiplier: 1 }, nowSeconds, {
          useCalendarMonthRateLimit: false,
          counterKeys: 'compatible',
        }),
      ),
    ).toBe(key);
  });
});

describe('a limit of the request', () => {
  it.each<[[string, string][], string, string]>([
    [[['k', 'v']], 'd.k_v', 'd_k_v_'],
    [
      [
        ['s', '1'],
        ['y', ''],
      ],
      'd.s_1.y',
      'd_s_1_y__',
    ],
    [[], 'd.', 'd_'],
  ])('for %j is counted as %s, by %s', (tuples, metricKey, stem) => {
    const entries = tuples.map(([key, value]) => ({ key, value }));
    expect(overrideMetricKey('d', entries)).toBe(metricKey);
    expect(stemOfValues('compatible', 'd', entries, defaultTextBytes)).toBe(stem);
  });
});
