/**
 * How a limit lets hits pass that are counted only if they pass: an algorithm with its numbers, one object a limit. Pure;
 * the Lua in `redis/scripts.ts` does the same, and the time is always the store's.
 */

/** The largest number that is exact both in JavaScript and in Redis's Lua. Everything here stays at or below it. */
export const exactMost = Number.MAX_SAFE_INTEGER;

/** What a counter holds: three numbers whose meaning is its algorithm's. Never changed, only replaced. */
export type Held = readonly [number, number, number];

/** Times are whole microseconds since the epoch, hits whole numbers. */
export interface Bound {
  /** How the script knows it. */
  readonly kind: 'fixed' | 'sliding' | 'bucket';
  /** The most that may pass at once, from a counter that was never used. */
  readonly capacity: number;
  /** Kind and numbers for the script; equal for bounds that do the same. */
  readonly scriptText: string;
  /** What a counter holds at this moment that held `held` before; undefined is one that is not there. */
  heldAt(held: Held | undefined, nowMicros: number): Held;
  /** The most hits that pass at this moment, 0 to `capacity`. `held` is of this moment, as in the following. */
  room(held: Held, nowMicros: number): number;
  /** Only for hits that there is room for. */
  take(held: Held, hits: number): Held;
  /** Never below an unused counter. */
  giveBack(held: Held, hits: number, nowMicros: number): Held;
  /** How long until so many hits pass, one unless said, if nobody else comes; a whole window where they never do. */
  untilRoomMicros(held: Held, nowMicros: number, hits?: number): number;
  /** How long until the counter is as good as unused: so long it has to be kept. */
  untilUnusedMicros(held: Held, nowMicros: number): number;
}

/**
 * A fixed window among several limits of a rule. Its key names the window, so that the counter knows no time. Held: the
 * total.
 */
export class FixedWindow implements Bound {
  readonly kind = 'fixed';
  readonly capacity: number;
  readonly scriptText: string;

  constructor(requests: number) {
    this.capacity = requests;
    this.scriptText = `fixed ${requests}`;
  }

  heldAt(held: Held | undefined): Held {
    return held ?? unused;
  }

  room([total]: Held): number {
    return Math.max(0, this.capacity - total);
  }

  take([total]: Held, hits: number): Held {
    return [total + hits, 0, 0];
  }

  giveBack([total]: Held, hits: number): Held {
    return [Math.max(0, total - hits), 0, 0];
  }

  /** The key's window knows. */
  untilRoomMicros(): number {
    return 0;
  }

  untilUnusedMicros(): number {
    return 0;
  }
}

const unused: Held = [0, 0, 0];
