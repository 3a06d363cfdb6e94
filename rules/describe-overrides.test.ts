import { describe, expect, it } from 'vitest';
import { Algorithm } from './algorithms/registry.ts';
import { overrideWords, unusedUnitWords } from './describe.ts';
import { type Limit, makeLimit, Unit } from './model.ts';
import type { Override, OverrideEffect } from './override.ts';

const limit = (requestsPerUnit: number, unit: Unit, more: Partial<Limit> = {}): Limit => ({
  ...{ ...makeLimit({ requestsPerUnit }), unit, ...more },
});
const perMinute = [limit(5, Unit.MINUTE)];
const two = [limit(5, Unit.MINUTE), limit(100, Unit.DAY, { name: 'daily' })];
const to = (effect: OverrideEffect, name = ''): Pick<Override, 'match' | 'limit' | 'effect'> => ({
  match: [{ key: 'k', value: 'v' }],
  limit: name,
  effect,
});
const hundred = { kind: 'limit', requestsPerUnit: 100, unit: undefined } as const;
const perDay = { ...hundred, unit: Unit.DAY };

describe('overrideWords', () => {
  it.each([
    [to(hundred), perMinute, '100 per minute instead of 5 per minute'],
    [to(perDay), perMinute, '100 per minute instead of 5 per minute'],
    [to(hundred, 'daily'), two, '100 per day instead of 100 per day'],
    [
      to(hundred),
      [limit(5, Unit.SECOND, { algorithm: Algorithm.TOKEN_BUCKET, burst: 9 })],
      '100 per second instead of 5 per second',
    ],
    [to({ kind: 'unlimited' }), two, 'unlimited instead of 5 per minute; 100 per day'],
    [to({ kind: 'block' }), perMinute, 'blocked instead of 5 per minute'],
    [to({ kind: 'shadow' }), perMinute, 'counted but never over limit, instead of 5 per minute'],
    [to({ kind: 'grant', hits: 7 }), perMinute, '7 more, once, in addition to 5 per minute'],
    // Nothing is known, or nothing counts.
    [to(hundred), undefined, '100 per window'],
    [to(perDay), [], '100 per day'],
    [to(hundred), two, '100 per window'],
    [
      { ...to(hundred), match: [{ key: 'k', value: 'v*' }] },
      [],
      '100 per window instead of the limits of each rule that counts a match',
    ],
  ])('%# says what changes', (override, limits, words) => {
    expect(overrideWords(override, limits)).toBe(words);
  });
});

describe('unusedUnitWords', () => {
  it('warns of a unit other than that of the rule', () => {
    expect(unusedUnitWords(to(perDay), perMinute)).toBe(
      'the unit day is not used, because the window of the rule stays: 100 per minute instead of 5 per minute',
    );
    expect(unusedUnitWords(to({ ...hundred, unit: Unit.MINUTE }), perMinute)).toBe('');
    expect(unusedUnitWords(to(hundred), perMinute)).toBe('');
    expect(unusedUnitWords(to(perDay), [])).toBe('');
  });
});
