import type { Timers } from '../../../process/time/clock.ts';

/**
 * Decides when the store is asked:
 *
 *            silence, unreachable              probe sent
 *   closed ───────────────────────> open ──────────────────> probing
 *     ^                             ^  ^                      │    │
 *     │                             │  └──── probe failed ────┘    │ probe answered
 *     │ doubled to the end          │ silence, unreachable         v
 *     └─────────────────────────── ramping <───────────────────────┘
 *
 * Time is measured in ticks. A tick is quiet if requests wait and none was answered since the previous tick. More than `quietTicks` of
 * them in a row are silence. A process that stalls misses ticks, and each tick comes after the store's answers were read
 * (`ticksAfterReading`), so it does not mistake its own pause for the store's. While ramping, a bounded number of requests is in flight,
 * which doubles with every tick that was not quiet. Pure.
 */
export type BreakerPhase = 'closed' | 'open' | 'probing' | 'ramping';

/** The first number of requests in flight when the store is back: enough to see that it works, but too few to overload it. */
export const firstAdmitted = 8;
/** Above this number, the ramp ends. */
export const lastAdmitted = 512;

export class BreakerState {
  readonly #quietTicks: number;
  /** The number of requests that may be in flight. */
  admitted = Number.POSITIVE_INFINITY;
  /** Set when the store answered a request. A tick resets it. */
  hasAnswered = false;
  #phase: BreakerPhase = 'closed';
  #quiet = 0;

  constructor(options: { quietTicks: number }) {
    this.#quietTicks = options.quietTicks;
  }

  get phase(): BreakerPhase {
    return this.#phase;
  }

  /** `waiting`: requests are in flight. */
  tick(waiting: boolean): void {
    if (this.#phase === 'open' || this.#phase === 'probing') return;
    this.#quiet = waiting && !this.hasAnswered ? this.#quiet + 1 : 0;
    this.hasAnswered = false;
    if (this.#quiet > this.#quietTicks) this.#open();
    else if (this.#phase === 'ramping' && this.#quiet === 0) this.#widen();
  }

  /** Called when the store reports that it has no connection. */
  unreachable(): void {
    if (this.#phase === 'closed' || this.#phase === 'ramping') this.#open();
  }

  probeSent(): void {
    if (this.#phase === 'open') this.#phase = 'probing';
  }

  probeFailed(): void {
    if (this.#phase === 'probing') this.#phase = 'open';
  }

  probeAnswered(): void {
    if (this.#phase !== 'probing') return;
    this.#phase = 'ramping';
    this.admitted = firstAdmitted;
  }

  #open(): void {
    this.#phase = 'open';
    this.admitted = 0;
    this.#quiet = 0;
    this.hasAnswered = false;
  }

  #widen(): void {
    this.admitted *= 2;
    if (this.admitted <= lastAdmitted) return;
    this.#phase = 'closed';
    this.admitted = Number.POSITIVE_INFINITY;
  }
}

/** The times for detecting that a store hangs and that it is back. */
export interface BreakerTimes {
  /** Their ticks come after the store's answers were read, and missed ticks are not repeated (`ticksAfterReading`). */
  timers: Timers;
  /** Returns a number from 0 to below 1, so that many limiters do not probe at the same moment. */
  random: () => number;
  /**
   * STORE_BREAKER_SILENCE: the breaker opens after this time without any answer while requests wait, up to an eighth earlier or later.
   */
  silenceMs: number;
  /** STORE_BREAKER_PROBE_INTERVAL: the time from a failed probe to the next, less up to a quarter. */
  probeIntervalMs: number;
}

export const ticksPerSilence = 8;

/** The timers of a breaker: ticks while it is closed and requests wait, or while it ramps; probes while it is open. */
export class BreakerTimer {
  /** Whether it ticks. */
  ticking = false;
  readonly #state: BreakerState;
  readonly #times: BreakerTimes;
  readonly #events: BreakerEvents;
  #endTicks = (): void => {};
  #endProbe = (): void => {};
  #closed = false;

  constructor(state: BreakerState, times: BreakerTimes, events: BreakerEvents) {
    this.#state = state;
    this.#times = times;
    this.#events = events;
  }

  get closed(): boolean {
    return this.#closed;
  }

  startTicks(): void {
    if (this.#closed || this.ticking) return;
    this.ticking = true;
    const { timers, silenceMs } = this.#times;
    this.#endTicks = timers.every(silenceMs / ticksPerSilence, () => this.#events.onTick());
  }

  stopTicks(): void {
    this.ticking = false;
    this.#endTicks();
  }

  /** Stops the ticks and schedules a probe. The ticks start again when a probe is answered. */
  probeLater(): void {
    this.stopTicks();
    if (this.#closed) return;
    const { timers, random, probeIntervalMs } = this.#times;
    this.#endProbe = timers.after(probeIntervalMs * (1 - random() / 4), () => void this.#probe());
  }

  close(): void {
    this.#closed = true;
    this.stopTicks();
    this.#endProbe();
  }

  async #probe(): Promise<void> {
    this.#state.probeSent();
    const failure = await this.#events.probe().then(
      () => undefined,
      (error: Error) => error,
    );
    if (this.#closed) return;
    if (failure === undefined) {
      this.#state.probeAnswered();
      this.startTicks();
    } else {
      this.#state.probeFailed();
      this.probeLater();
    }
    this.#events.onProbed?.(failure);
  }
}

interface BreakerEvents {
  onTick(): void;
  /** Sends one request that bypasses the breaker. */
  probe(): Promise<unknown>;
  /** `failure` is undefined if it was answered. */
  onProbed?(failure: Error | undefined): void;
}
