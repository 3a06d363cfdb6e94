import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import type { Limit, Rule } from '../../rules/model.ts';
import { covers, maxAtOnce } from '../../rules/review/limit-order.ts';
import { secondsOfLimit } from '../../rules/window.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule } from '../../test/support/rule-builder.ts';
import { limitEffect } from './limit-effect.ts';

function traits(requestsPerUnit: number, unit: string, more: Partial<Rule> = {}): Rule {
  return rule({ key: 'k', rateLimit: limit({ requestsPerUnit, unit }), ...more });
}
const unlimited = traits(0, '', { limits: [limit({ unit: '', unlimited: true })] });
const shadow = traits(5, 'minute', { shadowMode: true });

const cases: [string, Rule | undefined, Rule | undefined, string, string][] = [
  [
    'nothing to a limit',
    undefined,
    traits(5, 'minute'),
    'new',
    'these requests had no limit, and are limited now',
  ],
  [
    'unlimited to a limit',
    unlimited,
    traits(5, 'minute'),
    'stricter',
    'these requests were unlimited, and are limited now',
  ],
  [
    'shadow to a limit',
    shadow,
    traits(5, 'minute'),
    'stricter',
    'shadow mode let these requests pass; those over limit no longer pass',
  ],
  ['a limit to nothing', traits(5, 'minute'), undefined, 'gone', 'these requests no longer have a limit'],
  ['a limit to unlimited', traits(5, 'minute'), unlimited, 'looser', 'these requests are unlimited now'],
  ['a limit to shadow', traits(5, 'minute'), shadow, 'looser', 'shadow mode lets these requests pass now'],
  ['nothing to unlimited', undefined, unlimited, 'same', 'never limited, as before'],
  ['nothing to shadow', undefined, shadow, 'same', 'now counted and reported, but never over limit'],
  [
    'shadow to nothing',
    shadow,
    undefined,
    'same',
    'no longer counted and reported; they were never over limit',
  ],
  [
    'shadow to another',
    shadow,
    { ...shadow, limits: [limit()] },
    'same',
    'in shadow mode, so only statistics change',
  ],
  ['more', traits(5, 'minute'), traits(6, 'MINUTE'), 'looser', '6 per minute instead of 5 per minute'],
  ['less', traits(5, 'minute'), traits(4, 'minute'), 'stricter', '4 per minute instead of 5 per minute'],
  [
    'a longer window',
    traits(5, 'minute'),
    traits(5, 'hour'),
    'stricter',
    '5 per hour instead of 5 per minute',
  ],
  [
    'a shorter window',
    traits(5, 'hour'),
    traits(9, 'minute'),
    'looser',
    '9 per minute instead of 5 per hour',
  ],
  [
    'the same in other steps',
    traits(60, 'minute'),
    traits(1, 'second'),
    'mixed',
    '1 per second instead of 60 per minute: less at once, as much over time',
  ],
  [
    'less at once, more in all',
    traits(60, 'minute'),
    traits(2, 'second'),
    'mixed',
    '2 per second instead of 60 per minute: less at once, more over time',
  ],
  [
    'more at once, less in all',
    traits(2, 'second'),
    traits(60, 'minute'),
    'mixed',
    '60 per minute instead of 2 per second: more at once, less over time',
  ],
  ['no request an hour, none a day', traits(0, 'hour'), traits(0, 'day'), 'same', '0 per day, as before'],
  [
    'one counter for all',
    traits(5, 'minute'),
    traits(5, 'minute', { shareThreshold: true }),
    'stricter',
    'all values share one counter',
  ],
  [
    'a counter each, and less',
    traits(5, 'minute', { shareThreshold: true }),
    traits(4, 'minute'),
    'mixed',
    '4 per minute instead of 5 per minute; each value has its own counter',
  ],
  [
    'quota mode',
    traits(5, 'minute'),
    traits(5, 'minute', { quotaMode: true }),
    'looser',
    'a request over this limit alone is no longer over limit if it has other quotas',
  ],
];

const { SLIDING_WINDOW, TOKEN_BUCKET } = Algorithm;
const fixed = limit({ requestsPerUnit: 100 });
const sliding = limit({ requestsPerUnit: 100, algorithm: SLIDING_WINDOW });
const bucket = (burst?: number) => limit({ requestsPerUnit: 100, algorithm: TOKEN_BUCKET, burst });
const daily = limit({ requestsPerUnit: 1000, unit: 'day' });

const zurich = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 1 } as const;

