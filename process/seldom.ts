import type { Clock } from './clock.ts';

/** For what any peer can make happen: told at once, then at most once an interval, with how often it happened since. */
export class Seldom<Detail> {
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #tell: (detail: Detail, times: number) => void;
  #toldMs = Number.NEGATIVE_INFINITY;
  #times = 0;

  constructor(clock: Clock, intervalMs: number, tell: (detail: Detail, times: number) => void) {
    this.#clock = clock;
    this.#intervalMs = intervalMs;
    this.#tell = tell;
  }

  note(detail: Detail): void {
    this.#times++;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#toldMs < this.#intervalMs) return;
    this.#tell(detail, this.#times);
    this.#toldMs = nowMs;
    this.#times = 0;
  }
}
