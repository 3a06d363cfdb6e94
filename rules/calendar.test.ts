import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../test/support/property-cases.ts';
import { calendarFromText, calendarText, calendarWindow, timezoneName } from './calendar.ts';
import type { Calendar } from './model.ts';

const of = (unit: Calendar['unit'], timezone = 'UTC', startsOn = 1): Calendar => ({
  unit,
  timezone,
  startsOn,
});
const seconds = (text: string): number => Date.parse(text) / 1000;

function windowOf(calendar: Calendar, moment: string): string[] {
  const { startSeconds, endSeconds } = calendarWindow(calendar, seconds(moment));
  return [startSeconds, endSeconds].map((at) => new Date(at * 1000).toISOString().replace(/:00\.000Z$/, 'Z'));
}

describe('a window of a calendar', () => {
  it.each<[string, Calendar, string, string, string]>([
    ['a day', of('day', 'Europe/Zurich'), '2026-07-01T22:00:00Z', '2026-07-01T22:00Z', '2026-07-02T22:00Z'],
    [
      'its last second',
      of('day', 'Europe/Zurich'),
      '2026-07-01T21:59:59Z',
      '2026-06-30T22:00Z',
      '2026-07-01T22:00Z',
    ],
    [
      'a day of 23 hours',
      of('day', 'Europe/Zurich'),
      '2026-03-29T12:00:00Z',
      '2026-03-28T23:00Z',
      '2026-03-29T22:00Z',
    ],
    [
      'a day of 25 hours',
      of('day', 'Europe/Zurich'),
      '2026-10-25T12:00:00Z',
      '2026-10-24T22:00Z',
      '2026-10-25T23:00Z',
    ],
    [
      'an offset of quarters',
      of('day', 'Asia/Kathmandu'),
      '2026-01-01T00:00:00Z',
      '2025-12-31T18:15Z',
      '2026-01-01T18:15Z',
    ],
    [
      'a day without midnight',
      of('day', 'America/Asuncion'),
      '2023-10-01T12:00:00Z',
      '2023-10-01T04:00Z',
      '2023-10-02T03:00Z',
    ],
    [
      'the day before it',
      of('day', 'America/Asuncion'),
      '2023-10-01T03:59:59Z',
      '2023-09-30T04:00Z',
      '2023-10-01T04:00Z',
    ],
    [
      'a midnight that comes twice',
      of('day', 'America/St_Johns'),
      '2005-10-30T03:00:00Z',
      '2005-10-30T02:30Z',
      '2005-10-31T03:30Z',
    ],
    [
      'a day that is left out',
      of('day', 'Pacific/Apia'),
      '2011-12-30T09:59:59Z',
      '2011-12-29T10:00Z',
      '2011-12-30T10:00Z',
    ],
    [
      'the day after it',
      of('day', 'Pacific/Apia'),
      '2011-12-30T10:00:00Z',
      '2011-12-30T10:00Z',
      '2011-12-31T10:00Z',
    ],
    ['a week from Monday', of('week'), '2026-11-22T23:59:59Z', '2026-11-16T00:00Z', '2026-11-23T00:00Z'],
    [
      'a week from Sunday',
      of('week', 'UTC', 7),
      '2026-11-23T00:00:00Z',
      '2026-11-22T00:00Z',
      '2026-11-29T00:00Z',
    ],
    ['a month', of('month'), '2028-02-29T23:59:59Z', '2028-02-01T00:00Z', '2028-03-01T00:00Z'],
    [
      'a month from the 15th',
      of('month', 'Europe/Zurich', 15),
      '2026-03-14T22:00:00Z',
      '2026-02-14T23:00Z',
      '2026-03-14T23:00Z',
    ],
    [
      'the same over a change of clocks',
      of('month', 'Europe/Zurich', 15),
      '2026-03-14T23:00:00Z',
      '2026-03-14T23:00Z',
      '2026-04-14T22:00Z',
    ],
    [
      'a month from the 31st',
      of('month', 'UTC', 31),
      '2026-02-27T00:00:00Z',
      '2026-01-31T00:00Z',
      '2026-02-28T00:00Z',
    ],
    [
      'the shorter one behind it',
      of('month', 'UTC', 31),
      '2026-03-30T23:59:59Z',
      '2026-02-28T00:00Z',
      '2026-03-31T00:00Z',
    ],
    [
      "a leap year's from the 30th",
      of('month', 'UTC', 30),
      '2028-02-29T00:00:00Z',
      '2028-02-29T00:00Z',
      '2028-03-30T00:00Z',
    ],
    [
      'a year',
      of('year', 'America/New_York'),
      '2027-01-01T04:59:59Z',
      '2026-01-01T05:00Z',
      '2027-01-01T05:00Z',
    ],
  ])('holds %s', (_, calendar, moment, start, end) => {
    expect(windowOf(calendar, moment)).toEqual([start, end]);
  });

  const zones = Intl.supportedValuesOf('timeZone');
  const calendar = fc.constantFrom(...zones).chain((timezone) =>
    fc.oneof(
      fc.constantFrom<Calendar[]>(of('day', timezone), of('year', timezone)),
      fc.integer({ min: 1, max: 7 }).map((startsOn) => of('week', timezone, startsOn)),
      fc.integer({ min: 1, max: 31 }).map((startsOn) => of('month', timezone, startsOn)),
    ),
  );
  /** From 1970 until the year 2200. */
  const anyMoment = fc.integer({ min: 86_400, max: 7_258_118_400 });
  /** Around the times at which the clocks of a zone are changed. */
  const change = fc.tuple(
    fc.nat(120),
    fc.constantFrom(-86_401, -3600, -60, -1, 0, 1, 59, 60, 1800, 3600, 7200),
  );

  it('follows the one before without gap or overlap, and begins with its first day', () => {
    fc.assert(
      fc.property(calendar, anyMoment, fc.option(change), (one, anyTime, around) => {
        const now = around === null ? anyTime : changeOf(one.timezone, around);
        const { startSeconds, endSeconds } = calendarWindow(one, now);
        expect(startSeconds).toBeLessThanOrEqual(now);
        expect(endSeconds).toBeGreaterThan(now);
        expect(calendarWindow(one, endSeconds - 1)).toEqual({ startSeconds, endSeconds });
        expect(calendarWindow(one, endSeconds).startSeconds).toBe(endSeconds);
        expect(calendarWindow(one, startSeconds - 1).endSeconds).toBe(startSeconds);
        const start = Temporal.Instant.fromEpochMilliseconds(startSeconds * 1000).toZonedDateTimeISO(
          one.timezone,
        );
        expect(start.startOfDay().epochMilliseconds).toBe(startSeconds * 1000);
        // A first day that the zone left out begins with the next one that it has.
        const before = start.subtract({ seconds: 1 }).toPlainDate();
        const leftOut = before.until(start.toPlainDate()).days;
        const days = Array.from({ length: Math.max(1, leftOut) }, (_, n) =>
          start.toPlainDate().subtract({ days: n }),
        );
        expect(days.some((day) => isFirstDay(one, day))).toBe(true);
      }),
      { numRuns: caseCount(1000) },
    );
  });

  /** So many seconds from the n-th change of a zone's clocks; from 2000 on where it has fewer. */
  function changeOf(timezone: string, [n, offset]: [number, number]): number {
    let at = Temporal.Instant.fromEpochMilliseconds(86_400_000).toZonedDateTimeISO(timezone);
    for (let i = 0; i <= n; i++) at = at.getTimeZoneTransition('next') ?? at;
    return Math.max(86_400, at.epochMilliseconds / 1000 + offset);
  }
});

