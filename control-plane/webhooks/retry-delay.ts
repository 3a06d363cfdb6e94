/** When a delivery that failed is tried again. */

/** Ours: a receiver that restarts is asked again soon, one that is down for long not often. */
const firstDelayMs = 1_000;
const longestDelayMs = 600_000;
/** Ours: a receiver cannot silence an endpoint for longer at a time. */
const longestRetryAfterMs = 3_600_000;

/** Doubles with every failure, from the first (1), and takes half of it up to all of it by `random`. */
export function retryDelayMs(failures: number, random: () => number): number {
  const fullMs = Math.min(longestDelayMs, firstDelayMs * 2 ** Math.min(failures - 1, 30));
  return Math.round(fullMs * (0.5 + random() / 2));
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
