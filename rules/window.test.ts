import { describe, expect, it } from 'vitest';
import { limit } from '../test/support/rule-builder.ts';
import { Algorithm } from './algorithms/registry.ts';
import { limitLabel, limitsWords } from './describe.ts';
import { type Limit, Unit } from './model.ts';
import { windowFromText, windowSeconds, windowText } from './window.ts';

describe('windowText', () => {
  it.each<[Unit, number, string, number]>([
    [Unit.SECOND, 1, '1s', 1],
    [Unit.SECOND, 30, '30s', 30],
    [Unit.SECOND, 60, '1m', 60],
    [Unit.SECOND, 90, '90s', 90],
    [Unit.MINUTE, 5, '5m', 300],
    [Unit.MINUTE, 90, '90m', 5400],
    [Unit.HOUR, 24, '1d', 86_400],
    [Unit.DAY, 1, '1d', 86_400],
    [Unit.DAY, 7, '1w', 604_800],
    [Unit.WEEK, 2, '2w', 1_209_600],
    [Unit.DAY, 30, '30d', 2_592_000],
    [Unit.MONTH, 1, '1mo', 2_592_000],
    [Unit.YEAR, 10, '10y', 315_360_000],
  ])('writes unit %i times %i as %s', (unit, multiplier, text, seconds) => {
    expect(windowText(unit, multiplier)).toBe(text);
    expect(windowSeconds(unit, multiplier)).toBe(seconds);
    const read = windowFromText(text);
    expect(typeof read === 'string' ? read : windowSeconds(read.unit, read.multiplier)).toBe(seconds);
  });

  it('has none for no unit', () => {
    expect([windowText(Unit.UNKNOWN), windowSeconds(8)]).toEqual(['', undefined]);
  });
});

describe('windowFromText', () => {
  it.each<[string, Unit, number]>([
    ['1h30m', Unit.MINUTE, 90],
    ['90s', Unit.SECOND, 90],
    ['60s', Unit.MINUTE, 1],
    ['1d12h', Unit.HOUR, 36],
    ['7d', Unit.WEEK, 1],
    ['1mo', Unit.MONTH, 1],
    ['2y', Unit.YEAR, 2],
    ['65535s', Unit.SECOND, 65_535],
    ['10y', Unit.YEAR, 10],
  ])('reads %s', (text, unit, multiplier) => {
    expect(windowFromText(text)).toEqual({ unit, multiplier });
  });

  const noLength = 'is not a duration such as 30s, 5m, 1h30m, 1d, 2w, 1mo or 1y';
  it.each([
    ['', noLength],
    ['5', noLength],
    ['5 m', 'has blanks in it: write 1h30m'],
    ['-5m', noLength],
    ['soon', noLength],
    ['5 minutes', noLength],
    ['1.5h', 'has a fraction: write whole numbers, 1h30m for 1.5h'],
    ['500ms', 'is not a whole number of seconds'],
    ['30m1h', 'is out of order: longer units come first, and each once, as in 1h30m'],
    ['1mo2d', 'combines months or years with other units: 1mo and 2y must be alone'],
    ['9999999999s', 'is longer than 10 years'],
    ['5M', noLength],
    ['0s', 'is zero'],
    ['0mo', 'is zero'],
    ['11y', 'is 346896000 seconds, and a window has at most 315360000 (10 years)'],
    ['99999999w', 'is 60479999395200 seconds, and a window has at most 315360000 (10 years)'],
    ['20h1s', 'is 72001s, and one of whole seconds has at most 65535 of them (18h12m15s)'],
    ['6w4d1m', 'is 66241m, and one of whole minutes has at most 65535 of them (6w3d12h15m)'],
    ['3000d1h', 'is 72001h, and one of whole hours has at most 65535 of them (390w15h)'],
  ])('rejects %j: it %s', (text, problem) => {
    expect(windowFromText(text)).toBe(problem);
  });
});

describe('limitsWords', () => {
  it.each([
    ['no limit', []],
    ['unlimited', [limit({ unlimited: true })]],
    ['10 per minute', [limit({ unit: 'MINUTE' })]],
    ['10 in 5m, sliding window', [limit({ unitMultiplier: 5, algorithm: Algorithm.SLIDING_WINDOW })]],
    ['10 per minute, token bucket, burst 10', [limit({ algorithm: Algorithm.TOKEN_BUCKET })]],
    [
      '10 per minute; 60 in 30s',
      [limit(), limit({ unit: 'second', unitMultiplier: 30, requestsPerUnit: 60 })],
    ],
  ])('says %s', (words, limits) => {
    expect(limitsWords(limits)).toBe(words);
  });
});

describe('limitLabel', () => {
  it('is a name, else the window, with the algorithm if two windows are equal', () => {
    const limits = [
      limit({ name: 'daily', unit: Unit.DAY }),
      limit({ unitMultiplier: 5 }),
      limit({ unitMultiplier: 5, algorithm: Algorithm.TOKEN_BUCKET }),
      limit({ unit: Unit.DAY }),
    ];
    const labels = limits.map((one) => limitLabel(limits, one));
    expect(labels).toEqual(['daily', '5m_fixed_window', '5m_token_bucket', '1d']);
  });

  it('is the unit of a calendar, and all of it if another one has the same unit', () => {
    const of = (timezone: string, startsOn: number, name = '') =>
      limit({ unit: Unit.MONTH, name, calendar: { unit: 'month', timezone, startsOn } });
    const labels = (...limits: Limit[]) => limits.map((one) => limitLabel(limits, one));
    const plain = limit({ unit: Unit.MONTH });
    expect(labels(plain, of('UTC', 1), of('UTC', 2, 'second'))).toEqual(['1mo', 'month', 'second']);
    expect(labels(of('Europe/Zurich', 1), of('UTC', 15))).toEqual(['month_Europe_Zurich_1', 'month_UTC_15']);
  });
});
