import { describe, expect, it } from 'vitest';
import { limit } from '../../test/support/rule-builder.ts';
import { type LimitTraits, limitEffect } from './limit-effect.ts';

function traits(requestsPerUnit: number, unit: string, more: Partial<LimitTraits> = {}): LimitTraits {
  const rateLimit = limit({ requestsPerUnit, unit });
  return { rateLimit, shadowMode: false, quotaMode: false, shareThreshold: false, ...more };
}
const unlimited = traits(0, '', { rateLimit: limit({ unit: '', unlimited: true }) });
const shadow = traits(5, 'minute', { shadowMode: true });

const cases: [string, LimitTraits | undefined, LimitTraits | undefined, string, string][] = [
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
    'shadow mode let these requests pass: what is over the limit is refused now',
  ],
  ['a limit to nothing', traits(5, 'minute'), undefined, 'gone', 'these requests have no limit any more'],
  ['a limit to unlimited', traits(5, 'minute'), unlimited, 'looser', 'these requests are unlimited now'],
  ['a limit to shadow', traits(5, 'minute'), shadow, 'looser', 'shadow mode lets these requests pass now'],
  ['nothing to unlimited', undefined, unlimited, 'same', 'never limited, as before'],
  ['nothing to shadow', undefined, shadow, 'same', 'counted and reported from now on, and never refused'],
  ['shadow to nothing', shadow, undefined, 'same', 'no longer counted and reported; never refused before'],
  [
    'shadow to another',
    shadow,
    { ...shadow, rateLimit: limit() },
    'same',
    'in shadow mode, which refuses nothing: only reports change',
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
    '1 per second instead of 60 per minute: less at once, as much in the long run',
  ],
  [
    'less at once, more in all',
    traits(60, 'minute'),
    traits(2, 'second'),
    'mixed',
    '2 per second instead of 60 per minute: less at once, more in the long run',
  ],
  [
    'more at once, less in all',
    traits(2, 'second'),
    traits(60, 'minute'),
    'mixed',
    '60 per minute instead of 2 per second: more at once, less in the long run',
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
    '4 per minute instead of 5 per minute; each value has a counter of its own',
  ],
  [
    'quota mode',
    traits(5, 'minute'),
    traits(5, 'minute', { quotaMode: true }),
    'looser',
    'being over it alone no longer refuses a request that has other quotas',
  ],
];

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

it('tells which limits refuse nothing any more, and are still there', () => {
  const limited = traits(5, 'minute');
  const passes = [unlimited, shadow, undefined, traits(9, 'minute')].map(
    (after) => limitEffect(limited, after).passes,
  );
  expect(passes).toEqual(['unlimited', 'shadow', undefined, undefined]);
  expect(limitEffect(shadow, unlimited).passes).toBeUndefined();
});
