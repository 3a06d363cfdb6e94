/**
 * Gathers what a connection writes until it is handed over in one piece. Bytes that were handed over are never
 * changed: what follows goes behind them in the same slab, or into a new one.
 */
const firstSlabBytes = 4096;
const largestSlabBytes = 65_536;
const none = Buffer.alloc(0);

export class OutputBuffer {
  /** Where to write: from `end`, after `reserve`. */
  bytes: Buffer = none;
  /** Behind what is gathered; the writer moves it. */
  end = 0;
  #start = 0;
  #slabBytes = firstSlabBytes;
  #idle = true;

  get length(): number {
    return this.end - this.#start;
  }

  /** Makes room for so many bytes at `end`, which it returns. */
  reserve(length: number): number {
    if (this.end + length > this.bytes.length) this.#renew(length);
    return this.end;
  }

  /** Hands over what was gathered, so many bytes of it at most; undefined when there is nothing. */
  take(mostBytes = Number.POSITIVE_INFINITY): Uint8Array | undefined {
    if (this.end === this.#start) return undefined;
    const end = Math.min(this.end, this.#start + mostBytes);
    const taken = this.bytes.subarray(this.#start, end);
    this.#start = end;
    this.#idle = false;
    return taken;
  }

  /** Called now and then: a connection that wrote nothing since the last time keeps no slab. */
  rest(): void {
    if (this.#idle && this.length === 0) {
      this.bytes = none;
      this.#start = 0;
      this.end = 0;
      this.#slabBytes = firstSlabBytes;
    }
    this.#idle = true;
  }

  #renew(length: number): void {
    const gathered = this.length;
    const slab = Buffer.allocUnsafeSlow(Math.max(this.#slabBytes, 2 * (gathered + length)));
    slab.set(this.bytes.subarray(this.#start, this.end));
    this.bytes = slab;
    this.#start = 0;
    this.end = gathered;
    this.#slabBytes = Math.min(2 * this.#slabBytes, largestSlabBytes);
  }
}
