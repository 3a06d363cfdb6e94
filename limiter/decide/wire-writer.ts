/**
 * Writes the protobuf wire format from the last byte to the first. A length precedes its content, so a backward writer knows it in time.
 * Fields are therefore written in descending order. https://protobuf.dev/programming-guides/encoding
 */

/** Room for several hundred answers, so that they share one allocation. */
const defaultChunkBytes = 32 * 1024;

/** Writes one message at a time: `begin`, fields, `finish`. It is not re-entrant. */
export class WireWriter {
  readonly #chunkBytes: number;
  #chunk: Buffer;
  /** The end of the current message. The bytes after it belong to earlier messages. */
  #end: number;
  #position: number;

  constructor(chunkBytes: number = defaultChunkBytes) {
    this.#chunkBytes = chunkBytes;
    this.#chunk = Buffer.allocUnsafeSlow(chunkBytes);
    this.#end = chunkBytes;
    this.#position = chunkBytes;
  }

  begin(): void {
    this.#position = this.#end;
  }

  /** Returns the message. The writer never changes its bytes again. */
  finish(): Uint8Array {
    const message = this.#chunk.subarray(this.#position, this.#end);
    this.#end = this.#position;
    return message;
  }

  /** Returns a mark, which grows with every byte written. The difference of two marks is the length of the bytes between them. */
  mark(): number {
    return this.#end - this.#position;
  }

  /** Writes a varint. `tag` has one byte: fields up to 15. `value`: an unsigned number up to 2^53 - 1. */
  varintField(tag: number, value: number): void {
    if (this.#position < 9) this.#makeRoom(9);
    if (value < 0x80) {
      this.#chunk[--this.#position] = value;
    } else {
      let size = 2;
      for (let bound = 0x4000; value >= bound; bound *= 0x80) size++;
      this.#position -= size;
      let position = this.#position;
      let rest = value;
      for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.#chunk[position++] = (rest % 0x80) | 0x80;
      this.#chunk[position] = rest;
    }
    this.#chunk[--this.#position] = tag;
  }

  /** Writes a string. Lone surrogates become U+FFFD. */
  stringField(tag: number, text: string): void {
    const length = text.length;
    if (this.#position < length) this.#makeRoom(length);
    if (length <= 48) {
      let position = this.#position;
      let index = length - 1;
      for (; index >= 0; index--) {
        const code = text.charCodeAt(index);
        if (code > 0x7f) break;
        this.#chunk[--position] = code;
      }
      if (index < 0) {
        this.#position = position;
        this.varintField(tag, length);
        return;
      }
    }
    const byteLength = Buffer.byteLength(text, 'utf8');
    if (this.#position < byteLength) this.#makeRoom(byteLength);
    this.#position -= byteLength;
    this.#chunk.write(text, this.#position, byteLength, 'utf8');
    this.varintField(tag, byteLength);
  }

  /** Ends (in reading order: begins) a message field whose content was written since `mark`. */
  messageField(tag: number, mark: number): void {
    this.varintField(tag, this.mark() - mark);
  }

  /** Writes the digits of a whole number, up to 2^53 - 1. */
  decimal(value: number): void {
    if (this.#position < 16) this.#makeRoom(16);
    let position = this.#position;
    let rest = value;
    for (; rest > 0x7fffffff; rest = Math.floor(rest / 10)) this.#chunk[--position] = 0x30 + (rest % 10);
    do {
      const tenth = (rest / 10) | 0;
      this.#chunk[--position] = 0x30 + rest - tenth * 10;
      rest = tenth;
    } while (rest !== 0);
    this.#position = position;
  }

  /** Writes bytes unchanged. */
  bytes(bytes: Uint8Array): void {
    const { length } = bytes;
    if (this.#position < length) this.#makeRoom(length);
    this.#position -= length;
    if (length > 24) {
      this.#chunk.set(bytes, this.#position);
      return;
    }
    const position = this.#position;
    for (let index = 0; index < length; index++) this.#chunk[position + index] = bytes[index]!;
  }

  /** Writes text without a length, one byte for each character. */
  latin1(text: string): void {
    const { length } = text;
    if (this.#position < length) this.#makeRoom(length);
    this.#position -= length;
    const position = this.#position;
    for (let index = 0; index < length; index++) this.#chunk[position + index] = text.charCodeAt(index);
  }

  /** Writes the bytes, and replaces their last eight by this number. */
  endingInDouble(bytes: Uint8Array, value: number): void {
    this.bytes(bytes);
    this.#chunk.writeDoubleLE(value, this.#position + bytes.length - 8);
  }

  doubleField(tag: number, value: number): void {
    if (this.#position < 9) this.#makeRoom(9);
    this.#position -= 8;
    this.#chunk.writeDoubleLE(value, this.#position);
    this.#chunk[--this.#position] = tag;
  }

  /** Allocates a new chunk, and moves the written part of the message to its end. */
  #makeRoom(needed: number): void {
    const written = this.#end - this.#position;
    const size = Math.max(this.#chunkBytes, 2 * (written + needed));
    const chunk = Buffer.allocUnsafeSlow(size);
    this.#chunk.copy(chunk, size - written, this.#position, this.#end);
    this.#chunk = chunk;
    this.#end = size;
    this.#position = size - written;
  }
}
