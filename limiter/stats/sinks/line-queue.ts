/** Lines on their way to a receiver, gathered in chunks that end with a line, bounded in bytes. */

/** The buffer of the Go service's statsd client. */
const usualChunkBytes = 64 * 1024;
/** UTF-8 bytes of one UTF-16 unit, at most. */
const maxBytesPerUnit = 3;

export class LineQueue {
  readonly #maxBytes: number;
  readonly #full: Uint8Array[] = [];
  #open: Buffer | undefined;
  #openBytes = 0;
  #bytes = 0;

  readonly #chunkBytes: number;

  /** A line longer than a chunk has one of its own. */
  constructor(maxBytes: number, chunkBytes = usualChunkBytes) {
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

  /** In large chunks the exact length is not worth its cost. */
  #fitsOpen(line: string, most: number): boolean {
    const left = Math.min(this.#open?.length ?? 0, this.#chunkBytes) - this.#openBytes;
    return most <= left || (this.#chunkBytes < usualChunkBytes && Buffer.byteLength(line) <= left);
  }

  #closeChunk(): void {
    if (this.#open !== undefined && this.#openBytes > 0) {
      this.#full.push(this.#open.subarray(0, this.#openBytes));
    }
    this.#open = undefined;
    this.#openBytes = 0;
  }
}

/** Lines gathered into datagrams of at most 1432 bytes, which pass every Ethernet whole. */

export const maxPacketBytes = 1432;
/** UTF-8 bytes of one UTF-16 unit, at most. */
const packetBytesPerUnit = 3;
const newline = 0x0a;

export class PacketQueue {
  readonly #send: (packet: Uint8Array) => void;
  #open = Buffer.allocUnsafe(maxPacketBytes);
  #bytes = 0;
  #lines = 0;

  /** `send` gets each packet for itself. */
  constructor(send: (packet: Uint8Array) => void) {
    this.#send = send;
  }

  /** Lines are parted by newlines, so `line` has none. False for one that no packet can hold. */
  append(line: string): boolean {
    const fits = line.length * packetBytesPerUnit + 1 <= maxPacketBytes - this.#bytes;
    if (!fits) {
      const length = Buffer.byteLength(line);
      if (length > maxPacketBytes) return false;
      if (length + (this.#bytes > 0 ? 1 : 0) > maxPacketBytes - this.#bytes) this.flush();
    }
    if (this.#bytes > 0) this.#open[this.#bytes++] = newline;
    this.#bytes += this.#open.write(line, this.#bytes);
    this.#lines += 1;
    return true;
  }

  /** Sends what is there, if anything is. */
  flush(): void {
    if (this.#bytes === 0) return;
    const packet = this.#open.subarray(0, this.#bytes);
    this.#open = Buffer.allocUnsafe(maxPacketBytes);
    this.#bytes = 0;
    this.#lines = 0;
    this.#send(packet);
  }

  /** Forgets what is there; returns how many lines that were. */
  clear(): number {
    const lines = this.#lines;
    this.#bytes = 0;
    this.#lines = 0;
    return lines;
  }
}
