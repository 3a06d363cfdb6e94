/** Memory that domains and callers share in such a way that none of them can use all of it. */
import type { ReservationOwner } from '../operation.ts';

/** Chosen: the share that a domain or a caller may use of the memory that the others leave, so that some memory is always free. */
const maxOfRest = 0.75;

export class ByteShares {
  readonly #maxBytes: number;
  readonly #domains = new Map<string, number>();
  readonly #callers = new Map<string, number>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** If `owner` is undefined, only the bound on the sum applies. */
  hasRoom(owner: ReservationOwner | undefined, bytes: number): boolean {
    if (this.#bytes + bytes > this.#maxBytes) return false;
    if (owner === undefined) return true;
    if (!this.#fits(this.#domains.get(owner.domain), bytes)) return false;
    return owner.caller === undefined || this.#fits(this.#callers.get(owner.caller), bytes);
  }

  /** Negative `bytes` are released. */
  occupy(owner: ReservationOwner | undefined, bytes: number): void {
    this.#bytes += bytes;
    if (owner === undefined) return;
    occupyFor(this.#domains, owner.domain, bytes);
    if (owner.caller !== undefined) occupyFor(this.#callers, owner.caller, bytes);
  }

  #fits(own = 0, bytes: number): boolean {
    const others = this.#bytes - own;
    return own + bytes <= maxOfRest * (this.#maxBytes - others);
  }
}

function occupyFor(shares: Map<string, number>, name: string, bytes: number): void {
  const after = (shares.get(name) ?? 0) + bytes;
  if (after > 0) shares.set(name, after);
  else shares.delete(name);
}
