/**
 * Times of pools: milliseconds since this limiter began, on a scale that never jumps. Each client has ten of them. Windows follow the
 * time of day, which an operator or a time server may set.
 */
import type { Clock } from '../../process/time/clock.ts';

/** Before any time of a pool. */
export const longAgoMs = Number.NEGATIVE_INFINITY;

/** Chosen: a smaller difference is not followed, so that windows hardly ever move. */
const toleratedMs = 100;

export class PoolTimes {
  readonly #clock: Clock;
  readonly #beganMs: number;
  /** The time of day at which this limiter began, by what is known now. */
  #epochMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#beganMs = clock.monotonicMs();
    this.#epochMs = clock.nowMs();
  }

  now(): number {
    return this.since(this.#clock.monotonicMs());
  }

  /** Returns a time of the monotonic clock as the time since the beginning. */
  since(monotonicMs: number): number {
    return small(Math.floor(monotonicMs - this.#beganMs));
  }

  of(epochMs: number): number {
    return small(epochMs - this.#epochMs);
  }

  epochOf(ms: number): number {
    return ms + this.#epochMs;
  }

  /** Moves the windows if the time of day was set. Returns whether it was. */
  follow(): boolean {
    const epochMs = Math.round(this.#clock.nowMs() - this.#clock.monotonicMs() + this.#beganMs);
    if (Math.abs(epochMs - this.#epochMs) < toleratedMs) return false;
    this.#epochMs = epochMs;
    return true;
  }
}

/** V8 stores an integer of 32 bits in the field itself, and any other number in 16 bytes more. */
function small(ms: number): number {
  const integer = ms | 0;
  return integer === ms ? integer : ms;
}
