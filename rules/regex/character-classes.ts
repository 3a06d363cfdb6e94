/** Parts all characters into classes that no state of an expression distinguishes. */

const asciiCount = 128;
const mostCode = 0x10ffff;

export class CharacterClasses {
  readonly count: number;
  /** How many comparisons find the class of a character beyond ASCII. */
  readonly comparisons: number;
  /** By code, for ASCII. */
  readonly ofAscii = new Uint16Array(asciiCount);
  /** Where each interval begins, ascending from 0, and its class. */
  readonly #begins: Uint32Array;
  readonly #classes: Uint16Array;
  /** The interval that the first character beyond ASCII lies in. */
  readonly #firstBeyond: number;

  /** Each of `sets` has the lowest and highest character of each of its ranges, ascending. */
  constructor(sets: readonly Int32Array[]) {
    const edges = new Set([0]);
    for (const ranges of sets) {
      for (let i = 0; i < ranges.length; i += 2) edges.add(ranges[i]!).add(ranges[i + 1]! + 1);
    }
    edges.delete(mostCode + 1);
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

  /** Of a character beyond ASCII. */
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

/** Of each interval, 1 where it lies inside of the ranges. */
function insideOf(begins: Uint32Array, ranges: Int32Array): Uint8Array {
  let at = 0;
  return Uint8Array.from(begins, (begin) => {
    while (at < ranges.length && ranges[at + 1]! < begin) at += 2;
    return at < ranges.length && ranges[at]! <= begin ? 1 : 0;
  });
}

/** Splits each class into its parts inside and outside; returns how many classes there are then. */
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
