/** Windows of time that hits are counted in, aligned to the epoch, in whole seconds of UTC. Reference section 3.3. */
import { Unit } from '../../rules/model.ts';

export interface Window {
  readonly startSeconds: number;
  /** The first second that is no longer in the window. */
  readonly endSeconds: number;
  /** A calendar month: a counter then lives until its end. */
  readonly calendar: boolean;
  /** The start as counter keys end in it. */
  readonly keySuffix: string;
}

/** By the number of the unit. UNKNOWN has no length. */
const unitSeconds: readonly (number | undefined)[] = [
  undefined,
  1,
  60,
  3600,
  86_400,
  2_592_000,
  31_536_000,
  604_800,
];

/** Whether there are windows for this number, which a request may choose freely. */
export function isCountable(unit: number): unit is Unit {
  return unitSeconds[unit] !== undefined;
}

/** The window that a moment is in. MONTH is 30 days, or with `calendarMonth` the month of the calendar. */
export function windowAt(unit: Unit, nowSeconds: number, calendarMonth: boolean): Window {
  if (unit === Unit.MONTH && calendarMonth) return calendarMonthAt(nowSeconds);
  const length = unitSeconds[unit];
  if (length === undefined) throw new RangeError(`the unit ${unit} has no windows`);
  const startSeconds = Math.floor(nowSeconds / length) * length;
  return {
    startSeconds,
    endSeconds: startSeconds + length,
    calendar: false,
    keySuffix: String(startSeconds),
  };
}

function calendarMonthAt(nowSeconds: number): Window {
  const now = new Date(nowSeconds * 1000);
  const startSeconds = Date.UTC(now.getUTCFullYear(), now.getUTCMonth()) / 1000;
  const endSeconds = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1) / 1000;
  return { startSeconds, endSeconds, calendar: true, keySuffix: String(startSeconds) };
}

/** From 1 to the length of the window. */
export function secondsToReset(window: Window, nowSeconds: number): number {
  return window.endSeconds - nowSeconds;
}

/** How long a counter lives from its first hit on, jitter apart: the whole length, or the rest of a calendar month. */
export function lifeSeconds(window: Window, nowSeconds: number): number {
  if (!window.calendar) return window.endSeconds - window.startSeconds;
  return Math.max(1, window.endSeconds - nowSeconds);
}

/** The current window of each unit, made once a window instead of once a hit. */
export class Windows {
  readonly #calendarMonth: boolean;
  readonly #current: (Window | undefined)[] = new Array(unitSeconds.length).fill(undefined);

  constructor(options: { calendarMonth: boolean }) {
    this.#calendarMonth = options.calendarMonth;
  }

  at(unit: Unit, nowSeconds: number): Window {
    const known = this.#current[unit];
    if (known !== undefined && nowSeconds >= known.startSeconds && nowSeconds < known.endSeconds)
      return known;
    const window = windowAt(unit, nowSeconds, this.#calendarMonth);
    this.#current[unit] = window;
    return window;
  }
}
