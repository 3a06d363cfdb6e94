/** How often something happened, and when first and last. */
export interface Times {
  count: number;
  /** Undefined while it never happened. */
  firstMs: number | undefined;
  lastMs: number | undefined;
}

export function newTimes(): Times {
  return { count: 0, firstMs: undefined, lastMs: undefined };
}

/** Times come in order. */
export function note(times: Times, nowMs: number): void {
  times.count++;
  times.firstMs ??= nowMs;
  times.lastMs = nowMs;
}
