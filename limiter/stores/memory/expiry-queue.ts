/**
 * Elements in the order of their ends, to the second or another tick: a list for each tick in which any element ends, and a heap of those
 * ticks.
 */
export interface Expiring {
  /** The end may move to a later time. Code that takes the element at its old tick must add it again. */
  readonly expiresAtMs: number;
  /** Owned by the queue: the tick that it is queued for. */
  queuedTick: number;
  /** Owned by the queue: the next element that ends in the same tick. */
  nextInTick: Expiring | undefined;
}

/**
 * Taking an element needs no search, and adding one costs O(log t) for t different ticks, which are few compared with the elements. No
 * element can be removed from the middle. Code that drops an element early must mark it, and skip it when it is taken.
 */
export class ExpiryQueue<T extends Expiring> {
  readonly #heads = new Map<number, T>();
  /** A binary heap, the earliest first. */
  readonly #ticks: number[] = [];
  readonly #tickMs: number;

  constructor(tickMs = 1000) {
    this.#tickMs = tickMs;
  }

  add(element: T): void {
    const tick = Math.ceil(element.expiresAtMs / this.#tickMs);
    element.queuedTick = tick;
    const head = this.#heads.get(tick);
    element.nextInTick = head;
    this.#heads.set(tick, element);
    if (head === undefined) this.#push(tick);
  }

  /** Takes one of the elements that end soonest, or undefined if the queue is empty. */
  take(): T | undefined {
    return this.takeEndedBy(Number.POSITIVE_INFINITY);
  }

  /** Does the same, but only if the element's tick is over at `nowMs`. */
  takeEndedBy(nowMs: number): T | undefined {
    const tick = this.#ticks[0];
    if (tick === undefined || tick * this.#tickMs > nowMs) return undefined;
    const element = this.#heads.get(tick) as T;
    const next = element.nextInTick as T | undefined;
    element.nextInTick = undefined;
    if (next !== undefined) {
      this.#heads.set(tick, next);
    } else {
      this.#heads.delete(tick);
      this.#pop();
    }
    return element;
  }

  #push(tick: number): void {
    const heap = this.#ticks;
    let at = heap.length;
    heap.push(tick);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent] as number;
      if (above <= tick) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = tick;
  }

  #pop(): void {
    const heap = this.#ticks;
    const last = heap.pop() as number;
    const length = heap.length;
    if (length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= length) break;
      if (child + 1 < length && (heap[child + 1] as number) < (heap[child] as number)) child += 1;
      if ((heap[child] as number) >= last) break;
      heap[at] = heap[child] as number;
      at = child;
    }
    heap[at] = last;
  }
}
