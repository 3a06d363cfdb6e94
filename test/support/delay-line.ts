interface Waiting {
  dueMs: number;
  act: () => void;
}

/** Does things later, in the order in which they came, also while the delay changes. */
export class DelayLine {
  readonly #waiting: Waiting[] = [];
  #timer: NodeJS.Timeout | undefined;

  add(delayMs: number, act: () => void): void {
    if (delayMs === 0 && this.#waiting.length === 0) {
      act();
      return;
    }
    this.#waiting.push({ dueMs: performance.now() + delayMs, act });
    this.#timer ??= setTimeout(() => this.#run(), delayMs);
  }

  /** Does nothing more of what waits. */
  clear(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting.length = 0;
  }

  #run(): void {
    this.#timer = undefined;
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const leftMs = next.dueMs - performance.now();
      if (leftMs > 0) {
        this.#timer = setTimeout(() => this.#run(), Math.ceil(leftMs));
        return;
      }
      this.#waiting.shift();
      next.act();
    }
  }
}
