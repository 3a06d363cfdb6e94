/** Kept for one metric beside its name: map entries, the slots and their last flushed values. */
const bytesPerName = 320;
/** In characters. Longer names would be a burden to every receiver of statistics. */
const maxNameLength = 4096;

/**
 * Bounds the memory of metrics whose names come from requests. The Go service keeps every name for ever.
 * Counts two bytes a character, as if no name were Latin-1.
 */
export class NameBudget {
  #bytesLeft: number;

  constructor(maxBytes: number) {
    this.#bytesLeft = maxBytes;
  }

  /** False when the name is too long or no longer fits: it must then not be kept. */
  take(name: string): boolean {
    if (name.length > maxNameLength) return false;
    const cost = costOf(name);
    if (cost > this.#bytesLeft) return false;
    this.#bytesLeft -= cost;
    return true;
  }

  /** What `take` took for this name. */
  give(name: string): void {
    this.#bytesLeft += costOf(name);
  }
}

function costOf(name: string): number {
  return bytesPerName + 2 * name.length;
}
