import type { Clock } from '../process/time/process-clock.ts';

/** Stands where the request under way says. */
export class VirtualClock implements Clock {
  ms = 0;

  nowMs(): number {
    return this.ms;
  }

  monotonicMs(): number {
    return this.ms;
  }
}
