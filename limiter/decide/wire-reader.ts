import type { Entry } from '../../rules/model.ts';

const latin1Slice = Buffer.prototype.latin1Slice;

/** The number of slots: about 1 MB when full, with room for the addresses of many clients in addition to the keys. */
const slotCount = 16_384;

/**
 * Earlier strings, found by their bytes. The same domains and keys come with every request, and creating a string costs several times as
 * much as finding one. Each slot has one candidate, and the newest wins. So the table cannot fill up, and an attack on it is pointless.
 */
const shortStrings: string[] = new Array(slotCount).fill('');
/** The longest stored string, in bytes. Beyond it, comparing costs as much as creating a string. */
const longestShort = 36;

/** Bytes that are not a message of the expected type. */
export class DecodeError extends Error {
  override readonly name = 'DecodeError';
}

const WIRE_VARINT = 0;
const WIRE_64_BIT = 1;
const WIRE_LENGTH_DELIMITED = 2;
const WIRE_START_GROUP = 3;
const WIRE_END_GROUP = 4;
const WIRE_32_BIT = 5;

/** The nesting limit of messages and groups. */
const recursionLimit = 100;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const lenientUtf8 = new TextDecoder('utf-8', { ignoreBOM: true });
const noBytes = new Uint8Array(0);

/**
 * Reads the protobuf wire format from one array of bytes.
 * https://protobuf.dev/programming-guides/encoding
 *
 * It accepts the same bytes as `@bufbuild/protobuf`, so that both codecs also agree on damaged bytes: the wire type of a known field is
 * not checked, and a message's length ends its loop without bounding its fields. It reads forward from `reset`. Every method throws a
 * `DecodeError` at the end of the bytes. It is not re-entrant.
 */
export class WireReader {
  #bytes: Uint8Array = noBytes;
  #length = 0;
  position = 0;
  /** The wire type of the last tag. */
  wireType = 0;
  /** The number of values read since `reset` that were not UTF-8. */
  invalidUtf8Values = 0;

  /** Starts to read these bytes. Without bytes, it releases the last ones. */
  reset(bytes: Uint8Array = noBytes): void {
    this.#bytes = bytes;
    this.#length = bytes.length;
    this.position = 0;
    this.invalidUtf8Values = 0;
  }

  /** The start of the last field that `endOfFirstFields` found. */
  lastFieldStart = 0;

