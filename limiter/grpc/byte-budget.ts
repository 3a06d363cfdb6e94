/** Bytes that all calls together may hold. Pure. */
export class ByteBudget {
  #leftBytes: number;

  constructor(maxBytes: number) {
    this.#leftBytes = maxBytes;
  }

  get leftBytes(): number {
    return this.#leftBytes;
  }

  /** False, and nothing is taken, when there is not so much left. */
  take(bytes: number): boolean {
    if (bytes > this.#leftBytes) return false;
    this.#leftBytes -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#leftBytes += bytes;
  }
}
