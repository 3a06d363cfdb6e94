/** The memory for names of statistics that come from requests. */

/** The memory for a metric in addition to its name: map entries, the slots and their last flushed values. */
const bytesPerName = 320;
/** A number of characters. Longer names would burden every receiver of statistics. */
export const maxNameLength = 4096;

/**
 * Bounds the memory of metrics whose names come from requests. The Go service stores every name forever. Counts two bytes per character,
 * as if no name were Latin-1.
 */
export class NameBudget {
  #bytesLeft: number;

  constructor(maxBytes: number) {
    this.#bytesLeft = maxBytes;
  }

  /** Returns false if the name is too long or no longer fits. It must not be stored then. */
  take(name: string): boolean {
    if (name.length > maxNameLength) return false;
    const cost = costOf(name);
    if (cost > this.#bytesLeft) return false;
    this.#bytesLeft -= cost;
    return true;
  }

  /** Returns the memory that `take` took for this name. */
  give(name: string): void {
    this.#bytesLeft += costOf(name);
  }
}

function costOf(name: string): number {
  return bytesPerName + 2 * name.length;
}
