/** Who has the streams of a replica, by address: at the limit an address that has many makes room for one that has few. */
export interface PlaceTaker {
  /** See `addressGroup`. */
  readonly group: string;
}

export class StreamPlaces<Taker extends PlaceTaker> {
  /** The newest is the last. */
  readonly #byGroup = new Map<string, Set<Taker>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(taker: Taker): void {
    const group = this.#byGroup.get(taker.group) ?? new Set();
    this.#byGroup.set(taker.group, group.add(taker));
    this.#size += 1;
  }

  delete(taker: Taker): void {
    const group = this.#byGroup.get(taker.group);
    if (group?.delete(taker) !== true) return;
    this.#size -= 1;
    if (group.size === 0) this.#byGroup.delete(taker.group);
  }

  /**
   * The newest stream of the address that has most of them. Undefined where the newcomer's own address would then have as
   * many: it is refused instead.
   */
  roomFor(group: string): Taker | undefined {
    let largest: ReadonlySet<Taker> = new Set();
    for (const takers of this.#byGroup.values()) if (takers.size > largest.size) largest = takers;
    const own = this.#byGroup.get(group)?.size ?? 0;
    return own + 1 < largest.size ? [...largest].at(-1) : undefined;
  }
}
