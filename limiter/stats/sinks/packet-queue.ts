/** Lines gathered into datagrams of at most 1432 bytes, which pass every Ethernet whole. */

export const maxPacketBytes = 1432;
/** UTF-8 bytes of one UTF-16 unit, at most. */
const maxBytesPerUnit = 3;
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
    const fits = line.length * maxBytesPerUnit + 1 <= maxPacketBytes - this.#bytes;
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
