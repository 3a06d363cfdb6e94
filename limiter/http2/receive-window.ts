/**
 * One receive window (RFC 9113, section 6.9): what the peer may still send, given back in bulk once half of it is used,
 * as what arrives is consumed at once.
 */
export class ReceiveWindow {
  readonly #size: number;
  #used = 0;

  constructor(size: number) {
    this.#size = size;
  }

  /** Counts a DATA frame's payload, padding included. False when the peer had not so much left. */
  take(bytes: number): boolean {
    this.#used += bytes;
    return this.#used <= this.#size;
  }

  /** What to announce by WINDOW_UPDATE now: 0 while it is not worth a frame. */
  credit(): number {
    if (2 * this.#used < this.#size) return 0;
    const credit = this.#used;
    this.#used = 0;
    return credit;
  }
}
