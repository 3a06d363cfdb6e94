/** What rules say for budgets, whatever their spelling: windows of the calendar, marks on the way to a limit, reservations. */
import { algorithmsWith, hasWindows } from './algorithms/registry.ts';
import { limitFields, reserveFields } from './language/fields.ts';
import {
  type Calendar,
  type CalendarUnit,
  calendarUnits,
  type Limit,
  type ReserveTerms,
  type Rule,
  weekdays,
} from './model.ts';
import { secondsFromText } from './window.ts';

/** Of `ttl`, in seconds: a day. */
export const longestTtlSeconds = 86_400;
/** What `reserve` says where it has no `ttl`, in seconds. */
export const usualTtlSeconds = 60;
/** What a calendar says where it has no `timezone`. */
export const usualTimezone = 'UTC';

/** Of `warn_at`. */
const mostMarks = limitFields.warnAt.most;
export const expiries = reserveFields.onExpiry.words;

type ReportField<Field> = (field: Field, text: string) => void;

/** As it is written; undefined where nothing is. */
export interface WrittenCalendar {
  readonly unit?: string | undefined;
  readonly timezone?: string | undefined;
  readonly startsOn?: string | number | undefined;
}

/** Undefined after a problem, which it reports with its field. */
export function readCalendar(
  { unit, timezone = usualTimezone, startsOn = 1 }: WrittenCalendar,
  report: ReportField<'unit' | 'timezone' | 'starts_on'>,
): Calendar | undefined {
  const found = calendarUnits.find((one) => one === unit?.toLowerCase());
  const zone = timezoneName(timezone);
  if (found === undefined)
    report('unit', `a calendar has the unit day, week, month or year, found '${unit ?? ''}'`);
  if (zone === undefined)
    report('timezone', `timezone must be one of the IANA database, as Europe/Zurich, found '${timezone}'`);
  const day = found === undefined ? 1 : startingDay(found, startsOn);
  if (typeof day === 'string') report('starts_on', `${day}, found '${startsOn}'`);
  if (found === undefined || zone === undefined || typeof day === 'string') return undefined;
  return { unit: found, timezone: zone, startsOn: day };
}

/** Or what it has to be. */
function startingDay(unit: CalendarUnit, written: string | number): number | string {
  const text = String(written).toLowerCase();
  const named = unit === 'week' ? weekdays.indexOf(text) + 1 : 0;
  const day = named > 0 ? named : /^\d{1,2}$/.test(text) ? Number(text) : 0;
  const most = unit === 'month' ? 31 : unit === 'week' ? 7 : 1;
  if (day >= 1 && day <= most) return day;
  if (unit === 'month') return 'starts_on of a month must be a day from 1 to 31';
  return unit === 'week'
    ? 'starts_on of a week must be monday to sunday, or 1 to 7'
    : `starts_on is for weeks and months; a ${unit} begins with its first day`;
}

/** Chosen: there are about 600 names, and each costs some memory once it was asked for. */
const mostZonesKnown = 1_000;
const zonesKnown = new Map<string, string>();

/** As the IANA database writes it, whatever the case of its letters; undefined where it has none of that name. */
function timezoneName(text: string): string | undefined {
  const known = zonesKnown.get(text);
  // Offsets such as +01:00 have no daylight saving, and no name.
  if (known !== undefined || !/^[A-Za-z][\w+/-]{0,63}$/.test(text)) return known;
  try {
    // Names that were given up stay as they are, else counters would begin anew with a newer database.
    const { timeZoneId } = Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(text);
    if (zonesKnown.size < mostZonesKnown) zonesKnown.set(text, timeZoneId);
    return timeZoneId;
  } catch {
    return undefined;
  }
}

/** Why a limit cannot have these marks; undefined where it can. */
export function marksProblem(marks: readonly number[]): string | undefined {
  if (marks.length > mostMarks) return `warn_at has at most ${mostMarks} marks, found ${marks.length}`;
  let before = 0;
  for (const mark of marks) {
    if (!Number.isInteger(mark) || mark < 1 || mark > 100)
      return `warn_at has whole percents from 1 to 100, found ${mark}`;
    if (mark <= before) return `warn_at must ascend, each mark once, found ${mark} behind ${before}`;
    before = mark;
  }
  return undefined;
}

/** The message of an error: a text that is none of the words of a field. */
export function unknownWord(field: string, known: readonly string[], found: string): string {
  return `${field} must be ${known.slice(0, -1).join(', ')} or ${known.at(-1)}, found '${found}'`;
}

/** As it is written; undefined where nothing is. */
export interface WrittenReserve {
  readonly ttl?: string | undefined;
  readonly estimate?: number | undefined;
  readonly onExpiry?: string | undefined;
}

/** What is wrong is reported with its field, and then as if it was not written. */
export function readReserve(
  { ttl, estimate, onExpiry = 'release' }: WrittenReserve,
  report: ReportField<'ttl' | 'on_expiry'>,
): ReserveTerms {
  const ends = expiries.find((one) => one === onExpiry.toLowerCase());
  if (ends === undefined) report('on_expiry', unknownWord('on_expiry', expiries, onExpiry));
  const ttlSeconds = ttl === undefined ? usualTtlSeconds : secondsOfTtl(ttl);
  if (typeof ttlSeconds === 'string') report('ttl', ttlSeconds);
  return {
    ttlSeconds: typeof ttlSeconds === 'string' ? usualTtlSeconds : ttlSeconds,
    estimate,
    onExpiry: ends ?? 'release',
  };
}

/** `60s` is 60; else what is wrong with it. 1 second to a day. */
function secondsOfTtl(text: string): number | string {
  const seconds = secondsFromText(text);
  if (typeof seconds === 'string') return `the ttl '${text}' ${seconds}`;
  return seconds <= longestTtlSeconds
    ? seconds
    : `the ttl '${text}' is ${seconds} seconds, and a reservation is held for at most ${longestTtlSeconds} (24h)`;
}

/** `held for 60s, 2000 where a request does not say how much, given back where nobody settles`. */
export function reserveWords({ ttlSeconds, estimate, onExpiry }: ReserveTerms): string {
  const amount = estimate === undefined ? '' : `, ${estimate} where a request does not say how much`;
  const end = onExpiry === 'release' ? 'given back' : 'charged';
  return `held for ${ttlSeconds}s${amount}, ${end} where nobody settles`;
}

/** Why a rule cannot be reserved against; undefined where it can. */
export function reserveProblem({ reserve, limits }: Pick<Rule, 'reserve' | 'limits'>): string | undefined {
  if (reserve === undefined) return undefined;
  if (limits.length === 0) return 'reserve needs a rate_limit beside it';
  return limits[0]!.unlimited ? 'should not specify reserve when unlimited' : undefined;
}

/** Why a limit cannot have the calendar that it says; undefined where it can. */
export function calendarProblem(limit: Limit): string | undefined {
  if (limit.calendar === undefined) return undefined;
  if (limit.unitMultiplier !== 1) return 'calendar takes the place of unit_multiplier, found both';
  const names = algorithmsWith(({ steady }) => steady === undefined).join(' and ');
  return hasWindows(limit) ? undefined : `calendar is for algorithm ${names} alone`;
}
