/** Windows of time that hits are counted in, aligned to the epoch, in whole seconds of UTC. */
import { type CounterKeys, windowSuffix } from '../../rules/counter-keys.ts';
import { Unit } from '../../rules/model.ts';

export interface Window {
  readonly startSeconds: number;
  /** The first second that is no longer in the window. */
  readonly endSeconds: number;
  /** A calendar month: a counter then lives until its end. */
  readonly calendar: boolean;
  /** What counter keys end in. */
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

export interface WindowOptions {
  /** USE_CALENDAR_MONTH_RATE_LIMIT: a month is one of the calendar instead of 30 days. */
  useCalendarMonthRateLimit: boolean;
  readonly counterKeys: CounterKeys;
}

/** The window that a moment is in. */
export function windowAt(unit: Unit, nowSeconds: number, options: WindowOptions): Window {
  if (unit === Unit.MONTH && options.useCalendarMonthRateLimit)
    return calendarMonthAt(nowSeconds, options.counterKeys);
  const length = unitSeconds[unit];
  if (length === undefined) throw new RangeError(`the unit ${unit} has no windows`);
  const startSeconds = Math.floor(nowSeconds / length) * length;
  return {
    startSeconds,
    endSeconds: startSeconds + length,
    calendar: false,
    keySuffix: windowSuffix(options.counterKeys, length, startSeconds),
  };
}

function calendarMonthAt(nowSeconds: number, counterKeys: CounterKeys): Window {
  const now = new Date(nowSeconds * 1000);
  const startSeconds = Date.UTC(now.getUTCFullYear(), now.getUTCMonth()) / 1000;
  const endSeconds = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1) / 1000;
  const keySuffix = windowSuffix(counterKeys, undefined, startSeconds);
  return { startSeconds, endSeconds, calendar: true, keySuffix };
}

/** The current window of each unit, made once a window instead of once a plan. */
export class Windows {
  readonly #options: WindowOptions;
  readonly #current: (Window | undefined)[] = new Array(unitSeconds.length).fill(undefined);

  constructor(options: WindowOptions) {
    this.#options = options;
  }

  at(unit: Unit, nowSeconds: number): Window {
    const known = this.#current[unit];
    if (known !== undefined && nowSeconds >= known.startSeconds && nowSeconds < known.endSeconds)
      return known;
    const window = windowAt(unit, nowSeconds, this.#options);
    this.#current[unit] = window;
    return window;
  }
}
