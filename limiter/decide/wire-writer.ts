/**
 * Writes the protobuf wire format from the last byte to the first: a length stands before what it measures, and
 * written backwards the measure is known by then. So fields are written in falling order.
 * https://protobuf.dev/programming-guides/encoding
 */

/** Chosen: room for some hundred answers, so that one allocation serves them all. */
const defaultChunkBytes = 32 * 1024;

/** One message at a time: `begin`, fields, `finish`. Not re-entrant. */
export class WireWriter {
  readonly #chunkBytes: number;
  #chunk: Buffer;
  /** Where the message under way ends; what lies behind was given away by `finish`. */
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

  /** The message. Its bytes are never written again. */
  finish(): Uint8Array {
    const message = this.#chunk.subarray(this.#position, this.#end);
    this.#end = this.#position;
    return message;
  }

  /** Grows with every byte written; the difference of two marks is the length of what is between them. */
  mark(): number {
    return this.#end - this.#position;
  }

  /** An unsigned number: up to 2^53 - 1. */
  varint(value: number): void {
    if (this.#position < 8) this.#makeRoom(8);
    if (value < 0x80) {
      this.#chunk[--this.#position] = value;
      return;
    }
    let size = 2;
    for (let bound = 0x4000; value >= bound; bound *= 0x80) size++;
    this.#position -= size;
    let position = this.#position;
    let rest = value;
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.#chunk[position++] = (rest % 0x80) | 0x80;
    this.#chunk[position] = rest;
  }

  /** A tag of one byte: fields up to 15. */
  tag(tag: number): void {
    if (this.#position === 0) this.#makeRoom(1);
    this.#chunk[--this.#position] = tag;
  }

  varintField(tag: number, value: number): void {
    this.varint(value);
    this.tag(tag);
  }

  stringField(tag: number, text: string): void {
    this.#string(text);
    this.tag(tag);
  }

  /** Ends (in reading order: begins) a message field whose content was written since `mark`. */
  messageField(tag: number, mark: number): void {
    this.varint(this.mark() - mark);
    this.tag(tag);
  }

  doubleField(tag: number, value: number): void {
    if (this.#position < 8) this.#makeRoom(8);
    this.#position -= 8;
    this.#chunk.writeDoubleLE(value, this.#position);
    this.tag(tag);
  }

  /** Lone surrogates become U+FFFD. */
  #string(text: string): void {
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
        this.varint(length);
        return;
      }
    }
    const byteLength = Buffer.byteLength(text, 'utf8');
    if (this.#position < byteLength) this.#makeRoom(byteLength);
    this.#position -= byteLength;
    this.#chunk.write(text, this.#position, byteLength, 'utf8');
    this.varint(byteLength);
  }

  /** A new chunk, to whose end what is written of the message moves. */
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
