/** Limits how often something happens: a budget of tokens, the wait after failures, and runs that requests share. */
import type { Clock, Timers } from './clock.ts';

/** Keeps a wait for exactly one token from missing it by a rounding error. */
const roundingError = 1e-6;

/** A budget of `burst`, full at first, that refills at a steady rate. Pure. */
export class PacingTokenBucket {
  readonly #options: { burst: number; perSecond: number };
  #tokens: number;
  #atMs: number | undefined;

  constructor(options: { burst: number; perSecond: number }) {
    this.#options = options;
    this.#tokens = options.burst;
  }

  /** Takes a token. Returns whether one was left. */
  take(nowMs: number): boolean {
    this.#refill(nowMs);
    if (this.#tokens < 1 - roundingError) return false;
    this.#tokens = Math.max(0, this.#tokens - 1);
    return true;
  }

  copy(): PacingTokenBucket {
    const copy = new PacingTokenBucket(this.#options);
    copy.#tokens = this.#tokens;
    copy.#atMs = this.#atMs;
    return copy;
  }

  /** Returns a token that was not needed. */
  putBack(): void {
    this.#tokens = Math.min(this.#options.burst, this.#tokens + 1);
  }

  /** The time until `take` succeeds this number of times. 0: now. */
  waitMs(nowMs: number, times = 1): number {
    this.#refill(nowMs);
    const missing = times - roundingError - this.#tokens;
    return missing <= 0 ? 0 : Math.ceil((missing / this.#options.perSecond) * 1000);
  }

  #refill(nowMs: number): void {
    const { burst, perSecond } = this.#options;
    const passedMs = Math.max(0, nowMs - (this.#atMs ?? nowMs));
    this.#tokens = Math.min(burst, this.#tokens + (passedMs / 1000) * perSecond);
    this.#atMs = nowMs;
  }
}

/** The wait after a failure: doubled by each one, minus a random part, so that not all clients come back at the same moment. */
export function retryDelayMs({
  failures,
  firstMs,
  maxMs,
  random,
  spread = 0.5,
  retryAfterMs = 0,
}: {
  /** The number of consecutive failures, 1 for the first. */
  failures: number;
  firstMs: number;
  maxMs: number;
  /** Returns a number from 0 to below 1. */
  random(): number;
  /** The part of the wait that may be subtracted at random. Defaults to a half. */
  spread?: number;
  /** The least wait, as requested by the server. */
  retryAfterMs?: number | undefined;
}): number {
  const longest = Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, 30));
  return Math.max(Math.ceil(longest * (1 - spread + random() * spread)), retryAfterMs);
}

export interface RhythmOptions {
  /** The time that the first request waits for others to join it. */
  gatherMs: number;
  /** The average time between the starts of two runs. */
  intervalMs: number;
  /** The number of runs that may ignore the interval after a pause. Defaults to 1. */
  burst?: number;
}

/** Decides when requested runs happen: soon, but not too often. Many requests become few runs. An immutable value. */
export class Rhythm {
  /** The time of the next run on the monotonic clock. Undefined: no run was requested. */
  readonly dueMs: number | undefined;
  readonly #gatherMs: number;
  /** Copied before each change. */
  readonly #budget: PacingTokenBucket;

  private constructor(gatherMs: number, budget: PacingTokenBucket, dueMs: number | undefined) {
    this.#gatherMs = gatherMs;
    this.#budget = budget;
    this.dueMs = dueMs;
  }

  static of({ gatherMs, intervalMs, burst = 1 }: RhythmOptions): Rhythm {
    return new Rhythm(gatherMs, new PacingTokenBucket({ burst, perSecond: 1000 / intervalMs }), undefined);
  }

  /** Returns the rhythm after a request for a run. */
  asked(monotonicMs: number): Rhythm {
    if (this.dueMs !== undefined) return this;
    const waitMs = this.#budget.copy().waitMs(monotonicMs);
    return new Rhythm(this.#gatherMs, this.#budget, monotonicMs + Math.max(this.#gatherMs, waitMs));
  }

  /** Returns the rhythm after the start of a run. Undefined if no run is due. A request during the run causes another one. */
  begun(monotonicMs: number): Rhythm | undefined {
    if (this.dueMs === undefined || monotonicMs < this.dueMs) return undefined;
    const budget = this.#budget.copy();
    budget.take(monotonicMs);
    return new Rhythm(this.#gatherMs, budget, undefined);
  }
}

export interface PaceOptions extends RhythmOptions {
  clock: Clock;
  timers: Timers;
  run(): void;
}

/** Runs a callback in a `Rhythm`. */
export class Pace {
  readonly #options: PaceOptions;
  #rhythm: Rhythm;
  #callOff: (() => void) | undefined;
  #isClosed = false;

  constructor(options: PaceOptions) {
    this.#options = options;
    this.#rhythm = Rhythm.of(options);
  }

  ask(): void {
    if (this.#isClosed || this.#callOff !== undefined) return;
    const { clock, timers } = this.#options;
    const nowMs = clock.monotonicMs();
    this.#rhythm = this.#rhythm.asked(nowMs);
    const dueMs = this.#rhythm.dueMs!;
    this.#callOff = timers.after(dueMs - nowMs, () => {
      this.#callOff = undefined;
      // A timer may fire a fraction of a millisecond early.
      this.#rhythm = this.#rhythm.begun(Math.max(dueMs, clock.monotonicMs()))!;
      this.#options.run();
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#callOff?.();
    this.#callOff = undefined;
  }
}
