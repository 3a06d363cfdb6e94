/**
 * Hashing of text and the open-addressing index over (number, hash or number) pairs. Slots are three words: both
 * numbers and the value plus one; a zero there ends a probe. At most half of the slots are taken.
 */

/** FNV-1a over UTF-16 code units; a hash of a text is continued by hashing on with what follows. */
export const hashSeed = 0x811c9dc5 | 0;

export function hashUnit(hash: number, unit: number): number {
  return Math.imul(hash ^ unit, 0x01000193);
}

export function hashText(hash: number, text: string): number {
  let h = hash;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h;
}

/** As `hashText`, of text in a pool. */
export function hashUnits(hash: number, units: Uint16Array, offset: number, length: number): number {
  let h = hash;
  for (let i = offset; i < offset + length; i++) h = hashUnit(h, units[i]!);
  return h;
}

/** As `hashText`, from the last code unit to the first. */
export function hashTextBackwards(hash: number, text: string): number {
  let h = hash;
  for (let i = text.length - 1; i >= 0; i--) h = hashUnit(h, text.charCodeAt(i));
  return h;
}

export const slotWords = 3;

/** Where the probe for a pair starts, before the mask. */
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

  /** The first slot that holds the pair, or -1. */
  find(a: number, b: number): number {
    return this.#probe(slotHash(a, b), a, b);
  }

  /** The next slot after `slot` that holds the pair, or -1. */
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

/** Whether `length` code units of the text, from `from` on, are what stands in the pool at `offset`. */
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

/** A string from the pool. Lone surrogates stay what they are. */
export function readText(units: Uint16Array, offset: number, length: number): string {
  let text = '';
  const end = offset + length;
  for (let at = offset; at < end; at += chunkUnits) {
    text += String.fromCharCode(...units.subarray(at, Math.min(at + chunkUnits, end)));
  }
  return text;
}
/** Arguments of one call stay far from the stack's limit. */
const chunkUnits = 4096;
