/** The number of reservations that a store retains for one owner, by the time at which it forgets them. */

import type { TallyChanges } from '../store.ts';

/** Rounds an end up, by at most an eighth of the time until then, so that a tally has few different ends. */
export function roundedEnd(endMs: number, nowMs: number): number {
  const seconds = Math.max(1, Math.ceil((endMs - nowMs) / 1000));
  const step = 1 << Math.max(0, 28 - Math.clz32(seconds));
  return Math.ceil(endMs / 1000 / step) * step;
}

/** The reservations that end at the same time. */
interface Ending {
  /** The number of reservations, never below 0. */
  count: number;
  /** The part of `count` that other limiters do not know yet; below 0 if they count too many. */
  unshared: number;
}

export class ReservationTally {
  readonly #isShared: boolean;
  readonly #endings = new Map<number, Ending>();
  #total = 0;
  /** The earliest end with a count, or infinity if there is none. */
  #firstEnd = Number.POSITIVE_INFINITY;
  /** The time at which the tally was last shared or requested. */
  sharedMs = Number.NEGATIVE_INFINITY;

  /** `isShared`: the caller calls `takeUnshared` from time to time. */
  constructor(isShared: boolean) {
    this.#isShared = isShared;
  }

  totalAt(nowMs: number): number {
    while (this.#firstEnd * 1000 <= nowMs) {
      this.#total -= this.#endings.get(this.#firstEnd)!.count;
      this.#endings.delete(this.#firstEnd);
      this.#findFirst();
    }
    return this.#total;
  }

  /** The time at which the first reservations are forgotten, in milliseconds since the epoch. */
  get firstEndMs(): number {
    return this.#firstEnd * 1000;
  }

  add(end: number, count: number): void {
    const ending = this.#endingAt(end);
    ending.count += count;
    if (this.#isShared) ending.unshared += count;
    this.#total += count;
    if (end < this.#firstEnd) this.#firstEnd = end;
  }

  /**
   * Removes a reservation that was forgotten early. It is unknown which one, so the count at the first end decreases by one. The total is
   * then never too low. It is too high at most until the end of the removed reservation.
   */
  removeOne(nowMs: number): void {
    if (this.totalAt(nowMs) === 0) return;
    const ending = this.#endings.get(this.#firstEnd)!;
    ending.count -= 1;
    if (this.#isShared) ending.unshared -= 1;
    this.#total -= 1;
    if (ending.count > 0) return;
    if (ending.unshared === 0) this.#endings.delete(this.#firstEnd);
    this.#findFirst();
  }

  takeUnshared(): TallyChanges {
    const taken = new Map<number, number>();
    for (const [end, ending] of this.#endings) {
      if (ending.unshared !== 0) taken.set(end, ending.unshared);
      ending.unshared = 0;
      if (ending.count === 0) this.#endings.delete(end);
    }
    return taken;
  }

  /** Adopts the tally of all limiters, and adds changes that were not shared meanwhile. */
  learn(all: TallyChanges): void {
    for (const ending of this.#endings.values()) ending.count = ending.unshared;
    for (const [end, count] of all) this.#endingAt(end).count += count;
    this.#total = 0;
    for (const [end, ending] of this.#endings) {
      ending.count = Math.max(0, ending.count);
      this.#total += ending.count;
      if (ending.count === 0 && ending.unshared === 0) this.#endings.delete(end);
    }
    this.#findFirst();
  }

  /** Takes changes back after sharing them has failed. */
  putBack(changes: TallyChanges): void {
    for (const [end, count] of changes) this.#endingAt(end).unshared += count;
  }

  #endingAt(end: number): Ending {
    const known = this.#endings.get(end);
    if (known !== undefined) return known;
    const ending = { count: 0, unshared: 0 };
    this.#endings.set(end, ending);
    return ending;
  }

  #findFirst(): void {
    this.#firstEnd = Number.POSITIVE_INFINITY;
    for (const [end, { count }] of this.#endings) if (count > 0 && end < this.#firstEnd) this.#firstEnd = end;
  }
}
