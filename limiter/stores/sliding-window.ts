import { type Bound, exactMost, type Held } from './bound.ts';

/**
 * Two neighbouring windows, aligned to the epoch: the former counts with the share of it that the last window's length
 * still covers (Cloudflare's sliding window counter). Hits pass when former x rest + current + hits <= requests.
 * Held: the number of the current window, the former count, the current count.
 *
 * The rest is measured in ticks: a microsecond, or the power of ten of them with which requests x ticks of a window stay
 * exact. Elapsed ticks are rounded down, so that no more passes than the formula allows.
 */
export class SlidingWindow implements Bound {
  readonly kind = 'sliding';
  readonly capacity: number;
  readonly scriptText: string;
  readonly #windowMicros: number;
  readonly #tickMicros: number;
  readonly #ticks: number;

  constructor({ requests, windowMicros }: { requests: number; windowMicros: number }) {
    let tickMicros = 1;
    while (requests * Math.ceil(windowMicros / tickMicros) > exactMost) tickMicros *= 10;
    this.capacity = requests;
    this.#windowMicros = windowMicros;
    this.#tickMicros = tickMicros;
    this.#ticks = Math.ceil(windowMicros / tickMicros);
    this.scriptText = `sliding ${requests} ${windowMicros} ${tickMicros} ${this.#ticks}`;
  }

  /**
   * The clock may have been set back. In the next window, which has begun before, the counter stays, as at its beginning; what
   * is further ahead is taken for hits of now.
   */
  heldAt(held: Held | undefined, nowMicros: number): Held {
    const window = Math.floor(nowMicros / this.#windowMicros);
    if (held === undefined || held[0] + 1 < window) return [window, 0, 0];
    const [at, former, current] = held;
    if (at === window || at === window + 1) return held;
    return at > window ? [window, 0, Math.min(exactMost, former + current)] : [window, current, 0];
  }

  room([window, former, current]: Held, nowMicros: number): number {
    const elapsedMicros = Math.max(0, nowMicros - window * this.#windowMicros);
    // Rounded up.
    const restTicks = this.#ticks - Math.floor(elapsedMicros / this.#tickMicros);
    const budget = this.capacity * this.#ticks - former * restTicks;
    return Math.max(0, Math.floor(budget / this.#ticks) - current);
  }

  take([window, former, current]: Held, hits: number): Held {
    return [window, former, current + hits];
  }

  /** From the current window, then from the former. */
  giveBack([window, former, current]: Held, hits: number): Held {
    const fromCurrent = Math.min(current, hits);
    return [window, Math.max(0, former - (hits - fromCurrent)), current - fromCurrent];
  }

  untilRoomMicros([window, former, current]: Held, nowMicros: number, hits = 1): number {
    const most = this.capacity - hits;
    if (most < 0) return this.#windowMicros;
    const elapsedMicros = nowMicros - window * this.#windowMicros;
    if (current <= most) return Math.max(0, this.#freeFrom(former, most - current) - elapsedMicros);
    return this.#windowMicros - elapsedMicros + this.#freeFrom(current, most);
  }

  untilUnusedMicros([window, former, current]: Held, nowMicros: number): number {
    const leftMicros = (window + 1) * this.#windowMicros - nowMicros;
    if (current > 0) return leftMicros + this.#windowMicros;
    return former > 0 ? leftMicros : 0;
  }

  /** How far the window has to be for no more than `free` hits of the former one to count. */
  #freeFrom(former: number, free: number): number {
    if (former <= free) return 0;
    const restTicks = Math.floor((free * this.#ticks) / former);
    return Math.min(this.#windowMicros, (this.#ticks - restTicks) * this.#tickMicros);
  }
}
