/** Times of pools: milliseconds since this limiter began. Each client has ten of them. */
import type { Clock } from '../../process/time/clock.ts';

/** Before any time of a pool. */
export const longAgoMs = Number.NEGATIVE_INFINITY;

export class PoolTimes {
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #beganMs: number;

  constructor(clock: Pick<Clock, 'nowMs'>) {
    this.#clock = clock;
    this.#beganMs = clock.nowMs();
  }

  now(): number {
    return this.of(this.#clock.nowMs());
  }

  /** Returns the time since the beginning. V8 stores an integer of 32 bits in the field itself, and any other number in 16 bytes more. */
  of(epochMs: number): number {
    const ms = epochMs - this.#beganMs;
    const small = ms | 0;
    return small === ms ? small : ms;
  }

  epochOf(ms: number): number {
    return ms + this.#beganMs;
  }
}
