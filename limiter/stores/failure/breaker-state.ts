import type { Timers } from '../../../process/time/clock.ts';

/**
 * When a store is asked and when it is not:
 *
 *            silence, unreachable              probe sent
 *   closed ───────────────────────> open ──────────────────> probing
 *     ^                             ^  ^                      │    │
 *     │                             │  └──── probe failed ────┘    │ probe answered
 *     │ doubled to the end          │ silence, unreachable         v
 *     └─────────────────────────── ramping <───────────────────────┘
 *
 * Time is ticks. A tick is quiet when requests wait and none was answered since the tick before; more than `quietTicks`
 * of them in a row are silence. A process that stalls by itself misses ticks, and each tick comes after what the store said
 * was read (`ticksAfterReading`), so it does not take its own pause for the store's. While ramping, a bounded number of requests is under way, which doubles with every tick that was not quiet.
 * Pure.
 */
export type BreakerPhase = 'closed' | 'open' | 'probing' | 'ramping';

/** Requests under way at first when the store is back: enough to see it work, too few to hurt it. */
export const firstAdmitted = 8;
/** Above this the ramp is over. */
export const lastAdmitted = 512;

export class BreakerState {
  readonly #quietTicks: number;
  /** How many requests may be under way. */
  admitted = Number.POSITIVE_INFINITY;
  /** Set by anyone who hears that the store answered a request; a tick takes it back. */
  heard = false;
  #phase: BreakerPhase = 'closed';
  #quiet = 0;

  constructor(options: { quietTicks: number }) {
    this.#quietTicks = options.quietTicks;
  }

  get phase(): BreakerPhase {
    return this.#phase;
  }

  /** `waiting`: requests are under way. */
  tick(waiting: boolean): void {
    if (this.#phase === 'open' || this.#phase === 'probing') return;
    this.#quiet = waiting && !this.heard ? this.#quiet + 1 : 0;
    this.heard = false;
    if (this.#quiet > this.#quietTicks) this.#open();
    else if (this.#phase === 'ramping' && this.#quiet === 0) this.#widen();
  }

  /** The store says that it has no connection. */
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
    this.heard = false;
  }

  #widen(): void {
    this.admitted *= 2;
    if (this.admitted <= lastAdmitted) return;
    this.#phase = 'closed';
    this.admitted = Number.POSITIVE_INFINITY;
  }
}

/** How a store that hangs is found out, and found back. */
export interface BreakerTimes {
  /** Their ticks come after what the store said was read, and none is made up for (`ticksAfterReading`). */
  timers: Timers;
  /** From 0 to below 1: many limiters do not probe in one moment. */
  random: () => number;
  /** STORE_BREAKER_SILENCE: without any answer for so long while requests wait, it opens, at most an eighth earlier or later. */
  silenceMs: number;
  /** STORE_BREAKER_PROBE_INTERVAL: from a failed probe to the next, less up to a quarter. */
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

  /** Ends the ticks until a probe, now or later, is answered. */
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
  /** One request beside the breaker. */
  probe(): Promise<unknown>;
  /** `failure` is undefined where it was answered. */
  onProbed?(failure: Error | undefined): void;
}
