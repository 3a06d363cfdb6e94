import type { Clock } from '../../process/time/clock.ts';

export interface Problem {
  text: string;
  key?: string;
  error?: string;
  /** How often the same came since it was last told, this time not counted. */
  further: number;
}

/** Tells the first problem of a kind at once and after that one every so often, so that an outage does not flood the log. */
export class ProblemPace {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #say: (problem: Problem) => void;
  readonly #intervalMs: number;
  readonly #told = new Map<string, { ms: number; further: number }>();

  /** `intervalMs` defaults to 10 s. */
  constructor(options: {
    clock: Pick<Clock, 'monotonicMs'>;
    say: (problem: Problem) => void;
    intervalMs?: number;
  }) {
    this.#clock = options.clock;
    this.#say = options.say;
    this.#intervalMs = options.intervalMs ?? 10_000;
  }

  /** `text` names the kind: there are few of them. */
  tell(text: string, fields: { key?: string; error?: string }): void {
    const nowMs = this.#clock.monotonicMs();
    const told = this.#told.get(text);
    if (told !== undefined && nowMs - told.ms < this.#intervalMs) {
      told.further += 1;
      return;
    }
    this.#told.set(text, { ms: nowMs, further: 0 });
    this.#say({ text, ...fields, further: told?.further ?? 0 });
  }
}
