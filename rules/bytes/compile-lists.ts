import { readText, slotHash, slotWords } from './rule-table-hash.ts';

/** A copy of twice the length; what is new is 0. */
export function grownWords(words: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(words.length * 2);
  larger.set(words);
  return larger;
}

/** A growing list of 32-bit words. */
export class WordList {
  /** Longer than `length`; replaced when it grows. */
  words = new Int32Array(64);
  length = 0;

  push(word: number): void {
    if (this.length === this.words.length) this.words = grownWords(this.words);
    this.words[this.length++] = word;
  }

  pushAll(words: readonly number[]): void {
    for (const word of words) this.push(word);
  }

  /** A view on what was pushed. */
  toWords(): Int32Array {
    return this.words.subarray(0, this.length);
  }
}

/** A growing list of UTF-16 code units. */
export class UnitList {
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

/** Text of the table. */
export class StringPool {
  readonly #units = new UnitList();
  readonly #offsets = new Map<string, number>();

  get length(): number {
    return this.#units.length;
  }

  /** The code units so far; replaced when the pool grows. */
  get units(): Uint16Array {
    return this.#units.units;
  }

  /** Writes the text at the end. Returns its offset, in code units. */
  append(text: string): number {
    const offset = this.#units.length;
    this.#units.pushText(text);
    return offset;
  }

  /** Offset of the text, which is written at most once this way. */
  add(text: string): number {
    const known = this.#offsets.get(text);
    if (known !== undefined) return known;
    const offset = this.append(text);
    this.#offsets.set(text, offset);
    return offset;
  }

  read(offset: number, length: number): string {
    return readText(this.#units.units, offset, length);
  }

  toUnits(): Uint16Array {
    return this.#units.toUnits();
  }
}

/** The slots of a `PairIndex` that holds the given (a, b, value) triples. */
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
