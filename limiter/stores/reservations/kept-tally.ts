/** How many reservations of one owner a store keeps, by when it forgets them. */

/** Changes of a tally: a number for each end, in seconds since the epoch. */
export type TallyChanges = ReadonlyMap<number, number>;

/** Ends are rounded up by an eighth of the time until then at most, so that a tally has few of them. */
export function roundedEnd(endMs: number, nowMs: number): number {
  const seconds = Math.max(1, Math.ceil((endMs - nowMs) / 1000));
  const step = 2 ** Math.max(0, Math.floor(Math.log2(seconds)) - 3);
  return Math.ceil(endMs / 1000 / step) * step;
}

export class KeptTally {
  #counts = new Map<number, number>();
  #total = 0;
  /** The earliest end; infinite where there is none. */
  #firstEnd = Number.POSITIVE_INFINITY;
  /** What others do not know yet. */
  #unshared = new Map<number, number>();
  /** When it was last shared, or asked for. */
  sharedMs = Number.NEGATIVE_INFINITY;

  totalAt(nowMs: number): number {
    this.#dropEnded(nowMs);
    return this.#total;
  }

  /** When the first of them are forgotten, in milliseconds since the epoch. */
  get firstEndMs(): number {
    return this.#firstEnd * 1000;
  }

  add(end: number, count = 1): void {
    this.#change(end, count);
    this.#noteUnshared(end, count);
  }

  /**
   * Takes out one that was forgotten early. Which one is not known: it counts as the first that ends, so that the total is
   * never too low, and too high until the end of that one at most.
   */
  removeOne(nowMs: number): void {
    if (this.totalAt(nowMs) === 0) return;
    const end = this.#firstEnd;
    this.#change(end, -1);
    this.#noteUnshared(end, -1);
  }

  takeUnshared(): TallyChanges {
    const taken = this.#unshared;
    this.#unshared = new Map();
    return taken;
  }

  /** Takes over what all limiters keep; what was not shared meanwhile counts besides. */
  learn(all: TallyChanges): void {
    this.#counts = new Map();
    this.#total = 0;
    this.#firstEnd = Number.POSITIVE_INFINITY;
    for (const [end, count] of all) this.#change(end, count);
    for (const [end, count] of this.#unshared) this.#change(end, count);
  }

  /** The sharing of these failed. */
  putBack(changes: TallyChanges): void {
    for (const [end, count] of changes) this.#noteUnshared(end, count);
  }

  #noteUnshared(end: number, count: number): void {
    this.#unshared.set(end, (this.#unshared.get(end) ?? 0) + count);
  }

  #change(end: number, count: number): void {
    const before = this.#counts.get(end) ?? 0;
    const after = Math.max(0, before + count);
    this.#total += after - before;
    if (after > 0) {
      this.#counts.set(end, after);
      this.#firstEnd = Math.min(this.#firstEnd, end);
    } else if (before > 0) {
      this.#counts.delete(end);
      if (end === this.#firstEnd) this.#findFirst();
    }
  }

  #dropEnded(nowMs: number): void {
    while (this.#firstEnd * 1000 <= nowMs) {
      this.#total -= this.#counts.get(this.#firstEnd)!;
      this.#counts.delete(this.#firstEnd);
      this.#unshared.delete(this.#firstEnd);
      this.#findFirst();
    }
  }

  #findFirst(): void {
    this.#firstEnd = Number.POSITIVE_INFINITY;
    for (const end of this.#counts.keys()) this.#firstEnd = Math.min(this.#firstEnd, end);
  }
}
