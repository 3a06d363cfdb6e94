export interface BackoffOptions {
  initialMs: number;
  maxMs: number;
  /** Each wait is so many times the one before. With 1 or less every wait is the initial one. */
  factor: number;
  /** A random point between the initial wait and the one due, instead of the one due. */
  jitter: boolean;
  /** The first wait is the initial one with jitter, too, as in envoyproxy/ratelimit. Otherwise it varies as the second does. */
  exactFirst: boolean;
  /** From 0 to below 1. */
  random: () => number;
}

/** The wait before what failed is tried again. `attempt` counts from 0. Never below initial nor above max, in whole milliseconds. */
export function backoffMs(options: BackoffOptions, attempt: number): number {
  const { initialMs, maxMs, factor, jitter, exactFirst, random } = options;
  const steps = jitter && !exactFirst ? Math.max(1, attempt) : attempt;
  const dueMs = Math.min(maxMs, initialMs * factor ** steps);
  const waitMs = jitter ? initialMs + random() * (dueMs - initialMs) : dueMs;
  return Math.round(Math.min(maxMs, Math.max(initialMs, waitMs)));
}
