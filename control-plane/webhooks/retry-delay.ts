/** When a delivery that failed is tried again. */
import { retryDelayMs } from '../../process/time/retry-delay.ts';

/** Ours: a receiver that restarts is asked again soon, one that is down for long not often. */
const firstDelayMs = 1_000;
const longestDelayMs = 600_000;
/** Ours: a receiver cannot silence an endpoint for longer at a time. */
const longestRetryAfterMs = 3_600_000;

/** After so many failures in a row, 1 for the first. */
export function deliveryDelayMs(failures: number, random: () => number): number {
  return retryDelayMs({ failures, firstMs: firstDelayMs, mostMs: longestDelayMs, random });
}

/** RFC 9110, section 10.2.3: seconds or a date. Undefined when it is missing or damaged. */
export function parseRetryAfterMs(header: string | null, nowMs: number): number | undefined {
  const text = header?.trim() ?? '';
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1_000 : dateMs(text) - nowMs;
  return Number.isNaN(waitMs) ? undefined : Math.min(longestRetryAfterMs, Math.max(0, waitMs));
}

function dateMs(text: string): number {
  // Date.parse takes much that is no HTTP date, plain numbers among it.
  return /^[A-Z][a-z]+,? .*\d\d:\d\d:\d\d/.test(text) ? Date.parse(text) : Number.NaN;
}
