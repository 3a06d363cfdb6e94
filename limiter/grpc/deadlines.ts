import type { Clock, Timers } from '../../process/time/clock.ts';

/** A call that is to end in time, and its place among the others. */
export interface DueCall {
  /** On the monotonic clock. */
  readonly deadlineMs: number;
  previousDue: DueCall | undefined;
  nextDue: DueCall | undefined;
  /** The deadline passed. */
  expire(): void;
}

/** Ends calls whose deadline passed, in coarse steps: most calls end long before, and a timer for each would be dear. */
export class Deadlines {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #sweepMs: number;
  #first: DueCall | undefined;
  #endSweeps: (() => void) | undefined;
  /** There was a call since the last sweep. */
  #busy = false;

  constructor(options: { clock: Clock; timers: Timers; sweepMs: number }) {
    this.#clock = options.clock;
    this.#timers = options.timers;
    this.#sweepMs = options.sweepMs;
  }

  add(call: DueCall): void {
    const first = this.#first;
    call.nextDue = first;
    if (first !== undefined) first.previousDue = call;
    this.#first = call;
    this.#busy = true;
    this.#endSweeps ??= this.#timers.every(this.#sweepMs, () => this.#sweep());
  }

  /** Of a call that was added. */
  remove(call: DueCall): void {
    const { previousDue, nextDue } = call;
    if (previousDue === undefined) this.#first = nextDue;
    else previousDue.nextDue = nextDue;
    if (nextDue !== undefined) nextDue.previousDue = previousDue;
    call.previousDue = undefined;
    call.nextDue = undefined;
  }

  close(): void {
    this.#endSweeps?.();
    this.#endSweeps = undefined;
  }

  #sweep(): void {
    if (this.#first === undefined && !this.#busy) {
      this.close();
      return;
    }
    this.#busy = false;
    const nowMs = this.#clock.monotonicMs();
    const due: DueCall[] = [];
    for (let call = this.#first; call !== undefined; call = call.nextDue) {
      if (call.deadlineMs <= nowMs) due.push(call);
    }
    for (const call of due) call.expire();
  }
}
