/**
 * Elements in the order of their ends, to the second or another tick: a list for each tick in which any element ends, and a heap of those
 * ticks.
 */
import { Heap } from '../../../process/queues/heap.ts';

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
  readonly #ticks = new Heap(isEarlier);
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
    if (head === undefined) this.#ticks.add(tick);
  }

  /** Takes one of the elements that end soonest, or undefined if the queue is empty. */
  take(): T | undefined {
    return this.takeEndedBy(Number.POSITIVE_INFINITY);
  }

  /** Does the same, but only if the element's tick is over at `nowMs`. */
  takeEndedBy(nowMs: number): T | undefined {
    const tick = this.#ticks.first;
    if (tick === undefined || tick * this.#tickMs > nowMs) return undefined;
    const element = this.#heads.get(tick) as T;
    const next = element.nextInTick as T | undefined;
    element.nextInTick = undefined;
    if (next !== undefined) {
      this.#heads.set(tick, next);
    } else {
      this.#heads.delete(tick);
      this.#ticks.remove();
    }
    return element;
  }
}

function isEarlier(one: number, other: number): boolean {
  return one < other;
}
