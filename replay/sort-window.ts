/**
 * Puts what comes nearly in order into order. An access log is written when requests end, so that a slow one stands
 * behind faster ones that began later; the same when the logs of several proxies are joined.
 */
export interface Timed {
  readonly timeMs: number;
}

/** Elements of equal times keep their order. */
export class SortWindow<T extends Timed> {
  readonly #size: number;
  readonly #take: (element: T) => void;
  #held: T[] = [];
  #takenMs = Number.NEGATIVE_INFINITY;

  /** `size`: how many elements later an element may come than its place, at least. */
  constructor(size: number, take: (element: T) => void) {
    this.#size = size;
    this.#take = take;
  }

  /** By how many milliseconds the element comes too late; it is then left out. Undefined when it does not. */
  add(element: T): number | undefined {
    if (element.timeMs < this.#takenMs) return this.#takenMs - element.timeMs;
    this.#held.push(element);
    // Sorting is cheap for what is nearly sorted, but not so cheap as to do it for each.
    if (this.#held.length > 2 * this.#size) this.#release(this.#size);
    return undefined;
  }

  /** Hands over all that is left. */
  finish(): void {
    this.#release(0);
  }

  #release(kept: number): void {
    const sorted = this.#held.sort((a, b) => a.timeMs - b.timeMs);
    const count = sorted.length - kept;
    this.#held = sorted.slice(count);
    for (let index = 0; index < count; index++) {
      const element = sorted[index]!;
      this.#takenMs = element.timeMs;
      this.#take(element);
    }
  }
}
