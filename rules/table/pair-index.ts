/**
 * Hashing of text, and an open-addressing index of pairs of a number with a hash or a number. Slots have three words: both numbers, and
 * the value plus one; a zero in the third word ends a probe. At most half of the slots are used. The lists that grow while a table is
 * created follow below.
 */

/** FNV-1a over UTF-16 code units. To continue a hash, hash the following text with it. */
export const hashSeed = 0x811c9dc5 | 0;

export function hashUnit(hash: number, unit: number): number {
  return Math.imul(hash ^ unit, 0x01000193);
}

export function hashText(hash: number, text: string): number {
  let h = hash;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h;
}

/** Computes the same as `hashText` for text in a pool. */
export function hashUnits(hash: number, units: Uint16Array, offset: number, length: number): number {
  let h = hash;
  for (let i = offset; i < offset + length; i++) h = hashUnit(h, units[i]!);
  return h;
}

/** Computes `hashText` from the last code unit to the first. */
export function hashTextBackwards(hash: number, text: string): number {
  let h = hash;
  for (let i = text.length - 1; i >= 0; i--) h = hashUnit(h, text.charCodeAt(i));
  return h;
}

/**
 * A hash of 64 bits over words and units that distinguishes contents. It need not resist attacks, because collisions give callers no
 * advantage.
 */
export class ContentHash {
  a = hashSeed;
  b = 0x5bd1e995;

  addWord(word: number): void {
    this.a = mixed(this.a, word, 0x85ebca6b);
    this.b = mixed(this.b, word, 0xc2b2ae35);
  }

  addUnits(units: Uint16Array, from: number, to: number): void {
    let { a, b } = this;
    for (let i = from; i < to; i++) {
      const unit = units[i]!;
      a = mixed(a, unit, 0x85ebca6b);
      b = mixed(b, unit, 0xc2b2ae35);
    }
    this.a = a;
    this.b = b;
  }
}

/** Mixes a word into a hash. This is a bijection for each word, and for each hash. */
function mixed(hash: number, word: number, factor: number): number {
  const h = Math.imul(hash ^ word, factor);
  return h ^ (h >>> 15);
}

export const slotWords = 3;

/** Returns the start of the probe for a pair, before the mask. */
export function slotHash(a: number, b: number): number {
  let h = Math.imul(a, 0x9e3779b1) ^ b;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** Reads an index. Pairs need not be unique: `find`, then `next` until -1. */
export class PairIndex {
  readonly #slots: Int32Array;
  readonly #mask: number;

  constructor(slots: Int32Array) {
    this.#slots = slots;
    this.#mask = slots.length / slotWords - 1;
  }

  /** Returns the first slot that holds the pair, or -1. */
  find(a: number, b: number): number {
    return this.#probe(slotHash(a, b), a, b);
  }

  /** Returns the next slot after `slot` that holds the pair, or -1. */
  next(slot: number, a: number, b: number): number {
    return this.#probe(slot + 1, a, b);
  }

  value(slot: number): number {
    return this.#slots[slot * slotWords + 2]! - 1;
  }

  #probe(start: number, a: number, b: number): number {
    const slots = this.#slots;
    const mask = this.#mask;
    for (let slot = start & mask; ; slot = (slot + 1) & mask) {
      const at = slot * slotWords;
      if (slots[at + 2] === 0) return -1;
      if (slots[at] === a && slots[at + 1] === b) return slot;
    }
  }
}

/** Whether `length` code units of the text, from `from` on, equal the text in the pool at `offset`. */
export function unitsEqual(
  units: Uint16Array,
  offset: number,
  text: string,
  from: number,
  length: number,
): boolean {
  for (let i = 0; i < length; i++) {
    if (units[offset + i] !== text.charCodeAt(from + i)) return false;
  }
  return true;
}

/** Returns a string from the pool. Lone surrogates stay unchanged. */
export function readText(units: Uint16Array, offset: number, length: number): string {
  let text = '';
  const end = offset + length;
  for (let at = offset; at < end; at += chunkUnits) {
    text += String.fromCharCode(...units.subarray(at, Math.min(at + chunkUnits, end)));
  }
  return text;
}
/** Keeps the number of arguments of one call far below the limit of the stack. */
const chunkUnits = 4096;

/** Returns a copy of twice the length, filled up with zeros. */
export function grownWords(words: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(words.length * 2);
  larger.set(words);
  return larger;
}

/** A growing list of 32-bit words. */
export class WordList {
  /** An array that is longer than `length`. It is replaced when it grows. */
  words = new Int32Array(64);
  length = 0;

  push(word: number): void {
    if (this.length === this.words.length) this.words = grownWords(this.words);
    this.words[this.length++] = word;
  }

  pushAll(words: readonly number[]): void {
    for (const word of words) this.push(word);
  }

  /** Returns a view of the appended words. */
  toWords(): Int32Array {
    return this.words.subarray(0, this.length);
  }
}

/** A growing list of UTF-16 code units. */
export class UnitList {
  /** An array that is longer than `length`. It is replaced when it grows. */
  units = new Uint16Array(64);
  length = 0;

  push(unit: number): void {
    if (this.length === this.units.length) this.#grow(1);
    this.units[this.length++] = unit;
  }

  pushText(text: string): void {
    if (this.length + text.length > this.units.length) this.#grow(text.length);
    const { units, length } = this;
    for (let i = 0; i < text.length; i++) units[length + i] = text.charCodeAt(i);
    this.length += text.length;
  }

  toUnits(): Uint16Array {
    return this.units.subarray(0, this.length);
  }

  #grow(by: number): void {
    const larger = new Uint16Array(Math.max(this.units.length * 2, this.length + by));
    larger.set(this.units);
    this.units = larger;
  }
}

/** The text of the table. */
export class StringPool extends UnitList {
  readonly #offsets = new Map<string, number>();

  /** Appends the text. Returns its offset in code units. */
  append(text: string): number {
    const offset = this.length;
    this.pushText(text);
    return offset;
  }

  /** Returns the offset of the text. Appends the text if it is new. */
  add(text: string): number {
    const known = this.#offsets.get(text);
    if (known !== undefined) return known;
    const offset = this.append(text);
    this.#offsets.set(text, offset);
    return offset;
  }

  read(offset: number, length: number): string {
    return readText(this.units, offset, length);
  }
}

/** Returns the slots of a `PairIndex` that holds the given (a, b, value) triples. */
export function compilePairIndex(triples: Int32Array): Int32Array {
  const count = triples.length / 3;
  let capacity = 2;
  while (capacity < count * 2) capacity *= 2;
  const slots = new Int32Array(capacity * slotWords);
  const mask = capacity - 1;
  for (let i = 0; i < triples.length; i += 3) {
    const a = triples[i]!;
    const b = triples[i + 1]!;
    let slot = slotHash(a, b) & mask;
    while (slots[slot * slotWords + 2] !== 0) slot = (slot + 1) & mask;
    slots[slot * slotWords] = a;
    slots[slot * slotWords + 1] = b;
    slots[slot * slotWords + 2] = triples[i + 2]! + 1;
  }
  return slots;
}
