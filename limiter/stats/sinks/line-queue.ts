/** Lines for a receiver, gathered in chunks that end with a line, and bounded in bytes. */

/** The payload of an Ethernet frame. The Go service's statsd client uses the same size. */
export const datagramBytes = 1432;
/** The buffer size of the Go service's statsd client. */
const defaultChunkBytes = 64 * 1024;
/** The maximum number of UTF-8 bytes of a UTF-16 unit. */
const maxBytesPerUnit = 3;
const newline = 0x0a;

export class LineQueue {
  readonly #maxBytes: number;
  readonly #chunkBytes: number;
  readonly #full: Uint8Array[] = [];
  #open: Buffer | undefined;
  #openBytes = 0;
  #bytes = 0;

  /** A line that is longer than a chunk becomes a separate chunk. */
  constructor(maxBytes: number, chunkBytes = defaultChunkBytes) {
    this.#maxBytes = maxBytes;
    this.#chunkBytes = chunkBytes;
  }

  /** The number of waiting bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Whether a whole chunk waits. */
  get hasFullChunk(): boolean {
    return this.#full.length > 0;
  }

  /** `line` ends in a newline. Returns false, and stores nothing, if it does not fit. */
  append(line: string): boolean {
    const max = line.length * maxBytesPerUnit;
    if (this.#bytes + max > this.#maxBytes && this.#bytes + Buffer.byteLength(line) > this.#maxBytes) {
      return false;
    }
    if (this.#open === undefined || !this.#fitsOpen(line, max)) {
      this.#closeChunk();
      this.#open = Buffer.allocUnsafe(Math.max(this.#chunkBytes, max));
    }
    const written = this.#open.write(line, this.#openBytes);
    this.#openBytes += written;
    this.#bytes += written;
    return true;
  }

  /** Removes and returns the oldest chunk, even if it is not full. */
  shift(): Uint8Array | undefined {
    if (this.#full.length === 0) this.#closeChunk();
    const chunk = this.#full.shift();
    if (chunk !== undefined) this.#bytes -= chunk.length;
    return chunk;
  }

  /** Drops all waiting lines and returns their number. */
  clear(): number {
    let lines = 0;
    for (let chunk = this.shift(); chunk !== undefined; chunk = this.shift()) {
      for (const byte of chunk) if (byte === newline) lines += 1;
    }
    return lines;
  }

  /** Whether the line fits. For large chunks the exact length is not worth its cost. */
  #fitsOpen(line: string, max: number): boolean {
    const left = Math.min(this.#open?.length ?? 0, this.#chunkBytes) - this.#openBytes;
    return max <= left || (this.#chunkBytes < defaultChunkBytes && Buffer.byteLength(line) <= left);
  }

  #closeChunk(): void {
    if (this.#open !== undefined && this.#openBytes > 0) {
      this.#full.push(this.#open.subarray(0, this.#openBytes));
    }
    this.#open = undefined;
    this.#openBytes = 0;
  }
}

/** Gathers lines into datagrams. Newlines separate them, so the last line of a datagram has none. */
export class DatagramLines {
  readonly #queue = new LineQueue(Number.POSITIVE_INFINITY, datagramBytes + 1);
  readonly #send: (datagram: Uint8Array) => void;

  /** `send` gets each datagram as soon as it is full. */
  constructor(send: (datagram: Uint8Array) => void) {
    this.#send = send;
  }

  /** Returns false for a line that is longer than a datagram. */
  append(line: string): boolean {
    if (Buffer.byteLength(line) > datagramBytes) return false;
    this.#queue.append(`${line}\n`);
    if (this.#queue.hasFullChunk) this.flush();
    return true;
  }

  /** Sends the gathered lines, if there are any. */
  flush(): void {
    const chunk = this.#queue.shift();
    if (chunk !== undefined) this.#send(chunk.subarray(0, -1));
  }

  /** Drops the gathered lines and returns their number. */
  clear(): number {
    return this.#queue.clear();
  }
}
