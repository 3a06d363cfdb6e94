interface Stall {
  fromMs: number;
  toMs: number;
}

const intervalMs = 2;

/** Knows when the load generator itself stood still (its own garbage collection, a busy machine), which is no fault of who is asked. */
export class GeneratorStalls {
  readonly #stalls: Stall[] = [];
  #timer: NodeJS.Timeout | undefined;

  start(): void {
    let lastMs = performance.now();
    this.#timer = setInterval(() => {
      const nowMs = performance.now();
      this.add(lastMs + intervalMs, nowMs);
      lastMs = nowMs;
    }, intervalMs);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Shorter ones than a millisecond are what timers do. */
  add(fromMs: number, toMs: number): void {
    if (toMs - fromMs > 1) this.#stalls.push({ fromMs, toMs });
  }

  /** Milliseconds of a span in which the generator stood still. */
  within(fromMs: number, toMs: number): number {
    let total = 0;
    for (const stall of this.#stalls) {
      total += Math.max(0, Math.min(stall.toMs, toMs) - Math.max(stall.fromMs, fromMs));
    }
    return total;
  }
}
