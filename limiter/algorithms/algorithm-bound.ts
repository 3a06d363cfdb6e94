/**
 * The rule by which a limit lets hits pass that are counted only if they pass: an algorithm with its numbers, one object per limit.
 * Pure. The Lua beside it does the same in Redis. The time is always the store's.
 */

/** The largest number that is exact both in JavaScript and in Redis's Lua. Everything here stays at or below it. */
export const largestExactNumber = Number.MAX_SAFE_INTEGER;

/** The state of a counter: three numbers whose meaning depends on the algorithm. Immutable. */
export type CounterState = readonly [number, number, number];

/** Times are whole microseconds since the epoch, hits whole numbers. */
export interface AlgorithmBound {
  /**
   * Whether a counter holds nothing but a total, in a key that names its window. Without a bound the same counter counts on; it
   * knows no time, and lives as long as its window.
   */
  readonly holdsTotal: boolean;
  /** The most that may pass at once, from a counter that was never used. */
  readonly capacity: number;
  /** Kind and numbers for the script; equal for bounds that do the same. */
  readonly scriptText: string;
  /** Returns the current state of a counter that had the state `held` before. Undefined means that the counter does not exist. */
  stateAt(held: CounterState | undefined, nowMicros: number): CounterState;
  /** The most hits that pass at this moment, 0 to `capacity`. `held` is the state at this moment, here and in the methods below. */
  room(held: CounterState, nowMicros: number): number;
  /** Takes hits. Call it only for hits that have room, or for at most `maxTaken`. */
  take(held: CounterState, hits: number): CounterState;
  /** How much of the limit is used with this room left. A total may exceed a limit that was lowered. */
  used(held: CounterState, room: number): number;
  /** The most hits that can be charged whatever the limit is, as far as the counter has room for numbers. */
  maxTaken(held: CounterState, nowMicros: number): number;
  /** Gives back hits. The counter never holds less than an unused one. */
  giveBack(held: CounterState, hits: number, nowMicros: number): CounterState;
  /** Gives back hits of a charge, as far as the counter still counts them. */
  giveBackOf(charge: Charge, now: ReturnRequest): ReturnResult;
  /** How long until this many hits pass, one by default, without other requests. A whole window if they never pass. */
  untilRoomMicros(held: CounterState, nowMicros: number, hits?: number): number;
  /** How long until the counter is equivalent to an unused one. It must be stored until then. */
  untilUnusedMicros(held: CounterState, nowMicros: number): number;
}

/** The hits that a reservation took from one counter. The store remembers them until its commit or release. */
export interface Charge {
  /** The hits taken. This is less than the amount only if a bucket in shadow mode had less. */
  readonly taken: number;
  /** The state of the counter after that: for a token bucket, the time at which everything taken has returned; otherwise the window. */
  readonly held: CounterState;
  /** Hits that other requests had taken before and may still give back. */
  readonly others: number;
  /** The hits that reservations had returned before. */
  readonly returned: ReturnedTotal;
}

/**
 * What all reservations have returned to a token bucket, as a time in its numbers: microseconds, the rest, the parts. Other
 * algorithms do not use it.
 */
export type ReturnedTotal = CounterState;

export const nothingReturned: ReturnedTotal = [0, 0, 1];

export interface ReturnRequest {
  /** The current state. */
  readonly held: CounterState;
  /** The hits to return: at most what the charge took. */
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
