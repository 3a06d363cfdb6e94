/** Encodes header fields into header blocks. RFC 7541, section 6. */
import { byteAt, encodeHuffman, huffmanEncodedBytes } from './huffman.ts';
import { DynamicTable, initialTableBytes, staticIndexes, staticNames, staticValues } from './tables.ts';

/** How a field that is in no table is sent. RFC 7541, section 6.2. The values are the first bytes of the formats. */
export const Indexing = {
  /** Adds the field to the table: it takes one byte from the next time on. */
  INCREMENTAL: 0x40,
  NONE: 0x00,
  /** No intermediary may index the field, because its value must not be guessed. RFC 7541, section 7.1.3. */
  NEVER: 0x10,
} as const;
export type Indexing = (typeof Indexing)[keyof typeof Indexing];

const byName = new Map<string, Indexing>([
  // Response fields with few values, so that they do not evict each other from the table.
  [':status', Indexing.INCREMENTAL],
  ['content-type', Indexing.INCREMENTAL],
  ['grpc-status', Indexing.INCREMENTAL],
  ['grpc-encoding', Indexing.INCREMENTAL],
  ['grpc-accept-encoding', Indexing.INCREMENTAL],
  ['allow', Indexing.INCREMENTAL],
  ['server', Indexing.INCREMENTAL],
  ['authorization', Indexing.NEVER],
  ['cookie', Indexing.NEVER],
  ['set-cookie', Indexing.NEVER],
]);

/** Returns the indexing for a gRPC server's responses: fields that are the same in most responses are indexed, and others are not. */
function responseIndexing(name: string): Indexing {
  return byName.get(name) ?? Indexing.NONE;
}

/** A prefix of one byte and four more, twice a field and for two size updates: more than is ever needed. */
const integerBytes = 5;

/** Returns the number of bytes that `HpackEncoder.encode` may need for these fields. */
export function maxEncodedBytes(fields: readonly string[]): number {
  let bytes = 2 * integerBytes;
  for (let index = 0; index < fields.length; index++) bytes += fields[index]!.length + 2 * integerBytes;
  return bytes;
}

export interface HpackEncoderOptions {
  /** The most that the dynamic table may take, whatever the peer allows. */
  maxTableBytes: number;
  /** Returns the indexing by name, for fields in no table. Defaults to `responseIndexing`. */
  indexing?: (name: string) => Indexing;
  /** Whether strings that get no longer by it are Huffman-coded. True by default. */
  huffman?: boolean;
}

/**
 * Encodes header fields into header blocks (RFC 7541, section 6). Each connection has one encoder. Fields are sent in the given
 * order, with one character for each byte and names in lowercase.
 */
export class HpackEncoder {
  /** Counts changes that may give fields another encoding. While it stays the same, so do their bytes. Read-only for others. */
  changes = 0;
  readonly #maxTableBytes: number;
  readonly #indexing: (name: string) => Indexing;
  readonly #huffman: boolean;
  readonly #table = new DynamicTable();
  /** The size that the next block has to give the table, and the smallest one since the last block. */
  #tableBytes: number;
  #smallestTableBytes: number;
  /** Whether the next block must announce the size. */
  #isResized: boolean;

  constructor(options: HpackEncoderOptions) {
    this.#maxTableBytes = options.maxTableBytes;
    this.#indexing = options.indexing ?? responseIndexing;
    this.#huffman = options.huffman ?? true;
    this.#tableBytes = Math.min(options.maxTableBytes, initialTableBytes);
    this.#smallestTableBytes = this.#tableBytes;
    this.#isResized = this.#tableBytes !== initialTableBytes;
  }

  /** The size of the dynamic table, as RFC 7541, section 4.1, counts it. */
  get tableBytes(): number {
    return this.#table.bytes;
  }

  /** The peer's SETTINGS_HEADER_TABLE_SIZE. The next block says what became of it. */
  setPeerTableBytes(bytes: number): void {
    this.#tableBytes = Math.min(bytes, this.#maxTableBytes);
    this.#smallestTableBytes = Math.min(this.#smallestTableBytes, this.#tableBytes);
    this.#isResized = true;
    this.changes += 1;
  }

  /**
   * Writes one block of name, value, name, value at `offset`. Returns the offset behind it. `target` has room for
   * `maxEncodedBytes(fields)`.
   */
  encode(fields: readonly string[], target: Uint8Array, offset: number): number {
    let position = this.#isResized ? this.#sizeUpdates(target, offset) : offset;
    for (let at = 0; at < fields.length; at += 2) {
      const name = fields[at]!;
      const value = fields[at + 1]!;
      const nameIndex = staticIndexes.get(name) ?? 0;
      let index = nameIndex;
      if (index !== 0) {
        while (staticNames[index] === name && staticValues[index] !== value) index++;
        if (staticNames[index] !== name) index = 0;
      }
      if (index === 0) index = this.#table.find(name, value);
      position =
        index === 0
          ? this.#literal(name, value, nameIndex, target, position)
          : writeInteger(0x80, 0x7f, index, target, position);
    }
    return position;
  }

  /** Writes the smallest size since the last block, if entries were lost, and then the current size. RFC 7541, section 4.2. */
  #sizeUpdates(target: Uint8Array, offset: number): number {
    let position = offset;
    if (this.#smallestTableBytes < Math.min(this.#table.maxBytes, this.#tableBytes)) {
      position = this.#sizeUpdate(this.#smallestTableBytes, target, position);
    }
    if (this.#tableBytes !== this.#table.maxBytes) {
      position = this.#sizeUpdate(this.#tableBytes, target, position);
    }
    this.#smallestTableBytes = this.#tableBytes;
    this.#isResized = false;
    this.changes += 1;
    return position;
  }

  #sizeUpdate(bytes: number, target: Uint8Array, offset: number): number {
    this.#table.resize(bytes);
    return writeInteger(0x20, 0x1f, bytes, target, offset);
  }

  #literal(name: string, value: string, staticName: number, target: Uint8Array, offset: number): number {
    const indexing = this.#indexing(name);
    const nameIndex = staticName !== 0 ? staticName : this.#table.findName(name);
    let position = writeInteger(
      indexing,
      indexing === Indexing.INCREMENTAL ? 0x3f : 0x0f,
      nameIndex,
      target,
      offset,
    );
    if (nameIndex === 0) position = this.#string(name, target, position);
    position = this.#string(value, target, position);
    if (indexing === Indexing.INCREMENTAL) {
      this.#table.insert(name, value);
      this.changes += 1;
    }
    return position;
  }

  /** Writes a string. RFC 7541, section 5.2. */
  #string(text: string, target: Uint8Array, offset: number): number {
    const length = text.length;
    if (this.#huffman) {
      const huffmanBytes = huffmanEncodedBytes(text);
      if (huffmanBytes <= length) {
        return encodeHuffman(text, target, writeInteger(0x80, 0x7f, huffmanBytes, target, offset));
      }
    }
    let position = writeInteger(0x00, 0x7f, length, target, offset);
    for (let index = 0; index < length; index++) target[position++] = byteAt(text, index);
    return position;
  }
}

/** Writes an integer behind the bits of `first`, in a prefix with the bits of `mask`. RFC 7541, section 5.1. */
function writeInteger(
  first: number,
  mask: number,
  value: number,
  target: Uint8Array,
  offset: number,
): number {
  if (value < mask) {
    target[offset] = first | value;
    return offset + 1;
  }
  let position = offset;
  target[position++] = first | mask;
  let rest = value - mask;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) target[position++] = 0x80 | (rest & 0x7f);
  target[position++] = rest;
  return position;
}
