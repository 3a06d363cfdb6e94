/** Windows that count hits. They are aligned to the epoch or to a calendar, in whole seconds of UTC. */
import type { LimitNumbers, SteadyCounter } from '../../rules/algorithms/algorithm.ts';
import { algorithmOf } from '../../rules/algorithms/registry.ts';
import { calendarText, calendarWindow } from '../../rules/calendar.ts';
import type { CounterKeys } from '../../rules/counter-keys.ts';
import { burstOf, type Calendar, type Limit, Unit } from '../../rules/model.ts';
import { unitOfSeconds, windowSeconds } from '../../rules/window.ts';
import type { AlgorithmBound } from '../algorithms/algorithm-bound.ts';
import { countingOf } from '../algorithms/registry.ts';

export interface Window {
  readonly startSeconds: number;
  /** The first second after the window. */
  readonly endSeconds: number;
  /** The lifetime of a counter from its first hit. Undefined: it lives until the end of the window, as for calendar months. */
  readonly lifeSeconds: number | undefined;
  /** The suffix of counter keys. */
  readonly keySuffix: string;
}

/** Whether windows exist for this unit. A request may contain any number. */
export function isCountable(unit: number): unit is Unit {
  return windowSeconds(unit) !== undefined;
}

export interface WindowOptions {
  /** USE_CALENDAR_MONTH_RATE_LIMIT: whether a month is a calendar month instead of 30 days. */
  useCalendarMonthRateLimit: boolean;
  readonly counterKeys: CounterKeys;
}

/** The part of a limit that determines its windows. */
export interface WindowTerms extends Pick<Limit, 'unit' | 'unitMultiplier'> {
  readonly calendar?: Calendar | undefined;
}

/** Returns the window that contains a time. */
export function windowAt(limit: WindowTerms, nowSeconds: number, options: WindowOptions): Window {
  const { counterKeys } = options;
  if (limit.calendar !== undefined) {
    const { startSeconds, endSeconds } = calendarWindow(limit.calendar, nowSeconds);
    const keySuffix = windowSuffix(counterKeys, calendarText(limit.calendar), startSeconds);
    return { startSeconds, endSeconds, lifeSeconds: undefined, keySuffix };
  }
  if (isCalendarMonth(limit, options)) return calendarMonthAt(nowSeconds, counterKeys);
  const length = lengthOf(limit);
  const startSeconds = Math.floor(nowSeconds / length) * length;
  return {
    startSeconds,
    endSeconds: startSeconds + length,
    lifeSeconds: length,
    keySuffix: windowSuffix(counterKeys, length, startSeconds),
  };
}

/** Returns the end of a key, after the stem. `length`: seconds, `month` for a calendar month, or a text of `calendarText`. */
export function windowSuffix(form: CounterKeys, length: number | string, startSeconds: number): string {
  return form === 'compatible' ? String(startSeconds) : `${length}:${startSeconds}`;
}

/** The same where one key counts for good. Always in the form of unambiguous keys. */
function steadySuffix(steady: SteadyCounter, lengthSeconds: number): string {
  return `${lengthSeconds}:${steady.keyWord}`;
}

/** Returns the length of a limit's windows. For a calendar, it is the typical length: a month has 30 days. */
export function lengthOf({ unit, unitMultiplier }: WindowTerms): number {
  const length = windowSeconds(unit, unitMultiplier);
  if (length === undefined) throw new RangeError(`the unit ${unit} has no windows`);
  return length;
}

/** Returns the numbers that a limit counts with. */
export function numbersOf(limit: Limit): LimitNumbers {
  return {
    requests: limit.requestsPerUnit,
    burst: burstOf(limit),
    windowMicros: lengthOf(limit) * 1_000_000,
  };
}

/** Returns the bound of hits that are counted only if they pass the limit. */
export function boundOf(limit: Limit): AlgorithmBound {
  return countingOf(limit).newBound(numbersOf(limit));
}

export function isCalendarMonth({ unit, calendar }: WindowTerms, options: WindowOptions): boolean {
  return unit === Unit.MONTH && calendar === undefined && options.useCalendarMonthRateLimit;
}

/**
 * Returns the unit with the length of a window, or UNKNOWN if there is none. For a calendar, returns its own unit. If months are calendar
 * months, 30 days are not a month.
 */
export function unitOfWindow(limit: WindowTerms, options: WindowOptions): Unit {
  if (limit.unitMultiplier === 1) return limit.unit;
  const unit = unitOfSeconds(lengthOf(limit));
  return unit === Unit.MONTH && options.useCalendarMonthRateLimit ? Unit.UNKNOWN : unit;
}

function calendarMonthAt(nowSeconds: number, counterKeys: CounterKeys): Window {
  const now = new Date(nowSeconds * 1000);
  const startSeconds = Date.UTC(now.getUTCFullYear(), now.getUTCMonth()) / 1000;
  const endSeconds = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1) / 1000;
  const keySuffix = windowSuffix(counterKeys, 'month', startSeconds);
  return { startSeconds, endSeconds, lifeSeconds: undefined, keySuffix };
}

/** Returns the window of a counter that never ends. */
function steadyWindow(limit: Limit, steady: SteadyCounter): Window {
  return {
    startSeconds: Number.NEGATIVE_INFINITY,
    endSeconds: Number.POSITIVE_INFINITY,
    lifeSeconds: countingOf(limit).lifeSeconds(numbersOf(limit)),
    keySuffix: steadySuffix(steady, lengthOf(limit)),
  };
}

/** Returns the window that a limit counts in. `isOwn`: the limit does not exist in the Go service, so its keys are unambiguous. */
export function counterWindow(
  limit: Limit,
  isOwn: boolean,
  nowSeconds: number,
  options: WindowOptions,
): Window {
  const { steady } = algorithmOf(limit);
  if (steady !== undefined) return steadyWindow(limit, steady);
  return windowAt(limit, nowSeconds, isOwn ? { ...options, counterKeys: 'unambiguous' } : options);
}

/** The current window of each unit and each of Weir's own limits, created once per window instead of once per plan. */
export class CurrentWindows {
  readonly #options: WindowOptions;
  readonly #current: (Window | undefined)[] = [];
  readonly #ofOwn = new WeakMap<Limit, Window>();

  constructor(options: WindowOptions) {
    this.#options = options;
  }

  /** Returns the result of `counterWindow`. */
  at(limit: Limit, isOwn: boolean, nowSeconds: number): Window {
    const known = isOwn ? this.#ofOwn.get(limit) : this.#current[limit.unit];
    if (known !== undefined && nowSeconds >= known.startSeconds && nowSeconds < known.endSeconds)
      return known;
    const window = counterWindow(limit, isOwn, nowSeconds, this.#options);
    if (isOwn) this.#ofOwn.set(limit, window);
    else this.#current[limit.unit] = window;
    return window;
  }
}
