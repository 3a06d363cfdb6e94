import type { Timers } from '../process/time/clock.ts';
import type { Clock } from '../process/time/process-clock.ts';

export interface PaceOptions {
  clock: Clock;
  timers: Timers;
  /** How long the first call waits for others to join it. */
  gatherMs: number;
  /** Between the starts of two runs. */
  intervalMs: number;
  run(): void;
}

/** Runs something soon after it was asked for, and never too often: a storm of wishes collapses into few runs. */
export class Pace {
  readonly #options: PaceOptions;
  #lastRunMs = Number.NEGATIVE_INFINITY;
  #callOff: (() => void) | undefined;
  #isClosed = false;

  constructor(options: PaceOptions) {
    this.#options = options;
  }

  ask(): void {
    if (this.#isClosed || this.#callOff !== undefined) return;
    const { clock, timers, gatherMs, intervalMs } = this.#options;
    const sinceMs = clock.monotonicMs() - this.#lastRunMs;
    this.#callOff = timers.after(Math.max(gatherMs, intervalMs - sinceMs), () => this.#run());
  }

  close(): void {
    this.#isClosed = true;
    this.#callOff?.();
    this.#callOff = undefined;
  }

  /** A wish that comes up during the run makes another one. */
  #run(): void {
    this.#callOff = undefined;
    this.#lastRunMs = this.#options.clock.monotonicMs();
    this.#options.run();
  }
}
