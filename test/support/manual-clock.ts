import type { Clock } from '../../process/time/clock.ts';

/** Stands still until the test moves it. */
export class ManualClock implements Clock {
  ms: number;

  constructor(ms = 0) {
    this.ms = ms;
  }

  nowMs(): number {
    return this.ms;
  }

  monotonicMs(): number {
    return this.ms;
  }
}
