import { describe, expect, it } from 'vitest';
import { limit, rule } from '../test/support/rule-builder.ts';
import { Algorithm } from './algorithms/registry.ts';
import { rulesVersionNeeded, Unit, unitFromText } from './model.ts';

describe('unitFromText', () => {
  it.each([
    ['second', Unit.SECOND],
    ['MINUTE', Unit.MINUTE],
    ['Hour', Unit.HOUR],
    ['day', Unit.DAY],
    ['week', Unit.WEEK],
    ['mOnTh', Unit.MONTH],
    ['year', Unit.YEAR],
    ['', undefined],
    ['unknown', undefined],
    ['UNKNOWN', undefined],
    ['seconds', undefined],
    [' day', undefined],
    ['constructor', undefined],
  ])('takes %j for %s', (text, unit) => {
    expect(unitFromText(text)).toBe(unit);
  });
});

describe('rulesVersionNeeded', () => {
  it.each([
    ['no limit', {}, 1],
    ['a limit that the Go service knows', { rateLimit: limit({ unit: 'week' }) }, 1],
    ['no limit at all', { rateLimit: limit({ unit: '', unlimited: true }) }, 1],
    ['a lease, which nobody has to take', { rateLimit: limit(), lease: 20_000 }, 1],
    ['several units in a window', { rateLimit: limit({ unitMultiplier: 5 }) }, 2],
    ['a sliding window', { rateLimit: limit({ algorithm: Algorithm.SLIDING_WINDOW }) }, 2],
    ['a token bucket', { rateLimit: limit({ algorithm: Algorithm.TOKEN_BUCKET }) }, 2],
    ['a number of 32 bits', { rateLimit: limit({ requestsPerUnit: 2 ** 32 - 1 }) }, 1],
    ['words for people', { rateLimit: limit({ hitsUnit: 'tokens', warnAt: [50] }) }, 1],
    ['a number beyond 32 bits', { rateLimit: limit({ requestsPerUnit: 2 ** 32 }) }, 4],
    ['a calendar', { rateLimit: limit({ calendar: { unit: 'day', timezone: 'UTC', startsOn: 1 } }) }, 4],
    [
      'reservations',
      { rateLimit: limit(), reserve: { ttlSeconds: 60, estimate: undefined, onExpiry: 'release' as const } },
      4,
    ],
    ['two limits', { limits: [limit(), limit({ unit: 'day' })] }, 2],
  ])('of a rule with %s', (_, traits, version) => {
    const found = rule({ key: 'k', ...traits });
    expect(rulesVersionNeeded([rule({ key: 'plain', rateLimit: limit() }), found])).toBe(version);
    expect(rulesVersionNeeded([rule({ key: 'above', descriptors: [found] })])).toBe(version);
  });
});
