/** Windows of the calendar: days, weeks, months and years in a time zone. Each starts at local midnight of its first day. */
import { algorithmsWith, hasWindows } from './algorithms/registry.ts';
import type { calendarFields } from './language/fields.ts';
import {
  type Calendar,
  type CalendarUnit,
  calendarUnits,
  type Limit,
  type Written,
  weekdays,
} from './model.ts';

/** The time zone of a calendar without `timezone`. */
const defaultTimezone = 'UTC';

/** The last day that windows of a unit may begin with. */
const maxDays: { readonly [unit in CalendarUnit]: number } = { day: 1, week: 7, month: 31, year: 1 };

/** Reads a calendar. Returns undefined after it reported a problem with its field. */
export function readCalendar(
  { unit, timezone = defaultTimezone, startsOn = 1 }: Written<typeof calendarFields>,
  report: (field: 'unit' | 'timezone' | 'starts_on', text: string) => void,
): Calendar | undefined {
  const found = calendarUnits.find((one) => one === unit?.toLowerCase());
  const zone = timezoneName(timezone);
  if (found === undefined)
    report('unit', `a calendar has the unit day, week, month or year, found '${unit ?? ''}'`);
  if (zone === undefined)
    report(
      'timezone',
      `timezone must be a name of the IANA database, such as Europe/Zurich, found '${timezone}'`,
    );
  const day = found === undefined ? 1 : startingDay(found, startsOn);
  if (typeof day === 'string') report('starts_on', `${day}, found '${startsOn}'`);
  if (found === undefined || zone === undefined || typeof day === 'string') return undefined;
  return { unit: found, timezone: zone, startsOn: day };
}

/** Returns the starting day, or a text that says what it must be. */
function startingDay(unit: CalendarUnit, written: string | number): number | string {
  const text = String(written).toLowerCase();
  const named = unit === 'week' ? weekdays.indexOf(text) + 1 : 0;
  const day = named > 0 ? named : /^\d{1,2}$/.test(text) ? Number(text) : 0;
  if (day >= 1 && day <= maxDays[unit]) return day;
  if (unit === 'month') return 'starts_on of a month must be a day from 1 to 31';
  return unit === 'week'
    ? 'starts_on of a week must be monday to sunday, or 1 to 7'
    : `starts_on is for weeks and months; a ${unit} begins with its first day`;
}

/** Chosen: there are about 600 names, and each name uses some memory once it was looked up. */
const maxZonesKnown = 1_000;
const zonesKnown = new Map<string, string>();

/** Returns the name as the IANA database writes it, whatever the case of its letters. Undefined if it has no such name. */
export function timezoneName(text: string): string | undefined {
  const known = zonesKnown.get(text);
  // Offsets such as +01:00 have no daylight saving, and no name.
  if (known !== undefined || !/^[A-Za-z][\w+/-]{0,63}$/.test(text)) return known;
  try {
    // Names that were given up stay unchanged. Otherwise counters would start again with a newer database.
    const { timeZoneId } = Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(text);
    if (zonesKnown.size < maxZonesKnown) zonesKnown.set(text, timeZoneId);
    return timeZoneId;
  } catch {
    return undefined;
  }
}

/** Returns why a limit cannot have its calendar. Undefined if it can. */
export function calendarProblem(limit: Limit): string | undefined {
  if (limit.calendar === undefined) return undefined;
  if (limit.unitMultiplier !== 1) return 'calendar replaces unit_multiplier, found both';
  const names = algorithmsWith(({ steady }) => steady === undefined).join(' and ');
  return hasWindows(limit) ? undefined : `calendar is only for algorithm ${names}`;
}

/** The window of a calendar that a moment is in, in whole seconds since 1970; `endSeconds` is the first that is no longer in it. */
export function calendarWindow(
  calendar: Calendar,
  nowSeconds: number,
): { startSeconds: number; endSeconds: number } {
  const { timezone } = calendar;
  const today = Temporal.Instant.fromEpochMilliseconds(nowSeconds * 1000)
    .toZonedDateTimeISO(timezone)
    .toPlainDate();
  let first = firstDayUpTo(calendar, today);
  let startSeconds = midnight(first, timezone);
  let endSeconds = startSeconds;
  // Repeats if clocks went back over midnight, so that a day came twice, or if a day was left out.
  for (;;) {
    first = firstDayAfter(calendar, first);
    endSeconds = midnight(first, timezone);
    if (endSeconds > nowSeconds) return { startSeconds, endSeconds };
    startSeconds = endSeconds;
  }
}

/** The first moment of a day: where clocks leave out its midnight, that after the gap. */
function midnight(day: Temporal.PlainDate, timezone: string): number {
  return day.toZonedDateTime(timezone).epochMilliseconds / 1000;
}

/** The first day of the window that a day is in. */
function firstDayUpTo({ unit, startsOn }: Calendar, day: Temporal.PlainDate): Temporal.PlainDate {
  if (unit === 'day') return day;
  if (unit === 'week') return day.subtract({ days: (day.dayOfWeek - startsOn + 7) % 7 });
  if (unit === 'year') return day.with({ month: 1, day: 1 });
  const first = day.with({ day: startsOn });
  return Temporal.PlainDate.compare(first, day) <= 0
    ? first
    : day.subtract({ months: 1 }).with({ day: startsOn });
}

function firstDayAfter({ unit, startsOn }: Calendar, first: Temporal.PlainDate): Temporal.PlainDate {
  if (unit === 'day') return first.add({ days: 1 });
  if (unit === 'week') return first.add({ weeks: 1 });
  if (unit === 'year') return first.add({ years: 1 });
  // A shorter month starts on its last day, and the next month on the day as written.
  return first.add({ months: 1 }).with({ day: startsOn });
}

/** The spelling in counter keys and answers: `month@Europe/Zurich@15`. */
export function calendarText({ unit, timezone, startsOn }: Calendar): string {
  return `${unit}@${timezone}@${startsOn}`;
}

/** Returns undefined for a text that `calendarText` does not write, or for a zone that is unknown here. */
export function calendarFromText(text: string): Calendar | undefined {
  const [, name, timezone = '', day] = /^([a-z]+)@([^@]+)@([1-9]\d?)$/.exec(text) ?? [];
  const unit = calendarUnits.find((one) => one === name);
  const startsOn = Number(day);
  if (unit === undefined || startsOn > maxDays[unit] || timezoneName(timezone) === undefined)
    return undefined;
  return { unit, timezone, startsOn };
}

/** Returns the calendar in words: `Europe/Zurich, from day 15`, `UTC, from friday`. */
export function calendarWords({ unit, timezone, startsOn }: Calendar): string {
  if (startsOn === 1) return timezone;
  return `${timezone}, from ${unit === 'week' ? weekdays[startsOn - 1] : `day ${startsOn}`}`;
}

/** The fields as they are written. */
export function writtenCalendar({ unit, timezone, startsOn }: Calendar): Written<typeof calendarFields> {
  const day = unit === 'week' ? weekdays[startsOn - 1]! : startsOn;
  return { unit, timezone, startsOn: startsOn === 1 ? undefined : day };
}
