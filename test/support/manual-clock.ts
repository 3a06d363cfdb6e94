import type { Clock } from '../../process/time/clock.ts';

/** Stands still until the test moves it. */
export class ManualClock implements Clock {
  ms: number;
  /** By how much the date was set, as against the time that went by. */
  dateMs = 0;

  constructor(ms = 0) {
    this.ms = ms;
  }

  nowMs(): number {
    return this.ms + this.dateMs;
  }

  monotonicMs(): number {
    return this.ms;
  }
}
