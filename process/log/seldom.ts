import type { Clock } from '../time/clock.ts';

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

/** Ours: kinds that are told apart; what comes beyond shares one time. */
const mostKinds = 64;

/** The same for each kind of happening by itself: a frequent one does not hide a rare one. */
export class SeldomByKind<Detail> {
  readonly #make: () => Seldom<Detail>;
  readonly #byKind = new Map<string, Seldom<Detail>>();
  readonly #others: Seldom<Detail>;

  constructor(clock: Clock, intervalMs: number, tell: (detail: Detail, times: number) => void) {
    this.#make = () => new Seldom(clock, intervalMs, tell);
    this.#others = this.#make();
  }

  note(kind: string, detail: Detail): void {
    this.#of(kind).note(detail);
  }

  #of(kind: string): Seldom<Detail> {
    const known = this.#byKind.get(kind);
    if (known !== undefined) return known;
    if (this.#byKind.size >= mostKinds) return this.#others;
    const made = this.#make();
    this.#byKind.set(kind, made);
    return made;
  }
}
