/** A budget that refills at a steady rate up to a bound. Pure. */
export interface TokenBucketOptions {
  /** Full at first. */
  burst: number;
  perSecond: number;
}

/** Keeps a wait of exactly one token from missing it by a rounding error. */
const roundingError = 1e-6;

export class TokenBucket {
  readonly #options: TokenBucketOptions;
  #tokens: number;
  #atMs: number | undefined;

  constructor(options: TokenBucketOptions) {
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

  /** 0: `take` succeeds now. */
  waitMs(nowMs: number): number {
    this.#refill(nowMs);
    const missing = 1 - roundingError - this.#tokens;
    return missing <= 0 ? 0 : Math.ceil((missing / this.#options.perSecond) * 1000);
  }

  #refill(nowMs: number): void {
    const { burst, perSecond } = this.#options;
    const passedMs = Math.max(0, nowMs - (this.#atMs ?? nowMs));
    this.#tokens = Math.min(burst, this.#tokens + (passedMs / 1000) * perSecond);
    this.#atMs = nowMs;
  }
}
