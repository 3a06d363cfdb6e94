/**
 * How a limit lets hits pass that are counted only if they pass: an algorithm with its numbers, one object a limit. Pure;
 * the Lua beside it does the same in Redis, and the time is always the store's.
 */

/** The largest number that is exact both in JavaScript and in Redis's Lua. Everything here stays at or below it. */
export const exactMost = Number.MAX_SAFE_INTEGER;

/** What a counter holds: three numbers whose meaning is its algorithm's. Never changed, only replaced. */
export type CounterState = readonly [number, number, number];

/** Times are whole microseconds since the epoch, hits whole numbers. */
export interface Bound {
  /**
   * Whether a counter holds nothing but a total, in a key that names its window. Without a bound the same counter counts on; it
   * knows no time, and lives as long as its window.
   */
  readonly holdsTotal: boolean;
  /** The most that may pass at once, from a counter that was never used. */
  readonly capacity: number;
  /** Kind and numbers for the script; equal for bounds that do the same. */
  readonly scriptText: string;
  /** What a counter holds at this moment that held `held` before; undefined is one that is not there. */
  heldAt(held: CounterState | undefined, nowMicros: number): CounterState;
  /** The most hits that pass at this moment, 0 to `capacity`. `held` is of this moment, as in the following. */
  room(held: CounterState, nowMicros: number): number;
  /** Only for hits that there is room for, or as many as `mostTaken`. */
  take(held: CounterState, hits: number): CounterState;
  /** What is used of the limit where so much room is left; a total may be more than a limit that was lowered. */
  used(held: CounterState, room: number): number;
  /** The most hits that can be charged whatever the limit is, as far as the counter has room for numbers. */
  mostTaken(held: CounterState, nowMicros: number): number;
  /** Never below an unused counter. */
  giveBack(held: CounterState, hits: number, nowMicros: number): CounterState;
  /** Gives back hits of a charge, as far as the counter still counts them. */
  giveBackOf(charge: Charge, now: GivingBack): GivenBack;
  /** How long until so many hits pass, one unless said, if nobody else comes; a whole window where they never do. */
  untilRoomMicros(held: CounterState, nowMicros: number, hits?: number): number;
  /** How long until the counter is as good as unused: so long it has to be kept. */
  untilUnusedMicros(held: CounterState, nowMicros: number): number;
}

/** What a reservation took from one counter, as it is remembered until it is settled. */
export interface Charge {
  /** Less than its amount only where a bucket in shadow mode had less. */
  readonly taken: number;
  /** What the counter held right after: of a bucket when all that was taken so far will have come back, else the window. */
  readonly held: CounterState;
  /** Hits that others had taken by then and may still give back. */
  readonly others: number;
  /** What reservations had given back by then. */
  readonly returned: Returned;
}

/** What all reservations gave back to a bucket so far, as a time in its numbers: microseconds, the rest, the parts. Of others nothing. */
export type Returned = CounterState;

export const nothingReturned: Returned = [0, 0, 1];

export interface GivingBack {
  /** Of this moment. */
  readonly held: CounterState;
  /** At most what the charge took. */
  readonly hits: number;
  /** What all reservations together have given back to the counter so far. */
  readonly returned: Returned;
  readonly nowMicros: number;
}

export interface GivenBack {
  readonly held: CounterState;
  /** Of a bucket rounded up. */
  readonly given: number;
  readonly returned: Returned;
}
