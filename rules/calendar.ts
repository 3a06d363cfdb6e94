/** Windows of the calendar: days, weeks, months and years as a time zone has them, each from local midnight of its first day on. */
import { type Calendar, calendarUnits } from './model.ts';

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
  // More than once where clocks went back over midnight, so that a day came twice, and where a day was left out.
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
  // A shorter month has its last day instead, and the one behind it the day as written.
  return first.add({ months: 1 }).with({ day: startsOn });
}

/** As counter keys and answers have it: `month@Europe/Zurich@15`. */
export function calendarText({ unit, timezone, startsOn }: Calendar): string {
  return `${unit}@${timezone}@${startsOn}`;
}

/** Undefined for what `calendarText` does not write, or a zone that nobody knows here. */
export function calendarFromText(text: string): Calendar | undefined {
  const [, name, timezone = '', day] = /^([a-z]+)@([^@]+)@([1-9]\d?)$/.exec(text) ?? [];
  const unit = calendarUnits.find((one) => one === name);
  const startsOn = Number(day);
  const mostDays = { day: 1, week: 7, month: 31, year: 1 };
  if (unit === undefined || startsOn > mostDays[unit] || !isTimeZone(timezone)) return undefined;
  return { unit, timezone, startsOn };
}

/** Whether it is the name of a time zone of the IANA database that is known here. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name);
    return true;
  } catch {
    return false;
  }
}
