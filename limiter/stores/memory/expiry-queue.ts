/** Which counter ends next, to the second: a list for each second in which something ends, and a heap of those seconds. */
export interface Expiring {
  /** May move later: whoever takes the element when its old second comes adds it again. */
  readonly expiresAtMs: number;
  /** Owned by the queue: the second that it is queued for. */
  queuedSecond: number;
  /** Owned by the queue: the next one that ends in the same second. */
  nextInSecond: Expiring | undefined;
}

/**
 * Taking needs no search and adding O(log s) for s different seconds, which are few beside the counters. Nothing can be
 * taken out of the middle: whoever drops an element early marks it and skips it when it comes.
 */
export class ExpiryQueue<T extends Expiring> {
  readonly #heads = new Map<number, T>();
  /** Binary heap, the earliest second first. */
  readonly #seconds: number[] = [];

  add(element: T): void {
    const second = Math.ceil(element.expiresAtMs / 1000);
    element.queuedSecond = second;
    const head = this.#heads.get(second);
    element.nextInSecond = head;
    this.#heads.set(second, element);
    if (head === undefined) this.#push(second);
  }

  /** Takes one of those that end soonest; undefined when there is none. */
  take(): T | undefined {
    return this.takeEndedBy(Number.POSITIVE_INFINITY);
  }

  /** The same, only when its second is over at `nowMs`. */
  takeEndedBy(nowMs: number): T | undefined {
    const second = this.#seconds[0];
    if (second === undefined || second * 1000 > nowMs) return undefined;
    const element = this.#heads.get(second) as T;
    const next = element.nextInSecond as T | undefined;
    element.nextInSecond = undefined;
    if (next !== undefined) {
      this.#heads.set(second, next);
    } else {
      this.#heads.delete(second);
      this.#pop();
    }
    return element;
  }

  #push(second: number): void {
    const heap = this.#seconds;
    let at = heap.length;
    heap.push(second);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent] as number;
      if (above <= second) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = second;
  }

  #pop(): void {
    const heap = this.#seconds;
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
