/**
 * Remembers the streams that closed last and how, as frames that come late mean different things (RFC 9113, section
 * 5.1): on a stream that the server reset they are on their way still and ignored, on one that ended well they are
 * faults. Bounded: older streams count as unknown.
 */
export const ClosedBy = { UNKNOWN: 0, END: 1, PEER_RESET: 2, SERVER_RESET: 3 } as const;
export type ClosedBy = (typeof ClosedBy)[keyof typeof ClosedBy];

/** Server resets are kept apart, so that busy connections do not forget them within a round trip. */
export class ClosedStreams {
  readonly #ended = new Ring();
  readonly #peerReset = new Ring();
  readonly #serverReset = new Ring();

  add(id: number, how: ClosedBy): void {
    if (how === ClosedBy.END) this.#ended.add(id);
    else if (how === ClosedBy.PEER_RESET) this.#peerReset.add(id);
    else this.#serverReset.add(id);
  }

  find(id: number): ClosedBy {
    if (this.#serverReset.has(id)) return ClosedBy.SERVER_RESET;
    if (this.#ended.has(id)) return ClosedBy.END;
    return this.#peerReset.has(id) ? ClosedBy.PEER_RESET : ClosedBy.UNKNOWN;
  }
}

const size = 64;
const empty = new Int32Array(0);

class Ring {
  #ids = empty;
  #next = 0;

  add(id: number): void {
    if (this.#ids.length === 0) this.#ids = new Int32Array(size);
    this.#ids[this.#next] = id;
    this.#next = (this.#next + 1) % size;
  }

  has(id: number): boolean {
    return this.#ids.includes(id);
  }
}
