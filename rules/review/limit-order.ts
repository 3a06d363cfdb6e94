/**
 * Which of two limits is never the tighter one: what the other lets pass, it lets pass as well. Only what can be proven
 * counts: for any traffic, hits that are given back among it, and for clocks of limiters and stores that differ (unless
 * hits are then given back in another window than they were counted in).
 *
 * A limit with windows lets at most its requests pass in each, a sliding one in those that it is aligned to; a bucket at
 * most burst + rate x t in any time t. That bounds what the other limit can come to hold.
 */

import { calendarText } from '../calendar.ts';
import { Algorithm, type RateLimit, Unit, unitFromText } from '../model.ts';
import { secondsOfLimit } from '../window.ts';

/** Chosen: no two clocks of limiters and stores are further apart, in seconds. */
const clocksApart = 120;

const day = 86_400;
/** Chosen: no clock is set forward or back by more; those that are have offsets of whole quarters of an hour. */
const clockChange = 4 * 3600;
const offsetStep = 900;

/** In seconds. A month may be one of the calendar, so lengths may differ. */
interface Windows {
  shortest: number;
  longest: number;
  /** All begin at multiples of it. */
  step: number;
}

function windowsOf(limit: RateLimit): Windows {
  const seconds = secondsOfLimit(limit);
  if (limit.calendar !== undefined) {
    const { unit } = limit.calendar;
    const [least, most] =
      unit === 'month' ? [28 * day, 31 * day] : [seconds, unit === 'year' ? 366 * day : seconds];
    return { shortest: least - clockChange, longest: most + clockChange, step: offsetStep };
  }
  const isPlainMonth = unitFromText(limit.unit) === Unit.MONTH && limit.unitMultiplier === 1;
  return isPlainMonth && limit.algorithm === Algorithm.FIXED_WINDOW
    ? { shortest: 28 * day, longest: 31 * day, step: day }
    : { shortest: seconds, longest: seconds, step: seconds };
}

/** What passes at once, where nothing passed before. */
export function mostAtOnce({ requestsPerUnit, algorithm, burst = requestsPerUnit }: RateLimit): number {
  return algorithm === Algorithm.TOKEN_BUCKET && requestsPerUnit > 0 ? burst : requestsPerUnit;
}

/**
 * Whether `other` never refuses what `limit` lets pass. `isOneClock`: as if all clocks were one; else fixed windows are told
 * by the limiter's, the others by the store's.
 */
export function covers(limit: RateLimit, other: RateLimit, isOneClock = false): boolean {
  if (mostAtOnce(limit) === 0 || areSame(limit, other)) return true;
  const isFixed = (one: RateLimit): boolean => one.algorithm === Algorithm.FIXED_WINDOW;
  const apart = isOneClock || isFixed(limit) === isFixed(other) ? 0 : clocksApart;
  return other.algorithm === Algorithm.TOKEN_BUCKET
    ? bucketCovers(limit, other, apart)
    : windowsCover(limit, other, apart);
}

function areSame(limit: RateLimit, other: RateLimit): boolean {
  const hasSameWindow =
    unitFromText(limit.unit) === unitFromText(other.unit) &&
    limit.unitMultiplier === other.unitMultiplier &&
    (limit.calendar && calendarText(limit.calendar)) === (other.calendar && calendarText(other.calendar));
  const hasSameNumbers =
    limit.requestsPerUnit === other.requestsPerUnit && mostAtOnce(limit) === mostAtOnce(other);
  return hasSameWindow && hasSameNumbers && limit.algorithm === other.algorithm;
}

/** `other` is a bucket. */
function bucketCovers(limit: RateLimit, other: RateLimit, apart: number): boolean {
  const { shortest } = windowsOf(limit);
  const isSlower =
    product(limit.requestsPerUnit, secondsOfLimit(other)) <= product(other.requestsPerUnit, shortest);
  if (!isSlower) return false;
  if (limit.algorithm === Algorithm.TOKEN_BUCKET) return mostAtOnce(limit) <= mostAtOnce(other);
  // The ends of two neighbouring windows meet, and of more where clocks differ.
  return product(limit.requestsPerUnit, 2 * shortest + apart) <= product(mostAtOnce(other), shortest);
}

/** `other` has windows. */
function windowsCover(limit: RateLimit, other: RateLimit, apart: number): boolean {
  const [own, its] = [windowsOf(limit), windowsOf(other)];
  const isSliding = other.algorithm === Algorithm.SLIDING_WINDOW;
  const room = BigInt(other.requestsPerUnit - (isSliding ? roundedOff(other) : 0));
  if (limit.algorithm === Algorithm.TOKEN_BUCKET) {
    const most =
      product(mostAtOnce(limit), own.longest) + product(limit.requestsPerUnit, its.longest + apart);
    return most <= room * BigInt(own.longest);
  }
  let windows = touched(own, its, apart);
  if (isSliding && (windows > 1 || limit.algorithm !== Algorithm.SLIDING_WINDOW)) {
    // The former one whole, and as much of the current as its share has sunk, but for windows that have just begun.
    windows += Math.min(windows, 2 + Math.ceil(apart / own.shortest));
  }
  return product(limit.requestsPerUnit, windows) <= room;
}

/** Hits that the arithmetic of a large sliding window may take for more than they are: a tick of its former window, which it counts in. */
function roundedOff({ requestsPerUnit, ...limit }: RateLimit): number {
  const exactMost = Number.MAX_SAFE_INTEGER;
  const isExact = requestsPerUnit * secondsOfLimit({ ...limit, requestsPerUnit }) * 1e6 <= exactMost;
  return isExact ? 0 : Math.ceil((11 * requestsPerUnit ** 2) / exactMost);
}

/** How many windows one of the others can have a part of. */
function touched({ shortest, step }: Windows, other: Windows, apart: number): number {
  if (apart > 0) return Math.floor((other.longest + apart) / shortest) + 2;
  const common = commonDivisor(step, other.step);
  return other.longest < 2 * common ? 1 : Math.floor((other.longest - 2 * common) / shortest) + 2;
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b);
}

/** Exact. */
function product(a: number, b: number): bigint {
  return BigInt(a) * BigInt(b);
}
