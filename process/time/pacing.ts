/** How often something may be done: a budget of tokens, the wait after failures, and runs that are gathered. */
import type { Clock, Timers } from './clock.ts';

/** Keeps a wait of exactly one token from missing it by a rounding error. */
const roundingError = 1e-6;

/** A budget of `burst`, full at first, that refills at a steady rate. Pure. */
export class TokenBucket {
  readonly #options: { burst: number; perSecond: number };
  #tokens: number;
  #atMs: number | undefined;

  constructor(options: { burst: number; perSecond: number }) {
    this.#options = options;
    this.#tokens = options.burst;
  }

  /** Whether one was left; takes it. */
  take(nowMs: number): boolean {
    this.#refill(nowMs);
    if (this.#tokens < 1 - roundingError) return false;
    this.#tokens = Math.max(0, this.#tokens - 1);
    return true;
  }

  /** One that was taken was not needed. */
  putBack(): void {
    this.#tokens = Math.min(this.#options.burst, this.#tokens + 1);
  }

  /** 0: `take` succeeds now, so many times. */
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

/**
 * How long to wait after a failure: doubled by each one, less a part by chance, so that not all come back at one moment.
 */
export function retryDelayMs({
  failures,
  firstMs,
  mostMs,
  random,
  spread = 0.5,
  retryAfterMs = 0,
}: {
  /** In a row, 1 for the first. */
  failures: number;
  firstMs: number;
  mostMs: number;
  /** From 0 to below 1. */
  random(): number;
  /** The part of it that chance may take away. Defaults to a half. */
  spread?: number;
  /** What the server asked for, as a least. */
  retryAfterMs?: number | undefined;
}): number {
  const longest = Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, 30));
  return Math.max(Math.ceil(longest * (1 - spread + random() * spread)), retryAfterMs);
}

export interface RhythmOptions {
  /** How long the first wish waits for others to join it. */
  gatherMs: number;
  /** Between the starts of two runs, in the long run. */
  intervalMs: number;
  /** So many runs need not keep the interval after a rest. Defaults to 1. */
  burst?: number;
}

/** When something runs that is asked for: soon, and never too often. A storm of wishes collapses into few runs. Pure. */
export class Rhythm {
  readonly #gatherMs: number;
  readonly #budget: TokenBucket;
  #dueMs: number | undefined;

  constructor({ gatherMs, intervalMs, burst = 1 }: RhythmOptions) {
    this.#gatherMs = gatherMs;
    this.#budget = new TokenBucket({ burst, perSecond: 1000 / intervalMs });
  }

  /** On the monotonic clock. Undefined: nothing was asked for. */
  get dueMs(): number | undefined {
    return this.#dueMs;
  }

  ask(monotonicMs: number): void {
    this.#dueMs ??= monotonicMs + Math.max(this.#gatherMs, this.#budget.waitMs(monotonicMs));
  }

  /** Whether it is to run now. A wish that comes up during the run makes another one. */
  begin(monotonicMs: number): boolean {
    if (this.#dueMs === undefined || monotonicMs < this.#dueMs) return false;
    this.#dueMs = undefined;
    this.#budget.take(monotonicMs);
    return true;
  }
}

export interface PaceOptions extends RhythmOptions {
  clock: Clock;
  timers: Timers;
  run(): void;
}

/** Runs something in a `Rhythm`. */
export class Pace {
  readonly #options: PaceOptions;
  readonly #rhythm: Rhythm;
  #callOff: (() => void) | undefined;
  #isClosed = false;

  constructor(options: PaceOptions) {
    this.#options = options;
    this.#rhythm = new Rhythm(options);
  }

  ask(): void {
    if (this.#isClosed || this.#callOff !== undefined) return;
    const { clock, timers } = this.#options;
    const nowMs = clock.monotonicMs();
    this.#rhythm.ask(nowMs);
    const dueMs = this.#rhythm.dueMs!;
    this.#callOff = timers.after(dueMs - nowMs, () => {
      this.#callOff = undefined;
      // A timer may be early by a part of a millisecond.
      this.#rhythm.begin(Math.max(dueMs, clock.monotonicMs()));
      this.#options.run();
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#callOff?.();
    this.#callOff = undefined;
  }
}
