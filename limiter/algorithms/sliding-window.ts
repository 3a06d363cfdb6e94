import type { CountingAlgorithm } from './algorithm.ts';
import {
  type AlgorithmBound,
  type Charge,
  type CounterState,
  largestExactNumber,
  type ReturnRequest,
  type ReturnResult,
} from './algorithm-bound.ts';

/**
 * Two neighboring windows, aligned to the epoch. The previous one counts with the share of it that the last window's length still
 * covers (Cloudflare's sliding window counter). Hits pass when previous x rest + current + hits <= requests. The state is the number
 * of the current window, the previous count and the current count.
 *
 * The rest is measured in ticks. A tick is a microsecond, or the power of ten of them with which requests x ticks of a window stay
 * exact. Elapsed ticks are rounded down, so that no more passes than the formula allows.
 */
export class SlidingWindow implements AlgorithmBound {
  readonly holdsTotal = false;
  readonly capacity: number;
  readonly scriptText: string;
  readonly #windowMicros: number;
  readonly #tickMicros: number;
  readonly #ticks: number;

  constructor({ requests, windowMicros }: { requests: number; windowMicros: number }) {
    let tickMicros = 1;
    while (requests * Math.ceil(windowMicros / tickMicros) > largestExactNumber) tickMicros *= 10;
    this.capacity = requests;
    this.#windowMicros = windowMicros;
    this.#tickMicros = tickMicros;
    this.#ticks = Math.ceil(windowMicros / tickMicros);
    this.scriptText = `sliding ${requests} ${windowMicros} ${tickMicros} ${this.#ticks}`;
  }

  /**
   * Handles a clock that was set back. A counter in the next window stays unchanged, as at the beginning of that window. Hits that are
   * further ahead count as hits of the current window.
   */
  stateAt(held: CounterState | undefined, nowMicros: number): CounterState {
    const window = Math.floor(nowMicros / this.#windowMicros);
    if (held === undefined || held[0] + 1 < window) return [window, 0, 0];
    const [at, former, current] = held;
    if (at === window || at === window + 1) return held;
    return at > window ? [window, 0, Math.min(largestExactNumber, former + current)] : [window, current, 0];
  }

  room([window, former, current]: CounterState, nowMicros: number): number {
    const elapsedMicros = Math.max(0, nowMicros - window * this.#windowMicros);
    // The rest is rounded up.
    const restTicks = this.#ticks - Math.floor(elapsedMicros / this.#tickMicros);
    const budget = this.capacity * this.#ticks - former * restTicks;
    return Math.max(0, Math.floor(budget / this.#ticks) - current);
  }

  take([window, former, current]: CounterState, hits: number): CounterState {
    return [window, former, current + hits];
  }

  used(_: CounterState, room: number): number {
    return this.capacity - room;
  }

  maxTaken([, former, current]: CounterState): number {
    return Math.max(0, largestExactNumber - former - current);
  }

  /** Returns hits to the current window first, then to the previous one. */
  giveBack([window, former, current]: CounterState, hits: number): CounterState {
    const fromCurrent = Math.min(current, hits);
    return [window, Math.max(0, former - (hits - fromCurrent)), current - fromCurrent];
  }

  /** Hits before the previous window are not returned. */
  giveBackOf(
    charge: Charge,
    { held: [window, former, current], hits, returned }: ReturnRequest,
  ): ReturnResult {
    // If the clock was set back, both windows were merged into the current one.
    if (charge.held[0] >= window) {
      const given = Math.min(hits, current);
      return { held: [window, former, current - given], given, returned };
    }
    const given = charge.held[0] === window - 1 ? Math.min(hits, former) : 0;
    return { held: [window, former - given, current], given, returned };
  }

  untilRoomMicros([window, former, current]: CounterState, nowMicros: number, hits = 1): number {
    const max = this.capacity - hits;
    if (max < 0) return this.#windowMicros;
    const elapsedMicros = nowMicros - window * this.#windowMicros;
    if (current <= max) return Math.max(0, this.#freeFrom(former, max - current) - elapsedMicros);
    return this.#windowMicros - elapsedMicros + this.#freeFrom(current, max);
  }

  untilUnusedMicros([window, former, current]: CounterState, nowMicros: number): number {
    const leftMicros = (window + 1) * this.#windowMicros - nowMicros;
    if (current > 0) return leftMicros + this.#windowMicros;
    return former > 0 ? leftMicros : 0;
  }

  /** Returns how far the window must have passed so that at most `free` hits of the previous one count. */
  #freeFrom(former: number, free: number): number {
    if (former <= free) return 0;
    const restTicks = Math.floor((free * this.#ticks) / former);
    return Math.min(this.#windowMicros, (this.#ticks - restTicks) * this.#tickMicros);
  }
}

export const slidingWindow: CountingAlgorithm = {
  newBound: (numbers) => new SlidingWindow(numbers),
  lifeSeconds: ({ windowMicros }) => (2 * windowMicros) / 1_000_000,
  secondsUncounted: ({ windowMicros }) => windowMicros / 1_000_000,
  lua: {
    kind: 'sliding',
    helpers: '',
    stateAt: `
local window = floor(now / bound[3])
if not a or a + 1 < window then return window, 0, 0 end
if a < window then return window, c, 0 end
if a > window + 1 then return window, 0, math.min(max, b + c) end
return a, b, c`,
    room: `
local ticks = bound[5]
local restTicks = ticks - floor(math.max(0, now - a * bound[3]) / bound[4])
return math.max(0, floor((bound[2] * ticks - b * restTicks) / ticks) - c)`,
    take: 'return a, b, c + hits',
    giveBack: `
local fromCurrent = math.min(c, hits)
return a, math.max(0, b - (hits - fromCurrent)), c - fromCurrent`,
    maxTaken: 'return math.max(0, max - b - c)',
    giveBackOf: `
if charge.a >= a then
  local given = math.min(hits, c)
  return a, b, c - given, given
end
local given = charge.a == a - 1 and math.min(hits, b) or 0
return a, b - given, c, given`,
  },
};