  /** Returns the field number of the next record. Its wire type is in `wireType`. */
  fieldNumber(): number {
    const first = this.#bytes[this.position];
    if (first === undefined) throw this.#endOfBytes();
    const start = this.position;
    let tag = first;
    if (first < 0x80) {
      this.position++;
    } else {
      tag = this.uint32();
      const size = this.position - start;
      if (size > 5 || (size === 5 && this.#bytes[this.position - 1]! > 0x0f)) {
        throw new DecodeError(`the tag at byte ${start} does not fit in 32 bits`);
      }
    }
    const fieldNumber = tag >>> 3;
    this.wireType = tag & 7;
    if (fieldNumber === 0 || this.wireType > WIRE_32_BIT) {
      throw new DecodeError(
        `the tag at byte ${start} has field number ${fieldNumber} and wire type ${this.wireType}`,
      );
    }
    return fieldNumber;
  }

  /** Returns the low 32 bits of a varint. */
  uint32(): number {
    const bytes = this.#bytes;
    let position = this.position;
    let byte = bytes[position++]!;
    let value = byte & 0x7f;
    if ((byte & 0x80) !== 0) {
      byte = bytes[position++]!;
      value |= (byte & 0x7f) << 7;
      if ((byte & 0x80) !== 0) {
        byte = bytes[position++]!;
        value |= (byte & 0x7f) << 14;
        if ((byte & 0x80) !== 0) {
          byte = bytes[position++]!;
          value |= (byte & 0x7f) << 21;
          if ((byte & 0x80) !== 0) {
            byte = bytes[position++]!;
            value |= (byte & 0x0f) << 28;
            for (let size = 5; (byte & 0x80) !== 0; size++) {
              if (size === 10)
                throw new DecodeError(`the varint at byte ${this.position} is longer than 10 bytes`);
              byte = bytes[position++]!;
            }
          }
        }
      }
    }
    if (position > this.#length) throw this.#endOfBytes();
    this.position = position;
    return value >>> 0;
  }

  /** Returns an enum's number. Any number is one, because enums are open. */
  int32(): number {
    return this.uint32() | 0;
  }

  /** Returns a 64-bit unsigned varint. It saturates at 2^53 - 1, and is Infinity above 2^63 - 1. */
  uint64(): number {
    const value = this.roundedUint64();
    return value === Number.POSITIVE_INFINITY ? value : Math.min(value, Number.MAX_SAFE_INTEGER);
  }

  /** Returns a 64-bit unsigned varint, rounded above 2^53 - 1. */
  roundedUint64(): number {
    const bytes = this.#bytes;
    const start = this.position;
    let position = start;
    let low = 0;
    let high = 0;
    for (let size = 0; ; size++) {
      if (size === 10) throw new DecodeError(`the varint at byte ${start} is longer than 10 bytes`);
      const byte = bytes[position++]!;
      const bits = byte & 0x7f;
      if (size < 4) low |= bits << (7 * size);
      else if (size === 4) {
        low |= bits << 28;
        high = bits >> 4;
      } else high |= bits << (7 * size - 32);
      if ((byte & 0x80) === 0) break;
    }
    if (position > this.#length) throw this.#endOfBytes();
    this.position = position;
    if (high < 0) return Number.POSITIVE_INFINITY;
    return high * 0x1_0000_0000 + (low >>> 0);
  }

  bool(): boolean {
    return this.uint64() !== 0;
  }

  /** Returns the end of the message whose length is read next. It may be beyond the bytes. */
  messageEnd(): number {
    const length = this.uint32();
    return this.position + length;
  }

  /** Returns a string; rejects bytes that are not UTF-8. */
  string(): string {
    const length = this.passText();
    const end = this.position;
    const start = end - length;
    return this.#plainText(start, end) ?? this.#utf8(start, end);
  }

  /** Returns a string in which U+FFFD replaces bytes that are not UTF-8. */
  repairedString(): string {
    const length = this.passText();
    const end = this.position;
    const start = end - length;
    return this.#plainText(start, end) ?? this.#repaired(start, end);
  }

  /** Does the same for a string that does not come again. It replaces no earlier string. */
  newString(): string {
    const length = this.passText();
    const end = this.position;
    const start = end - length;
    if (this.#isAscii(start, end)) return latin1Slice.call(this.#bytes, start, end);
    return this.#repaired(start, end);
  }

  /** Skips a string and returns its number of bytes. */
  passText(): number {
    const length = this.uint32();
    const end = this.position + length;
    if (end > this.#length) throw this.#endOfBytes();
    this.position = end;
    return length;
  }

  /**
   * Returns the end of the consecutive records of field 1 from the current position on, before `end`. It reads nothing. The last record
   * begins at `lastFieldStart`.
   */
  endOfFirstFields(end: number): number {
    const bytes = this.#bytes;
    const lastEnd = Math.min(end, this.#length);
    let position = this.position;
    this.lastFieldStart = position;
    while (position + 1 < lastEnd && bytes[position] === 0x0a) {
      const length = bytes[position + 1]!;
      const next = position + 2 + length;
      if (length > 0x7f || next > end) break;
      this.lastFieldStart = position;
      position = next;
    }
    return position;
  }

  /** Skips the record whose tag was just read. `depth`: the number of messages and groups that enclose it. */
  skip(fieldNumber: number, depth: number): void {
    switch (this.wireType) {
      case WIRE_VARINT:
        while ((this.#bytes[this.position++]! & 0x80) !== 0);
        break;
      case WIRE_64_BIT:
        this.position += 8;
        break;
      case WIRE_LENGTH_DELIMITED: {
        const length = this.uint32();
        this.position += length;
        break;
      }
      case WIRE_START_GROUP:
        this.#skipGroup(fieldNumber, depth + 1);
        break;
      case WIRE_32_BIT:
        this.position += 4;
        break;
      default:
        throw new DecodeError(`the group ${fieldNumber} ends before byte ${this.position} but never began`);
    }
    if (this.position > this.#length) throw this.#endOfBytes();
  }

  #skipGroup(groupNumber: number, depth: number): void {
    if (depth > recursionLimit) throw new DecodeError(`groups are nested deeper than ${recursionLimit}`);
    for (;;) {
      const fieldNumber = this.fieldNumber();
      if (this.wireType === WIRE_END_GROUP) {
        if (fieldNumber === groupNumber) return;
        throw new DecodeError(
          `the group ${groupNumber} is ended as ${fieldNumber} before byte ${this.position}`,
        );
      }
      this.skip(fieldNumber, depth);
    }
  }

  /** Returns the text of bytes; undefined if it is not ASCII. */
  #plainText(start: number, end: number): string | undefined {
    const bytes = this.#bytes;
    const length = end - start;
    if (length > longestShort) {
      return this.#isAscii(start, end) ? latin1Slice.call(bytes, start, end) : undefined;
    }
    let hash = length;
    for (let position = start; position < end; position++) {
      const byte = bytes[position]!;
      if (byte > 0x7f) return undefined;
      hash = (Math.imul(hash, 31) + byte) | 0;
    }
    const slot = (hash ^ (hash >>> 15)) & (slotCount - 1);
    const candidate = shortStrings[slot]!;
    if (candidate.length === length) {
      let same = 0;
      while (same < length && candidate.charCodeAt(same) === bytes[start + same]) same++;
      if (same === length) return candidate;
    }
    const text = latin1Slice.call(bytes, start, end);
    shortStrings[slot] = text;
    return text;
  }

  #isAscii(start: number, end: number): boolean {
    const bytes = this.#bytes;
    for (let position = start; position < end; position++) {
      if (bytes[position]! > 0x7f) return false;
    }
    return true;
  }

  #utf8(start: number, end: number): string {
    try {
      return utf8.decode(this.#bytes.subarray(start, end));
    } catch {
      throw new DecodeError(`the string at byte ${start} is not UTF-8`);
    }
  }

  #repaired(start: number, end: number): string {
    const bytes = this.#bytes.subarray(start, end);
    try {
      return utf8.decode(bytes);
    } catch {
      this.invalidUtf8Values += 1;
      return lenientUtf8.decode(bytes);
    }
  }

  #endOfBytes(): DecodeError {
    return new DecodeError(`the message ends early, at byte ${this.#length}`);
  }
}

/** The number of slots: about 10 MB when full of common entries, 25 MB with the longest. */
export const knownEntriesSlots = 32_768;

/** The entries of an earlier descriptor. Code that knows them by their slot does not need to read them again. */
export class KnownEntries {
  /** The slot, from 0 to `knownEntriesSlots` - 1. */
  readonly slot: number;
  /** The bytes on the wire, one character per byte: much smaller than an array of bytes. */
  readonly text: string;
  readonly entries: readonly Entry[];

  constructor(slot: number, text: string, entries: readonly Entry[]) {
    this.slot = slot;
    this.text = text;
    this.entries = entries;
  }
}

/**
 * The entries of descriptors by their bytes on the wire, because most requests repeat earlier ones. Each slot has one candidate, and the
 * newest wins. So the table cannot fill up, and an attack on it is pointless.
 */
export class KnownEntriesCache {
  /** The length of the longest stored entries, in bytes. */
  static readonly maxBytes = 192;

  readonly #slots: (KnownEntries | undefined)[] = new Array(knownEntriesSlots).fill(undefined);
  /** The slot of the last bytes that `get` was called with. */
  #slot = 0;

  get(bytes: Uint8Array, start: number, end: number): KnownEntries | undefined {
    let hash = end - start;
    for (let position = start; position < end; position++) {
      hash = (Math.imul(hash, 31) + bytes[position]!) | 0;
    }
    this.#slot = (hash ^ (hash >>> 15)) & (knownEntriesSlots - 1);
    const known = this.#slots[this.#slot];
    if (known === undefined) return undefined;
    const { text } = known;
    if (text.length !== end - start) return undefined;
    for (let index = 0; index < text.length; index++) {
      if (text.charCodeAt(index) !== bytes[start + index]) return undefined;
    }
    return known;
  }

  /**
   * Stores the entries of the bytes that `get` was last called with. The caller observes `maxBytes` and does not change the entries
   * afterward.
   */
  add(bytes: Uint8Array, start: number, end: number, entries: readonly Entry[]): KnownEntries {
    const known = new KnownEntries(this.#slot, latin1Slice.call(bytes, start, end), entries);
    this.#slots[this.#slot] = known;
    return known;
  }
}
