import type { Timers } from '../../../process/time/clock.ts';
import { BreakerState } from './breaker-state.ts';

export interface CallBreakerOptions {
  /** As those of `BreakerStore`. */
  timers: Timers;
  /** From 0 to below 1: many limiters do not probe in one moment. */
  random: () => number;
  /** Without any answer for so long while calls wait, it opens, at most an eighth earlier. */
  silenceMs: number;
  /** From a failed probe to the next, less up to a quarter. */
  probeIntervalMs: number;
  /** One call beside the breaker. */
  probe: () => Promise<unknown>;
  /** What calls reject with that were sent and not answered. */
  unanswered: () => Error;
  /** What calls reject with that were never sent. */
  unsent: () => Error;
  /** Whether a call that rejected so was answered all the same. */
  isAnswer: (error: unknown) => boolean;
  onChange?: ((open: boolean) => void) | undefined;
}

const ticksPerSilence = 8;
/** Opens at the tick after these: before a breaker around everything, for which nine ticks are silence. */
const quietTicks = 6;

/**
 * A breaker around the calls to one server of several: those that wait when it falls silent reject, and all others at
 * once until it answers a probe. Unlike `BreakerStore` it lets everybody through then: who calls is bounded already.
 */
export class CallBreaker {
  readonly #options: CallBreakerOptions;
  readonly #state = new BreakerState({ quietTicks });
  /** Rejects each call under way. */
  readonly #waiting = new Set<(error: Error) => void>();
  #endTicks: (() => void) | undefined;
  #endProbe: (() => void) | undefined;
  #closed = false;

  constructor(options: CallBreakerOptions) {
    this.#options = options;
  }

  get open(): boolean {
    return this.#state.phase === 'open' || this.#state.phase === 'probing';
  }

  /** Calls `send` before it returns, or not at all. */
  call<T>(send: () => Promise<T>): Promise<T> {
    if (this.open) return Promise.reject(this.#options.unsent());
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waiting.add(reject);
    this.#startTicks();
    send().then(
      (value) => {
        if (this.#waiting.delete(reject)) this.#state.heard();
        resolve(value);
      },
      (error: unknown) => {
        if (this.#waiting.delete(reject) && this.#options.isAnswer(error)) this.#state.heard();
        reject(error);
      },
    );
    return promise;
  }

  /** Ends its timers. Calls under way are left to end by themselves. */
  close(): void {
    this.#closed = true;
    this.#stopTicks();
    this.#endProbe?.();
  }

  #startTicks(): void {
    if (this.#closed || this.#endTicks !== undefined) return;
    const { timers, silenceMs } = this.#options;
    this.#endTicks = timers.every(silenceMs / ticksPerSilence, () => this.#tick());
  }

  #stopTicks(): void {
    this.#endTicks?.();
    this.#endTicks = undefined;
  }

  #tick(): void {
    this.#state.tick(this.#waiting.size > 0);
    const { phase } = this.#state;
    if (phase === 'open') this.#opens();
    else if (phase === 'closed' && this.#waiting.size === 0) this.#stopTicks();
  }

  #opens(): void {
    this.#stopTicks();
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    this.#options.onChange?.(true);
    this.#scheduleProbe();
    const error = this.#options.unanswered();
    for (const reject of waiting) reject(error);
  }

  #scheduleProbe(): void {
    if (this.#closed) return;
    const { timers, random, probeIntervalMs } = this.#options;
    this.#endProbe = timers.after(probeIntervalMs * (1 - random() / 4), () => this.#probe());
  }

  #probe(): void {
    this.#state.probeSent();
    this.#options.probe().then(
      () => {
        if (this.#closed) return;
        this.#state.probeAnswered();
        this.#startTicks();
        this.#options.onChange?.(false);
      },
      () => {
        this.#state.probeFailed();
        this.#scheduleProbe();
      },
    );
  }
}
