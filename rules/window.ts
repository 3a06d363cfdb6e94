/**
 * Lengths of windows, and how people write them: `5m`, `30s`, `1w`. A unit is a window of its own length, and a multiplier makes
 * it longer. Months have 30 days and years 365, unless the limiter counts months of the calendar.
 */
import { calendarText } from './calendar.ts';
import { limitFields } from './language/fields.ts';
import { type Limit, Unit, unitName } from './model.ts';

/**
 * Letters from the longest unit to the shortest. Weeks and shorter units combine into longer windows. A month and a year must be
 * alone.
 */
const letters = [
  { letter: 'w', unit: Unit.WEEK, seconds: 604_800 },
  { letter: 'd', unit: Unit.DAY, seconds: 86_400 },
  { letter: 'h', unit: Unit.HOUR, seconds: 3600 },
  { letter: 'm', unit: Unit.MINUTE, seconds: 60 },
  { letter: 's', unit: Unit.SECOND, seconds: 1 },
];
const lettersAlone = [
  { letter: 'mo', unit: Unit.MONTH, seconds: 2_592_000 },
  { letter: 'y', unit: Unit.YEAR, seconds: 31_536_000 },
];
/** Lengths by the number of the unit. UNKNOWN has no length. */
const unitSeconds = new Array<number | undefined>(Object.keys(Unit).length).fill(undefined);
for (const { unit, seconds } of [...letters, ...lettersAlone]) unitSeconds[unit] = seconds;

/** Chosen: the longest window, in seconds: ten years. */
export const longestWindowSeconds = 315_360_000;
/** The largest `unit_multiplier`. */
export const largestMultiplier = limitFields.unitMultiplier.max;

/** Returns undefined for UNKNOWN and for a number that is not a unit. */
export function windowSeconds(unit: number, multiplier = 1): number | undefined {
  const seconds = unitSeconds[unit];
  return seconds === undefined ? undefined : seconds * multiplier;
}

/** The length of a limit's window; a second for what is no unit. */
export function secondsOfLimit(limit: Limit): number {
  return windowSeconds(limit.unit, limit.unitMultiplier) ?? 1;
}

/** Returns what distinguishes the windows of a limit in counter keys: seconds, or a calendar. */
export function lengthInKeys(limit: Limit): number | string {
  return limit.calendar === undefined ? secondsOfLimit(limit) : calendarText(limit.calendar);
}

/**
 * Returns a window as people write it: `5m`, and `1d` for 24 hours. Windows of months and years have these units. Empty if there
 * is no window.
 */
export function windowText(unit: number, multiplier = 1): string {
  const alone = lettersAlone.find((one) => one.unit === unit);
  if (alone !== undefined) return `${multiplier}${alone.letter}`;
  const seconds = windowSeconds(unit, multiplier);
  if (seconds === undefined) return '';
  const { letter, count } = wholeUnits(seconds);
  return `${count}${letter}`;
}

/** The window of a limit: `5m`, or `month@Europe/Zurich@15` of a calendar. */
export function windowTextOf({ unit, unitMultiplier, calendar }: Limit): string {
  return calendar === undefined ? windowText(unit, unitMultiplier) : calendarText(calendar);
}

/** The longest unit, of a week at most, that fits whole times. */
function wholeUnits(seconds: number): { letter: string; unit: Unit; count: number } {
  const found = letters.find((one) => seconds % one.seconds === 0)!;
  return { ...found, count: seconds / found.seconds };
}

/**
 * Reads `5m`, `1h30m`, `90s`, `1mo` or `2y`. Returns the longest unit that divides the window, and the multiplier. Otherwise
 * returns the mistake, as a text that follows the written one.
 */
export function windowFromText(text: string): { unit: Unit; multiplier: number } | string {
  const alone = unitAlone(text);
  if (alone !== undefined) return inBounds(alone.unit, alone.count);
  const seconds = secondsFromText(text);
  if (typeof seconds === 'string') return seconds;
  const { unit, count } = wholeUnits(seconds);
  return inBounds(unit, count);
}

/** The same as `windowFromText`: the number of seconds, in whichever units are whole. */
export function secondsFromText(text: string): number | string {
  const alone = unitAlone(text);
  if (alone !== undefined) return alone.count * alone.seconds || 'is zero';
  const parts = /^(?=.)(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?$/.exec(
    text,
  );
  if (parts === null) return noWindow(text);
  let sum = 0;
  for (const [index, { seconds }] of letters.entries()) sum += Number(parts[index + 1] ?? 0) * seconds;
  return sum || 'is zero';
}

function unitAlone(text: string): { unit: Unit; seconds: number; count: number } | undefined {
  const found = /^(\d{1,9})(mo|y)$/.exec(text);
  if (found === null) return undefined;
  return { ...lettersAlone.find(({ letter }) => letter === found[2])!, count: Number(found[1]) };
}

/** The form in rule files. */
export function unitWord(unit: Unit): string {
  return unitName(unit)!.toLowerCase();
}

function inBounds(unit: Unit, multiplier: number): { unit: Unit; multiplier: number } | string {
  if (multiplier === 0) return 'is zero';
  const problem = windowProblem(unit, multiplier);
  if (problem !== undefined) return problem;
  if (multiplier <= largestMultiplier) return { unit, multiplier };
  const letter = letters.find((one) => one.unit === unit)!.letter;
  return `is ${multiplier}${letter}, and one of whole ${unitWord(unit)}s has at most ${largestMultiplier} of them (${mixedText(unit)})`;
}

/** The longest window of this unit, as people would write it: `18h12m15s`. */
function mixedText(longestOf: Unit): string {
  let left = unitSeconds[longestOf]! * largestMultiplier;
  let text = '';
  for (const { letter, seconds } of letters) {
    if (left >= seconds) text += `${Math.floor(left / seconds)}${letter}`;
    left %= seconds;
  }
  return text;
}

/** Returns the rule of the spelling that a text breaks. */
function noWindow(text: string): string {
  if (/^\d+(?:ms|us|µs|ns)$/.test(text)) return 'is not a whole number of seconds';
  if (/^[\d.,]+(?:mo|[wdhmsy])/.test(text) && /[.,]/.test(text))
    return 'has a fraction: write whole numbers, 1h30m for 1.5h';
  if (/\d\s|\s\d|[a-z]\s/.test(text) && /^(?:mo|[\d\swdhmsy])+$/.test(text))
    return 'has blanks in it: write 1h30m';
  if (/^(?:\d+(?:mo|[wdhmsy]))+$/.test(text)) {
    if (/\d{10}/.test(text)) return 'is longer than 10 years';
    return /mo|y/.test(text)
      ? 'combines months or years with other units: 1mo and 2y must be alone'
      : 'is out of order: longer units come first, and each once, as in 1h30m';
  }
  return 'is not a duration such as 30s, 5m, 1h30m, 1d, 2w, 1mo or 1y';
}

/** Returns why a window cannot be this long. Undefined if it can. */
export function windowProblem(unit: number, multiplier: number): string | undefined {
  const seconds = windowSeconds(unit, multiplier) ?? 0;
  if (seconds <= longestWindowSeconds) return undefined;
  return `is ${seconds} seconds, and a window has at most ${longestWindowSeconds} (10 years)`;
}

/** The unit that a window of so many seconds has the length of. */
export function unitOfSeconds(seconds: number): Unit {
  const unit = unitSeconds.indexOf(seconds);
  return unit === -1 ? Unit.UNKNOWN : (unit as Unit);
}
