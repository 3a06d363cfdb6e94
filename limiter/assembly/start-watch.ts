/** A start that takes long is told of again and again: until it is over nobody is served. */

import type { Timers } from '../../process/time/clock.ts';
import type { Clock } from '../../process/time/process-clock.ts';

export interface WaitingStart {
  /** What the start waits for now. */
  waitsFor: string;
  seconds: number;
}

export interface StartWatchOptions {
  clock: Clock;
  timers: Timers;
  /** Called 10 s after the start began, then every minute. */
  onWaiting(start: WaitingStart): void;
}

const firstMs = 10_000;
const furtherMs = 60_000;

export class StartWatch {
  /** What the start waits for from now on. */
  waitsFor = '';
  readonly #options: StartWatchOptions;
  readonly #beganMs: number;
  #callOff: () => void;

  constructor(options: StartWatchOptions) {
    const { clock, timers } = options;
    this.#options = options;
    this.#beganMs = clock.monotonicMs();
    this.#callOff = timers.after(firstMs, () => {
      this.#callOff = timers.every(furtherMs, () => this.#tell());
      this.#tell();
    });
  }

  /** The start is over, or given up. */
  end(): void {
    this.#callOff();
  }

  #tell(): void {
    const { clock, onWaiting } = this.#options;
    const seconds = Math.round((clock.monotonicMs() - this.#beganMs) / 1000);
    onWaiting({ waitsFor: this.waitsFor, seconds });
  }
}