function isFirstDay({ unit, startsOn }: Calendar, at: Temporal.PlainDate): boolean {
  if (unit === 'week') return at.dayOfWeek === startsOn;
  if (unit === 'month') return at.day === Math.min(startsOn, at.daysInMonth);
  return unit === 'day' || at.dayOfYear === 1;
}

describe('the text of a calendar', () => {
  it.each([of('month', 'Europe/Zurich', 15), of('day', 'Etc/GMT+5'), of('week', 'UTC', 7), of('year')])(
    'is read as it was written: %o',
    (one) => {
      expect(calendarFromText(calendarText(one))).toEqual(one);
    },
  );

  it.each([
    'month',
    'month@Europe/Zurich',
    'month@Mars/Phobos@1',
    'month@UTC@32',
    'week@UTC@8',
    'day@UTC@2',
    'hour@UTC@1',
    'month@UTC@01',
  ])('is not %s', (text) => {
    expect(calendarFromText(text)).toBeUndefined();
  });
});

describe('timezoneName', () => {
  it.each([
    ['Europe/Zurich', true],
    ['UTC', true],
    ['Etc/GMT-14', true],
    ['Europe/Zürich', false],
    ['+01:00', false],
    ['', false],
    ['UTC[u-ca=hebrew]', false],
  ])('%s: %s', (name, expected) => {
    expect(timezoneName(name) !== undefined).toBe(expected);
  });
});
