/** Lines on their way to a receiver, gathered in chunks that end with a line, bounded in bytes. */

/** What fits into a frame of Ethernet beside the headers; the Go service's statsd client takes as much. */
export const datagramBytes = 1432;
/** The buffer of the Go service's statsd client. */
const defaultChunkBytes = 64 * 1024;
/** UTF-8 bytes of one UTF-16 unit, at most. */
const maxBytesPerUnit = 3;
const newline = 0x0a;

export class LineQueue {
  readonly #maxBytes: number;
  readonly #chunkBytes: number;
  readonly #full: Uint8Array[] = [];
  #open: Buffer | undefined;
  #openBytes = 0;
  #bytes = 0;

  /** A line longer than a chunk has one of its own. */
  constructor(maxBytes: number, chunkBytes = defaultChunkBytes) {
    this.#maxBytes = maxBytes;
    this.#chunkBytes = chunkBytes;
  }

  /** Bytes waiting. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Whether a whole chunk waits. */
  get hasFullChunk(): boolean {
    return this.#full.length > 0;
  }

  /** `line` ends in a newline. False, and nothing is kept, when it does not fit. */
  append(line: string): boolean {
    const most = line.length * maxBytesPerUnit;
    if (this.#bytes + most > this.#maxBytes && this.#bytes + Buffer.byteLength(line) > this.#maxBytes) {
      return false;
    }
    if (this.#open === undefined || !this.#fitsOpen(line, most)) {
      this.#closeChunk();
      this.#open = Buffer.allocUnsafe(Math.max(this.#chunkBytes, most));
    }
    const written = this.#open.write(line, this.#openBytes);
    this.#openBytes += written;
    this.#bytes += written;
    return true;
  }

  /** Takes the oldest chunk out, a partly filled one too. */
  shift(): Uint8Array | undefined {
    if (this.#full.length === 0) this.#closeChunk();
    const chunk = this.#full.shift();
    if (chunk !== undefined) this.#bytes -= chunk.length;
    return chunk;
  }

  /** Forgets what waits; returns how many lines that were. */
  clear(): number {
    let lines = 0;
    for (let chunk = this.shift(); chunk !== undefined; chunk = this.shift()) {
      for (const byte of chunk) if (byte === newline) lines += 1;
    }
    return lines;
  }

  /** In large chunks the exact length is not worth its cost. */
  #fitsOpen(line: string, most: number): boolean {
    const left = Math.min(this.#open?.length ?? 0, this.#chunkBytes) - this.#openBytes;
    return most <= left || (this.#chunkBytes < defaultChunkBytes && Buffer.byteLength(line) <= left);
  }

  #closeChunk(): void {
    if (this.#open !== undefined && this.#openBytes > 0) {
      this.#full.push(this.#open.subarray(0, this.#openBytes));
    }
    this.#open = undefined;
    this.#openBytes = 0;
  }
}

/** Lines gathered into datagrams, parted by newlines: the last one of a datagram has none behind it. */
export class DatagramLines {
  readonly #queue = new LineQueue(Number.POSITIVE_INFINITY, datagramBytes + 1);
  readonly #send: (datagram: Uint8Array) => void;

  /** `send` gets each datagram for itself, as soon as it is full. */
  constructor(send: (datagram: Uint8Array) => void) {
    this.#send = send;
  }

  /** False for a line that no datagram can hold. */
  append(line: string): boolean {
    if (Buffer.byteLength(line) > datagramBytes) return false;
    this.#queue.append(`${line}\n`);
    if (this.#queue.hasFullChunk) this.flush();
    return true;
  }

  /** Sends the oldest of what is there, if anything is. */
  flush(): void {
    const chunk = this.#queue.shift();
    if (chunk !== undefined) this.#send(chunk.subarray(0, -1));
  }

  /** Forgets what is there; returns how many lines that were. */
  clear(): number {
    return this.#queue.clear();
  }
}
