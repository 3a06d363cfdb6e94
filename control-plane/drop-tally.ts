import type { Timers } from '../process/time/clock.ts';

/** Ours: a full queue drops an event for every new one. */
const usualIntervalMs = 60_000;

/** Tells of losses at once, then once an interval how many there were since, until there are none. */
export class DropTally {
  readonly #timers: Timers;
  readonly #tell: (count: number) => void;
  readonly #intervalMs: number;
  #count = 0;
  #callOff: (() => void) | undefined;

  constructor(timers: Timers, tell: (count: number) => void, intervalMs = usualIntervalMs) {
    this.#timers = timers;
    this.#tell = tell;
    this.#intervalMs = intervalMs;
  }

  add(count: number): void {
    this.#count += count;
    if (this.#callOff === undefined) this.#round();
  }

  /** Tells what was not told yet. */
  close(): void {
    this.#callOff?.();
    if (this.#count > 0) this.#tell(this.#count);
    this.#count = 0;
  }

  #round(): void {
    this.#callOff = undefined;
    if (this.#count === 0) return;
    this.#tell(this.#count);
    this.#count = 0;
    this.#callOff = this.#timers.after(this.#intervalMs, () => this.#round());
  }
}
