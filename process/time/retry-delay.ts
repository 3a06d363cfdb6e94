export interface RetryOptions {
  /** In a row, 1 for the first. */
  failures: number;
  firstMs: number;
  mostMs: number;
  /** From 0 to below 1. */
  random(): number;
  /** What the server asked for, as a least. */
  retryAfterMs?: number | undefined;
}

/**
 * How long to wait after a failure: doubled by each one, and between half of that and all of it, so that not all
 * come back at one moment.
 */
export function retryDelayMs({ failures, firstMs, mostMs, random, retryAfterMs = 0 }: RetryOptions): number {
  const longest = Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, 30));
  return Math.max(Math.ceil(longest * (0.5 + random() / 2)), retryAfterMs);
}
