/**
 * Finds the limit of two that is never the tighter one: it lets pass everything that the other lets pass. Only what can be proven
 * counts: for any traffic, hits that are given back among it, and for clocks of limiters and stores that differ (unless
 * hits are then given back in another window than they were counted in).
 *
 * A limit with windows lets at most its requests pass in each, a sliding one in those that it is aligned to; a bucket at
 * most burst + rate x t in any time t. That bounds what the other limit can come to hold.
 */

import type { Traffic, WindowLengths } from '../algorithms/algorithm.ts';
import { algorithmOf, hasWindows } from '../algorithms/registry.ts';
import { calendarText } from '../calendar.ts';
import { burstOf, type Limit, Unit } from '../model.ts';
import { secondsOfLimit } from '../window.ts';

/** Chosen: the clocks of limiters and stores differ by at most this time, in seconds. */
const clocksApart = 120;

const day = 86_400;
/** Chosen: the largest change of a clock. Clocks that are changed have offsets of whole quarters of an hour. */
const clockChange = 4 * 3600;
const offsetStep = 900;

function windowsOf(limit: Limit): WindowLengths {
  const seconds = secondsOfLimit(limit);
  if (limit.calendar !== undefined) {
    const { unit } = limit.calendar;
    const [min, max] =
      unit === 'month' ? [28 * day, 31 * day] : [seconds, unit === 'year' ? 366 * day : seconds];
    return { shortest: min - clockChange, longest: max + clockChange, step: offsetStep };
  }
  const isPlainMonth = limit.unit === Unit.MONTH && limit.unitMultiplier === 1;
  return isPlainMonth && hasWindows(limit)
    ? { shortest: 28 * day, longest: 31 * day, step: day }
    : { shortest: seconds, longest: seconds, step: seconds };
}

/** The hits that pass at once if nothing passed before. */
export function maxAtOnce(limit: Limit): number {
  return algorithmOf(limit).maxAtOnce({ requests: limit.requestsPerUnit, burst: burstOf(limit) });
}

/**
 * Returns whether `other` never rejects requests that `limit` allows. `isOneClock`: treat all clocks as one. Otherwise the
 * limiter's clock decides windows, and the store's clock everything else.
 */
export function covers(limit: Limit, other: Limit, isOneClock = false): boolean {
  if (maxAtOnce(limit) === 0 || areSame(limit, other)) return true;
  const apart = isOneClock || hasWindows(limit) === hasWindows(other) ? 0 : clocksApart;
  return algorithmOf(other).admitsAll(trafficOf(limit), trafficOf(other), apart);
}

function trafficOf(limit: Limit): Traffic {
  return {
    algorithm: algorithmOf(limit),
    requests: limit.requestsPerUnit,
    atOnce: maxAtOnce(limit),
    windows: windowsOf(limit),
  };
}

function areSame(limit: Limit, other: Limit): boolean {
  const hasSameWindow =
    limit.unit === other.unit &&
    limit.unitMultiplier === other.unitMultiplier &&
    (limit.calendar && calendarText(limit.calendar)) === (other.calendar && calendarText(other.calendar));
  const hasSameNumbers =
    limit.requestsPerUnit === other.requestsPerUnit && maxAtOnce(limit) === maxAtOnce(other);
  return hasSameWindow && hasSameNumbers && limit.algorithm === other.algorithm;
}
