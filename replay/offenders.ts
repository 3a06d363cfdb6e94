/** Who was limited: the counters that refused requests, exactly, up to a bound on their number. */
import { newTimes, note, type Times } from './times.ts';

export interface Offender {
  /** As `/top` names it: the counter's key without its window. */
  counter: string;
  /** Path of the rule. */
  rule: string;
  /** Requests refused. */
  limited: Times;
}

/** Chosen: about 100 MB when all are in use. */
export const mostOffenders = 250_000;

export class Offenders {
  /** Refusals by counters that came when there was no more room. */
  missed = 0;
  readonly #most: number;
  readonly #byCounter = new Map<string, Offender>();

  constructor(most: number = mostOffenders) {
    this.#most = most;
  }

  get count(): number {
    return this.#byCounter.size;
  }

  note(counter: string, rule: string, nowMs: number): void {
    let offender = this.#byCounter.get(counter);
    if (offender === undefined) {
      if (this.#byCounter.size >= this.#most) {
        this.missed++;
        return;
      }
      // Cut from a longer text, it would keep all of that alive.
      offender = { counter: Buffer.from(counter).toString(), rule, limited: newTimes() };
      this.#byCounter.set(offender.counter, offender);
    }
    note(offender.limited, nowMs);
  }

  /** The most often limited first; equal ones in the order in which they were first limited. */
  top(number: number): Offender[] {
    const all = [...this.#byCounter.values()].sort((a, b) => b.limited.count - a.limited.count);
    return all.slice(0, number);
  }
}
