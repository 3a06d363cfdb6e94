const latin1Slice = Buffer.prototype.latin1Slice;

/** Chosen: about 1 MB when full, and room for the addresses of many clients beside the keys. */
const slotCount = 16_384;

/**
 * Strings met before, found by their bytes: the same domains and keys come with every request, and making a string
 * costs several times as much as finding one. One candidate a slot, the newest wins: nothing to fill up or to attack.
 */
export class ShortStrings {
  /** Longest string kept, in bytes: beyond it, comparing costs as much as making. */
  static readonly maxLength = 36;

  readonly #slots: string[] = new Array(slotCount).fill('');

  /** The string of these bytes; undefined when they are not ASCII. The caller keeps to `maxLength`. */
  get(bytes: Uint8Array, start: number, end: number): string | undefined {
    let hash = end - start;
    for (let position = start; position < end; position++) {
      const byte = bytes[position]!;
      if (byte > 0x7f) return undefined;
      hash = (Math.imul(hash, 31) + byte) | 0;
    }
    const slot = (hash ^ (hash >>> 15)) & (slotCount - 1);
    const candidate = this.#slots[slot]!;
    if (candidate.length === end - start && equals(candidate, bytes, start)) return candidate;
    const text = latin1Slice.call(bytes, start, end);
    this.#slots[slot] = text;
    return text;
  }
}

function equals(text: string, bytes: Uint8Array, start: number): boolean {
  for (let index = 0; index < text.length; index++) {
    if (text.charCodeAt(index) !== bytes[start + index]) return false;
  }
  return true;
}
