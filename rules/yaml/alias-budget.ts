/** Documents up to this many nodes may come almost wholly from aliases. */
const smallDocument = 400_000;
/** From this many on, a tenth. */
const largeDocument = 4_000_000;
const smallShare = 0.99;
const largeShare = 0.1;

/**
 * Refuses documents that aliases blow up ("billion laughs"), by the bounds of the Go service's YAML library, so that
 * what loads there loads here: the share of nodes read through aliases may be 99 % of a small document, falling to
 * 10 % of a large one, which ends every expansion below 450,000 nodes.
 */
export class AliasBudget {
  #read = 0;
  #readThroughAliases = 0;
  #depth = 0;

  enter(): void {
    this.#depth++;
  }

  leave(): void {
    this.#depth--;
  }

  /** Counts one node; false when it is one too many. */
  count(): boolean {
    this.#read++;
    if (this.#depth === 0) return true;
    this.#readThroughAliases++;
    if (this.#readThroughAliases <= 100 || this.#read <= 1000) return true;
    return this.#readThroughAliases <= this.#read * allowedShare(this.#read);
  }
}

function allowedShare(read: number): number {
  const largeness = Math.min(1, Math.max(0, (read - smallDocument) / (largeDocument - smallDocument)));
  return smallShare - (smallShare - largeShare) * largeness;
}
