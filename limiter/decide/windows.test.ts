import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Unit, unitName } from '../../rules/model.ts';
import { limit as matchedLimit } from '../../test/support/rule-builder.ts';
import {
  CurrentWindows,
  counterWindow,
  isCountable,
  unitOfWindow,
  type Window,
  windowAt,
} from './windows.ts';

const units = [Unit.SECOND, Unit.MINUTE, Unit.HOUR, Unit.DAY, Unit.WEEK, Unit.MONTH, Unit.YEAR];
const lengths: Record<number, number> = {
  [Unit.SECOND]: 1,
  [Unit.MINUTE]: 60,
  [Unit.HOUR]: 3600,
  [Unit.DAY]: 86_400,
  [Unit.WEEK]: 604_800,
  [Unit.MONTH]: 2_592_000,
  [Unit.YEAR]: 31_536_000,
};
const seconds = (text: string): number => Date.parse(text) / 1000;
/** Seconds until the year 2200. */
const moment = fc.integer({ min: 0, max: 7_258_118_400 });

function at(unit: Unit, nowSeconds: number, calendarMonth: boolean): Window {
  return windowAt({ unit, unitMultiplier: 1 }, nowSeconds, {
    useCalendarMonthRateLimit: calendarMonth,
    counterKeys: 'compatible',
  });
}

describe('windowAt', () => {
  it.each(units.map((unit) => [unitName(unit), unit] as const))(
    'starts a %s at a multiple of its length, and holds the moment',
    (_, unit) => {
      const length = lengths[unit]!;
      const nearEdge = fc
        .tuple(fc.nat(5000), fc.integer({ min: -2, max: 2 }))
        .map(([windows, offset]) => Math.max(0, windows * length + offset));
      fc.assert(
        fc.property(fc.oneof(moment, nearEdge), (now) => {
          const window = at(unit, now, false);
          expect(window.startSeconds % length).toBe(0);
          expect(window.endSeconds - window.startSeconds).toBe(length);
          expect(window.startSeconds).toBeLessThanOrEqual(now);
          expect(window.endSeconds).toBeGreaterThan(now);
          expect(window.keySuffix).toBe(`${Math.floor(now / length) * length}`);
          expect(window.endSeconds - now).toBe(length - (now % length));
          expect(window.lifeSeconds).toBe(length);
        }),
      );
    },
  );

  it.each([
    ['the first second of a month', '2026-03-01T00:00:00Z', '2026-03-01T00:00:00Z', 31 * 86_400],
    ['the last second of a month', '2026-03-31T23:59:59Z', '2026-03-01T00:00:00Z', 1],
    ['February', '2026-02-10T12:00:00Z', '2026-02-01T00:00:00Z', 18 * 86_400 + 43_200],
    ['February of a leap year', '2028-02-28T00:00:00Z', '2028-02-01T00:00:00Z', 2 * 86_400],
    ['February of 2000', '2000-02-29T23:59:50Z', '2000-02-01T00:00:00Z', 10],
    ['February of 2100, no leap year', '2100-02-28T23:59:50Z', '2100-02-01T00:00:00Z', 10],
    ['the last second of a year', '2026-12-31T23:59:59Z', '2026-12-01T00:00:00Z', 1],
    ['the first second of a year', '2027-01-01T00:00:00Z', '2027-01-01T00:00:00Z', 31 * 86_400],
  ])('follows the calendar in %s', (_, now, start, rest) => {
    const window = at(Unit.MONTH, seconds(now), true);
    expect(window.startSeconds).toBe(seconds(start));
    expect(window.keySuffix).toBe(`${seconds(start)}`);
    expect(window.endSeconds - seconds(now)).toBe(rest);
    expect(window.lifeSeconds).toBeUndefined();
  });

  it('joins calendar months without gap or overlap', () => {
    fc.assert(
      fc.property(moment, (now) => {
        const month = at(Unit.MONTH, now, true);
        expect(month.startSeconds).toBeLessThanOrEqual(now);
        expect(month.endSeconds).toBeGreaterThan(now);
        expect(at(Unit.MONTH, month.endSeconds, true).startSeconds).toBe(month.endSeconds);
        expect(at(Unit.MONTH, month.endSeconds - 1, true)).toEqual(month);
        const start = new Date(month.startSeconds * 1000).toISOString();
        expect(start).toMatch(/-01T00:00:00\.000Z$/);
        expect(start.slice(0, 7)).toBe(new Date(now * 1000).toISOString().slice(0, 7));
      }),
    );
  });

  it('follows the calendar of a limit, whatever months are set to be', () => {
    const calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 } as const;
    const limit = matchedLimit({ unit: Unit.MONTH, calendar });
    const now = seconds('2026-03-14T23:00:00Z');
    for (const useCalendarMonthRateLimit of [false, true]) {
      const options = { useCalendarMonthRateLimit, counterKeys: 'compatible' } as const;
      const startSeconds = seconds('2026-03-14T23:00:00Z');
      const expected = {
        startSeconds,
        endSeconds: seconds('2026-04-14T22:00:00Z'),
        lifeSeconds: undefined,
        keySuffix: `month@Europe/Zurich@15:${startSeconds}`,
      };
      expect(counterWindow(limit, true, now, options)).toEqual(expected);
      const windows = new CurrentWindows(options);
      expect(windows.at(limit, true, now)).toEqual(expected);
      expect(windows.at(limit, true, expected.endSeconds - 1)).toBe(windows.at(limit, true, now));
      expect(windows.at(limit, true, expected.endSeconds).startSeconds).toBe(expected.endSeconds);
      expect(unitOfWindow(limit, options)).toBe(Unit.MONTH);
    }
  });

  it('leaves other units alone when months follow the calendar', () => {
    const now = seconds('2026-03-31T23:59:59Z');
    for (const unit of units.filter((unit) => unit !== Unit.MONTH)) {
      expect(at(unit, now, true)).toEqual(at(unit, now, false));
    }
  });
});

describe('Windows', () => {
  it('gives the window of the moment, whichever way the clock goes', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom(...units), moment), { minLength: 1 }),
        fc.boolean(),
        (steps, calendarMonth) => {
          const windows = new CurrentWindows({
            useCalendarMonthRateLimit: calendarMonth,
            counterKeys: 'compatible',
          });
          for (const [unit, now] of steps)
            expect(windows.at(matchedLimit({ unit }), false, now)).toEqual(at(unit, now, calendarMonth));
        },
      ),
    );
  });

  it('makes a window once', () => {
    const windows = new CurrentWindows({ useCalendarMonthRateLimit: false, counterKeys: 'compatible' });
    const at = (now: number) => windows.at(matchedLimit(), false, now);
    expect(at(119)).toBe(at(60));
    expect(at(120)).not.toBe(at(60));
  });
});

describe('isCountable', () => {
  it.each([-1, 0, 8, 1.5, 2 ** 31])('rejects %d', (unit) => {
    expect(isCountable(unit)).toBe(false);
  });

  it('takes every unit but UNKNOWN', () => {
    expect(Object.values(Unit).filter(isCountable).toSorted()).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });
});
