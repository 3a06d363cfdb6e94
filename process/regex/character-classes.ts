/** Divides all characters into classes that no state of an expression distinguishes. */

const asciiCount = 128;
const maxCode = 0x10ffff;

export class CharacterClasses {
  readonly count: number;
  /** The number of comparisons that find the class of a character beyond ASCII. */
  readonly comparisons: number;
  /** The class by code, for ASCII. */
  readonly ofAscii = new Uint16Array(asciiCount);
  /** The start of each interval, ascending from 0, and its class. */
  readonly #begins: Uint32Array;
  readonly #classes: Uint16Array;
  /** The interval that the first character beyond ASCII lies in. */
  readonly #firstBeyond: number;

  /** Each element of `sets` has the lowest and highest character of each of its ranges, ascending. */
  constructor(sets: readonly Int32Array[]) {
    const edges = new Set([0]);
    for (const ranges of sets) {
      for (let i = 0; i < ranges.length; i += 2) edges.add(ranges[i]!).add(ranges[i + 1]! + 1);
    }
    edges.delete(maxCode + 1);
    this.#begins = Uint32Array.from(edges).sort();
    this.#classes = new Uint16Array(edges.size);
    let count = 1;
    for (const ranges of sets) count = split(this.#classes, count, insideOf(this.#begins, ranges));
    this.count = count;
    for (let code = 0; code < asciiCount; code += 1) this.ofAscii[code] = this.#search(code, 0);
    const beyond = this.#begins.findIndex((begin) => begin > asciiCount);
    this.#firstBeyond = (beyond === -1 ? edges.size : beyond) - 1;
    this.comparisons = Math.ceil(Math.log2(edges.size - this.#firstBeyond));
  }

  /** Returns the class of a character beyond ASCII. */
  of(code: number): number {
    return this.#search(code, this.#firstBeyond);
  }

  /** The classes of all characters of these ranges, which are one of the sets. */
  within(ranges: Int32Array): Set<number> {
    const inside = insideOf(this.#begins, ranges);
    return new Set(this.#classes.filter((_, interval) => inside[interval] === 1));
  }

  #search(code: number, from: number): number {
    const begins = this.#begins;
    let low = from;
    let high = begins.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (begins[middle]! <= code) low = middle;
      else high = middle - 1;
    }
    return this.#classes[low]!;
  }
}

/** Returns a 1 for each interval that is inside the ranges. */
function insideOf(begins: Uint32Array, ranges: Int32Array): Uint8Array {
  let at = 0;
  return Uint8Array.from(begins, (begin) => {
    while (at < ranges.length && ranges[at + 1]! < begin) at += 2;
    return at < ranges.length && ranges[at]! <= begin ? 1 : 0;
  });
}

/** Splits each class into its parts inside and outside. Returns the number of classes afterward. */
function split(classes: Uint16Array, count: number, inside: Uint8Array): number {
  const hasOutside = new Set(classes.filter((_, interval) => inside[interval] === 0));
  const parts = new Map<number, number>();
  for (const [interval, before] of classes.entries()) {
    if (inside[interval] === 0 || !hasOutside.has(before)) continue;
    const part = parts.get(before) ?? count + parts.size;
    parts.set(before, part);
    classes[interval] = part;
  }
  return count + parts.size;
}

/** The automaton whose sets a table has. Sets of states are bits in words. */
export interface Stepper {
  /** The states that may read the first character. */
  first: Int32Array;
  /** The states that may read the last character. */
  last: Int32Array;
  /** Returns the states that may read the character after one that these states read. */
  after(states: Int32Array): Int32Array;
  /** The states that read each class of characters. */
  readers: Int32Array;
}

/** The size of a table: sets times classes of characters. Chosen: 16 KiB, so that a few tables fit into a processor's cache. */
const maxEntries = 8_192;
/** The set of no states. */
const dead = 0;
const begin = 1;

/**
 * A complete table of the sets of states that texts can lead to, for expressions with few such sets. Each character takes one
 * look-up. The table is built at once and never grows, so no text can make it slow.
 */
export class SetTable {
  readonly #classes: CharacterClasses;
  readonly #next: Uint16Array;
  readonly #isLast: Uint8Array;

  private constructor(classes: CharacterClasses, next: Uint16Array, isLast: Uint8Array) {
    this.#classes = classes;
    this.#next = next;
    this.#isLast = isLast;
  }

  /** Returns undefined if there are too many sets. */
  static of(classes: CharacterClasses, { first, last, after, readers }: Stepper): SetTable | undefined {
    const words = first.length;
    const numbers = new Map<string, number>();
    /** The sets that were found, each with what may be read next. */
    const followers: Int32Array[] = [new Int32Array(words), first];
    const isLast = [0, 0];
    const next: number[] = new Array(classes.count).fill(dead);
    for (let set = begin; set < followers.length; set += 1) {
      for (let read = 0; read < classes.count; read += 1) {
        if (next.length === maxEntries) return undefined;
        const from = read * words;
        const states = followers[set]!.map((word, place) => word & readers[from + place]!);
        if (states.every((word) => word === 0)) {
          next.push(dead);
          continue;
        }
        const key = states.join();
        const number = numbers.get(key) ?? followers.length;
        next.push(number);
        if (number < followers.length) continue;
        numbers.set(key, number);
        followers.push(after(states).slice());
        isLast.push(Number(states.some((word, place) => (word & last[place]!) !== 0)));
      }
    }
    return new SetTable(classes, Uint16Array.from(next), Uint8Array.from(isLast));
  }

  /** Returns whether a text matches, which must not be empty. */
  matches(text: string): boolean {
    const classes = this.#classes;
    const { ofAscii, count } = classes;
    const next = this.#next;
    let set = begin;
    for (let i = 0; i < text.length; i++) {
      let code = text.charCodeAt(i);
      if (code < 128) {
        set = next[set * count + ofAscii[code]!]!;
      } else {
        code = text.codePointAt(i)!;
        if (code > 0xffff) i++;
        set = next[set * count + classes.of(code)]!;
      }
      if (set === dead) return false;
    }
    return this.#isLast[set] === 1;
  }
}
