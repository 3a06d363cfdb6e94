/** Durations by name; what is recorded goes to the listeners at once and is kept nowhere. */
export interface Timer {
  /** Without tags. */
  readonly name: string;
  /** Counts up from 0 over all timers. */
  readonly index: number;
  record(value: number): void;
}

export type TimerListener = (timer: Timer, value: number) => void;

export class Timings {
  readonly #timers = new Map<string, Timer>();
  readonly #listeners: TimerListener[] = [];

  /** Made at the first call. */
  timer(name: string): Timer {
    const known = this.#timers.get(name);
    if (known !== undefined) return known;
    const listeners = this.#listeners;
    const timer: Timer = {
      name,
      index: this.#timers.size,
      record(value) {
        for (let i = 0; i < listeners.length; i += 1) (listeners[i] as TimerListener)(timer, value);
      },
    };
    this.#timers.set(name, timer);
    return timer;
  }

  /** By index, from `first` on. */
  names(first: number): string[] {
    return [...this.#timers.keys()].slice(first);
  }

  onTimer(listener: TimerListener): void {
    this.#listeners.push(listener);
  }
}