const ofAlgorithms: [string, Limit[], Limit[], string, string][] = [
  [
    'another time zone',
    [limit({ unit: 'month', calendar: zurich })],
    [limit({ unit: 'month', calendar: { ...zurich, timezone: 'UTC' } })],
    'same',
    '10 per calendar month (UTC) instead of 10 per calendar month (Europe/Zurich): as much, in windows that begin at other times',
  ],
  [
    'less in a calendar',
    [limit({ unit: 'month', calendar: zurich })],
    [limit({ unit: 'month', calendar: zurich, requestsPerUnit: 9 })],
    'stricter',
    '9 per calendar month (Europe/Zurich) instead of 10 per calendar month (Europe/Zurich)',
  ],
  [
    'a sliding window',
    [fixed],
    [sliding],
    'stricter',
    '100 per minute, sliding window instead of 100 per minute; hits of the previous window still count in part, so there is no second burst at its end',
  ],
  [
    'a bucket of as many',
    [fixed],
    [bucket()],
    'mixed',
    '100 per minute, token bucket, burst 100 instead of 100 per minute: as much at once and over time; after its burst, a bucket allows hits only as fast as it refills',
  ],
  [
    'a bucket that holds what meets at an edge',
    [fixed],
    [bucket(200)],
    'looser',
    '100 per minute, token bucket, burst 200 instead of 100 per minute; after its burst, a bucket allows hits only as fast as it refills',
  ],
  [
    'a smaller burst',
    [bucket(50)],
    [bucket(20)],
    'stricter',
    '100 per minute, token bucket, burst 20 instead of 100 per minute, token bucket, burst 50',
  ],
  [
    'a bucket that holds nothing',
    [fixed],
    [bucket(0)],
    'stricter',
    '100 per minute, token bucket, burst 0 instead of 100 per minute: no request passes any more',
  ],
  [
    'a burst that is as it was',
    [bucket()],
    [bucket(100)],
    'same',
    '100 per minute, token bucket, burst 100, as before',
  ],
  [
    'a longer window',
    [fixed],
    [limit({ requestsPerUnit: 500, unitMultiplier: 5 })],
    'mixed',
    '500 in 5m instead of 100 per minute: more at once, as much over time',
  ],
  [
    'a second limit',
    [fixed],
    [fixed, daily],
    'stricter',
    '100 per minute; 1000 per day instead of 100 per minute',
  ],
  [
    'a second limit that is never the tighter one',
    [fixed],
    [fixed, limit({ requestsPerUnit: 6000, unit: 'hour' })],
    'same',
    '100 per minute; 6000 per hour instead of 100 per minute: no difference for requests',
  ],
  [
    'one limit of two for another',
    [fixed, daily],
    [fixed, limit({ requestsPerUnit: 10, unit: 'second' })],
    'mixed',
    '100 per minute; 10 per second instead of 100 per minute; 1000 per day: less at once, more over time',
  ],
];

describe('the effect of another algorithm, window or number of limits', () => {
  it.each(ofAlgorithms)('%s', (_, before, after, effect, note) => {
    const of = (limits: Limit[]): Rule => ({ ...traits(0, 'minute'), limits });
    expect(limitEffect(of(before), of(after))).toEqual({ effect, note });
  });

  const anyLimit = fc
    .record({
      unit: fc.constantFrom('second', 'minute', 'month'),
      unitMultiplier: fc.constantFrom(1, 1, 2, 60),
      requestsPerUnit: fc.oneof(fc.nat(3), fc.nat(4000)),
      algorithm: fc.constantFrom<Algorithm>(...Object.values(Algorithm)),
      burst: fc.option(fc.oneof(fc.nat(3), fc.nat(4000)), { nil: undefined }),
    })
    .map((one) => limit({ ...one, burst: one.algorithm === TOKEN_BUCKET ? one.burst : undefined }));
  const anyTraits = fc
    .array(anyLimit, { minLength: 1, maxLength: 3 })
    .map((limits): Rule => ({ ...traits(0, 'minute'), limits }));

  it('is the opposite the other way round, and never says less if more passes at once or over time', () => {
    const opposite: Record<string, string> = { looser: 'stricter', stricter: 'looser' };
    const atOnce = ({ limits }: Rule) => Math.min(...limits.map(maxAtOnce));
    const inAll = ({ limits }: Rule) =>
      Math.min(
        ...limits.map((one) => (maxAtOnce(one) === 0 ? 0 : one.requestsPerUnit / secondsOfLimit(one))),
      );
    const seen = new Set<string>();
    fc.assert(
      fc.property(anyTraits, anyTraits, (before, after) => {
        const { effect } = limitEffect(before, after);
        seen.add(effect);
        expect(limitEffect(after, before).effect).toBe(opposite[effect] ?? effect);
        for (const measure of [atOnce, inAll]) {
          const [was, is] = [measure(before), measure(after)];
          if (effect !== 'mixed' && is > was) expect(effect).toBe('looser');
          if (effect !== 'mixed' && is < was) expect(effect).toBe('stricter');
        }
      }),
      { numRuns: caseCount(2_000) },
    );
    expect([...seen].sort()).toEqual(['looser', 'mixed', 'same', 'stricter']);
  });

  it('is none if a limit is added that another one always keeps', () => {
    fc.assert(
      fc.property(anyTraits, anyLimit, (before, added) => {
        const after = { ...before, limits: [...before.limits, added] };
        const { effect } = limitEffect(before, after);
        const isKept = before.limits.some((one) => covers(one, added, true));
        expect(['same', 'stricter']).toContain(effect);
        if (isKept) expect(effect).toBe('same');
      }),
      { numRuns: caseCount(1_000) },
    );
  });
});

describe('the effect of another limit', () => {
  it.each(cases)('%s', (_, before, after, effect, note) => {
    expect(limitEffect(before, after)).toMatchObject({ effect, note });
  });

  it('is the opposite the other way round', () => {
    const opposite: Record<string, string> = {
      new: 'gone',
      gone: 'new',
      looser: 'stricter',
      stricter: 'looser',
    };
    for (const [, before, after] of cases) {
      const { effect } = limitEffect(before, after);
      expect(limitEffect(after, before).effect).toBe(opposite[effect] ?? effect);
    }
  });
});

it('says which limits no longer limit anything, although they are still there', () => {
  const limited = traits(5, 'minute');
  const passes = [unlimited, shadow, undefined, traits(9, 'minute')].map(
    (after) => limitEffect(limited, after).passes,
  );
  expect(passes).toEqual(['unlimited', 'shadow', undefined, undefined]);
  expect(limitEffect(shadow, unlimited).passes).toBeUndefined();
});
