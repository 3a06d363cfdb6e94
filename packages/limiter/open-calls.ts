/** Tracks calls that wait for a store. They keep the process alive, and closing waits for them. */
export class OpenCalls {
  /** Keeps the process alive while a call is open. */
  readonly #alive = setInterval(() => {}, 0x7fff_ffff).unref();
  #open = 0;
  #idle: (() => void) | undefined;

  async while<Value>(work: () => Promise<Value>): Promise<Value> {
    this.began();
    try {
      return await work();
    } finally {
      this.ended();
    }
  }

  /** Registers a call. `ended` must follow, once. */
  began(): void {
    if (this.#open === 0) this.#alive.ref();
    this.#open += 1;
  }

  ended(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    this.#alive.unref();
    this.#idle?.();
  }

  /** Resolves when no call is open. This takes no longer than the store's timeout. */
  async end(): Promise<void> {
    if (this.#open > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#idle = resolve;
      await promise;
    }
    clearInterval(this.#alive);
  }
}

/** Rejects with the signal's reason as soon as the signal is aborted. */
export function unlessAborted<Value>(
  signal: AbortSignal | undefined,
  pending: Promise<Value>,
): Promise<Value> {
  if (signal === undefined) return pending;
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const giveUp = (): void => reject(signal.reason);
  signal.addEventListener('abort', giveUp);
  return Promise.race([pending, aborted]).finally(() => signal.removeEventListener('abort', giveUp));
}
