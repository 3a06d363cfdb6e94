/** Decodes header blocks into header fields. RFC 7541, section 3.2 defines the order, and section 6 the formats. */
import { decodeHuffman } from './huffman.ts';
import {
  DynamicTable,
  entryOverheadBytes,
  HpackError,
  initialTableBytes,
  staticNames,
  staticTableLength,
  staticValues,
} from './tables.ts';

const latin1Slice = Buffer.prototype.latin1Slice;
const noBytes = new Uint8Array(0);

/** A decoder. Each connection has one, because the blocks of a connection depend on each other. */
export class HpackDecoder {
  readonly #announcedTableBytes: number;
  readonly #maxListBytes: number;
  readonly #table = new DynamicTable();
  /** The largest size that the peer may give the table now. */
  #maxTableBytes: number;
  #block: Uint8Array = noBytes;
  #position = 0;
  #end = 0;
  /** Increases with each change that may give a block another meaning. Read-only. */
  changes = 0;

  /**
   * `maxTableBytes` is what SETTINGS_HEADER_TABLE_SIZE announced, `maxListBytes` bounds the fields of one block,
   * counted as in RFC 9113, section 6.5.2.
   */
  constructor(options: { maxTableBytes: number; maxListBytes: number }) {
    this.#announcedTableBytes = options.maxTableBytes;
    this.#maxTableBytes = Math.max(options.maxTableBytes, initialTableBytes);
    this.#maxListBytes = options.maxListBytes;
  }

  /** The size of the dynamic table, as RFC 7541, section 4.1, counts it. */
  get tableBytes(): number {
    return this.#table.bytes;
  }

  /**
   * Applies the announced size after the peer acknowledged our SETTINGS: from now on, a larger table is an error. This matters
   * only if less than the initial 4096 was announced, because the peer may have used 4096 until then.
   */
  settingsAcknowledged(): void {
    this.#maxTableBytes = this.#announcedTableBytes;
    this.changes += 1;
  }

  /**
   * Decodes the complete block in `block` from `start` to `end`. Appends name, value, name, value to `into`, one character for
   * each byte. Returns false if the fields are larger than `maxListBytes`: the table is correct, but `into` is incomplete.
   * @throws HpackError after which the decoder cannot be used
   */
  decode(block: Uint8Array, start: number, end: number, into: string[]): boolean {
    const table = this.#table;
    this.#block = block;
    this.#position = start;
    this.#end = end;
    if (table.maxBytes > this.#maxTableBytes || (start < end && (block[start]! & 0xe0) === 0x20)) {
      this.#sizeUpdates();
    }
    let roomBytes = this.#maxListBytes;
    while (this.#position < this.#end) {
      const byte = block[this.#position++]!;
      let name: string;
      let value: string;
      if (byte >= 0x80) {
        const index = this.#integer(byte, 0x7f);
        if (index === 0) throw new HpackError('the index of a field is 0');
        if (index <= staticTableLength) {
          name = staticNames[index]!;
          value = staticValues[index]!;
        } else {
          const slot = table.slotOf(index);
          name = table.names[slot]!;
          value = table.values[slot]!;
        }
      } else {
        // Without indexing (0x00) or never indexed (0x10). The difference matters only to programs that pass fields on, which
        // this one does not.
        const isIndexed = byte >= 0x40;
        if (!isIndexed && byte >= 0x20) throw new HpackError('a table size update stands behind a field');
        const index = this.#integer(byte, isIndexed ? 0x3f : 0x0f);
        if (index === 0) name = this.#string();
        else name = index <= staticTableLength ? staticNames[index]! : table.names[table.slotOf(index)]!;
        value = this.#string();
        if (isIndexed) {
          table.insert(name, value);
          this.changes += 1;
        }
      }
      roomBytes -= name.length + value.length + entryOverheadBytes;
      if (roomBytes >= 0) into.push(name, value);
    }
    this.#block = noBytes;
    return roomBytes >= 0;
  }

  /** Reads at most two updates before the first field. RFC 7541, sections 4.2 and 6.3. */
  #sizeUpdates(): void {
    this.changes += 1;
    for (let count = 0; this.#position < this.#end; count++) {
      const byte = this.#block[this.#position]!;
      if ((byte & 0xe0) !== 0x20) break;
      if (count === 2) throw new HpackError('the block begins with more than two table size updates');
      this.#position++;
      const bytes = this.#integer(byte, 0x1f);
      if (bytes > this.#maxTableBytes) {
        throw new HpackError(`the table size ${bytes} is above the announced ${this.#maxTableBytes}`);
      }
      this.#table.resize(bytes);
    }
    if (this.#table.maxBytes > this.#maxTableBytes) {
      throw new HpackError(
        `the block lacks a table size update from ${this.#table.maxBytes} to at most ${this.#maxTableBytes}`,
      );
    }
  }

  /** Reads an integer (RFC 7541, section 5.1) of at most 2^28 + 126. `first`, already read, holds the prefix, in the bits of `mask`. */
  #integer(first: number, mask: number): number {
    const prefix = first & mask;
    if (prefix < mask) return prefix;
    let value = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      if (this.#position >= this.#end) throw this.#endOfBlock();
      const byte = this.#block[this.#position++]!;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value + mask;
    }
    throw new HpackError('an integer takes more than five bytes');
  }

  /** Reads a string. RFC 7541, section 5.2. */
  #string(): string {
    if (this.#position >= this.#end) throw this.#endOfBlock();
    const first = this.#block[this.#position++]!;
    const length = this.#integer(first, 0x7f);
    const start = this.#position;
    const end = start + length;
    if (end > this.#end) throw this.#endOfBlock();
    this.#position = end;
    return first >= 0x80 ? decodeHuffman(this.#block, start, end) : latin1Slice.call(this.#block, start, end);
  }

  #endOfBlock(): HpackError {
    return new HpackError('the block ends inside a field');
  }
}
