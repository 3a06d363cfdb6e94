/**
 * The meaning of an algorithm for rules, wherever they are read, compared and shown. The counting itself is in
 * `limiter/algorithms/`.
 */

/** The numbers of a limit that its algorithm needs. */
export interface LimitNumbers {
  readonly requests: number;
  /** The maximum number of hits at once: `requests` if the algorithm has no separate burst. */
  readonly burst: number;
  readonly windowMicros: number;
}

/** The numbers that overrides change. */
export type ChangedNumbers = Pick<LimitNumbers, 'requests' | 'burst'>;

/** How a rule states the numbers of a limit. */
export interface WrittenNumbers {
  /** The rate in words, such as `20 per minute`. */
  readonly rate: string;
  readonly hasBurst: boolean;
}

/** One counter without windows: its key does not contain the start of a window. */
export interface SteadyCounter {
  /** Replaces the start of a window in a counter key. Small letters only. */
  readonly keyWord: string;
  /** Describes how the counter counts: `bucket: 5 when full, filled at 1 per second`. `window` is `1s`, `rate` is `1 per second`. */
  words(limit: { readonly window: string; readonly rate: string; readonly burst: number }): string;
}

/** Lengths of windows in seconds. Windows of a calendar month differ in length. */
export interface WindowLengths {
  readonly shortest: number;
  readonly longest: number;
  /** All windows begin at multiples of this number. */
  readonly step: number;
}

/** The most that a limit lets pass. */
export interface Traffic {
  readonly algorithm: RuleAlgorithm;
  readonly requests: number;
  readonly atOnce: number;
  readonly windows: WindowLengths;
}

export interface RuleAlgorithm {
  /** Undefined if windows are aligned to the epoch or a calendar, and each has its own counter. */
  readonly steady: SteadyCounter | undefined;
  /**
   * True if a limit that is alone in its rule counts all hits, also rejected ones. Then any store can count it, and limiters can
   * lease it.
   */
  readonly countsAllHits: boolean;
  /** True if a limit may have a `burst`. */
  readonly hasBurst: boolean;
  /** The words of `weir diff` for a limit that gets this algorithm. */
  readonly effect: string;
  /**
   * True if the limit is a rate: in any interval, at most the burst and what the rate allows pass. Otherwise, at most the limit's
   * requests pass in each window.
   */
  readonly isRate: boolean;
  /** Returns how many hits can pass at once if none passed before. */
  maxAtOnce(numbers: ChangedNumbers): number;
  /** Returns whether a limit with these numbers can be counted exactly. */
  isExact(numbers: LimitNumbers): boolean;
  /** Returns why a limit cannot have these numbers. Undefined if it can. */
  problem(numbers: LimitNumbers, written: WrittenNumbers): string | undefined;
  /** Returns the limit that an override with this number of requests makes of a limit. */
  withRequests(numbers: LimitNumbers, requests: number): ChangedNumbers;
  /** Returns the limit that a grant of this number of hits makes of a limit. */
  withMore(numbers: LimitNumbers, hits: number): ChangedNumbers;
  /**
   * Returns whether a limit with the numbers of `own` never rejects the traffic. `apart`: the seconds by which the clocks of the
   * two limits may differ.
   */
  admitsAll(traffic: Traffic, own: Traffic, apart: number): boolean;
}

/** The part that algorithms share whose limits have no burst. */
export const withoutBurst = {
  hasBurst: false,
  isRate: false,
  maxAtOnce: ({ requests }) => requests,
  isExact: () => true,
  problem: () => undefined,
  withRequests: (_, requests) => ({ requests, burst: requests }),
  withMore: (numbers, hits) => {
    const requests = sumOf(numbers.requests, hits);
    return { requests, burst: requests };
  },
} as const satisfies Partial<RuleAlgorithm>;

/** Adds two counts, up to the largest exact number. */
export function sumOf(count: number, more: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, count + more);
}

/** Returns whether at most `room` hits of traffic at a rate arrive in one window. */
export function rateFits({ requests, atOnce, windows }: Traffic, window: number, room: bigint): boolean {
  const max = product(atOnce, windows.longest) + product(requests, window);
  return max <= room * BigInt(windows.longest);
}

/** Returns how many windows of the traffic one window of the other limit can overlap. */
export function touchedWindows(
  { shortest, step }: WindowLengths,
  other: WindowLengths,
  apart: number,
): number {
  if (apart > 0) return Math.floor((other.longest + apart) / shortest) + 2;
  const common = commonDivisor(step, other.step);
  return other.longest < 2 * common ? 1 : Math.floor((other.longest - 2 * common) / shortest) + 2;
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b);
}

/** Returns the exact product. */
export function product(a: number, b: number): bigint {
  return BigInt(a) * BigInt(b);
}
