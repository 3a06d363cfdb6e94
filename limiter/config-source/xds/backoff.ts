export interface BackoffOptions {
  initialMs: number;
  maxMs: number;
  /** Each wait is so many times the one before. At most 1, as the default of 0.5, every wait is the initial one. */
  factor: number;
  /** A random point between the initial wait and the one due, instead of the one due. */
  jitter: boolean;
  /** From 0 to below 1. */
  random: () => number;
}

/** The wait before a stream that broke is opened again. `attempt` counts from 0. Never below initial nor above max. */
export function backoffMs(options: BackoffOptions, attempt: number): number {
  const { initialMs, maxMs, factor, jitter, random } = options;
  const dueMs = Math.min(maxMs, initialMs * factor ** attempt);
  const waitMs = jitter ? initialMs + random() * (dueMs - initialMs) : dueMs;
  return Math.min(maxMs, Math.max(initialMs, waitMs));
}
