/**
 * Bounds: they decide which hits a limit lets pass if hits are counted only when they pass. A bound is an algorithm with its numbers, one
 * object per limit. The Lua of each algorithm does the same in Redis. The time is always that of the store. Pure.
 */

/** The largest number that is exact both in JavaScript and in Redis's Lua. All numbers here are at most this large. */
export const largestExactNumber = Number.MAX_SAFE_INTEGER;

/** The state of a counter: three numbers whose meaning depends on the algorithm. Immutable. */
export type CounterState = readonly [number, number, number];

/** Times are whole microseconds since the epoch, hits whole numbers. */
export interface AlgorithmBound {
  /**
   * Whether a counter holds only a total, in a key that names its window. Without a bound, the same counter continues to count. It does
   * not know the time, and lives as long as its window.
   */
  readonly holdsTotal: boolean;
  /** The maximum number of hits that may pass at once, from a counter that was never used. */
  readonly capacity: number;
  /** Kind and numbers for the script. The texts of bounds that do the same are equal. */
  readonly scriptText: string;
  /** Returns the current state of a counter whose state was `held` before. Undefined: the counter does not exist. */
  stateAt(held: CounterState | undefined, nowMicros: number): CounterState;
  /**
   * The maximum number of hits that pass at this moment, 0 to `capacity`. `held` is the state at this moment, here and in the methods
   * below.
   */
  room(held: CounterState, nowMicros: number): number;
  /** Takes hits. Call it only for hits for which there is room, or for at most `maxTaken`. */
  take(held: CounterState, hits: number): CounterState;
  /** The used part of the limit with this room left. A total may exceed a limit that was lowered. */
  used(held: CounterState, room: number): number;
  /** The maximum number of hits that can be charged regardless of the limit, because the counter has room for the numbers. */
  maxTaken(held: CounterState, nowMicros: number): number;
  /** Gives back hits. The counter never holds less than an unused counter. */
  giveBack(held: CounterState, hits: number, nowMicros: number): CounterState;
  /** Gives back hits of a charge, as far as the counter still includes them. */
  giveBackOf(charge: Charge, now: ReturnRequest): ReturnResult;
  /** The time until this many hits pass, by default one, without other requests. If they never pass, it is a whole window. */
  untilRoomMicros(held: CounterState, nowMicros: number, hits?: number): number;
  /** The time until the counter is equivalent to an unused counter. The store must retain it until then. */
  untilUnusedMicros(held: CounterState, nowMicros: number): number;
}

/** The hits that a reservation took from one counter. The store remembers them until its commit or release. */
export interface Charge {
  /** The hits that were taken. They are fewer than the amount only if a bucket in shadow mode had fewer. */
  readonly taken: number;
  /**
   * The state of the counter after the charge: for a token bucket, the time at which everything taken has returned; otherwise the window.
   */
  readonly held: CounterState;
  /** Hits that other requests took before the charge and may still give back. */
  readonly others: number;
  /** The hits that reservations returned before the charge. */
  readonly returned: ReturnedTotal;
}

/**
 * The total that reservations have returned to a token bucket, as a time in the bucket's numbers: microseconds, the rest, the parts.
 * Other algorithms do not use it.
 */
export type ReturnedTotal = CounterState;

export const nothingReturned: ReturnedTotal = [0, 0, 1];

export interface ReturnRequest {
  /** The current state. */
  readonly held: CounterState;
  /** The hits to return, at most the hits of the charge. */
  readonly hits: number;
  /** The hits that all reservations have returned to the counter. */
  readonly returned: ReturnedTotal;
  readonly nowMicros: number;
}

export interface ReturnResult {
  readonly held: CounterState;
  /** The waiting time; for a token bucket rounded up. */
  readonly given: number;
  readonly returned: ReturnedTotal;
}
