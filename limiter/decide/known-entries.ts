import type { Entry } from '../../rules/request.ts';

const latin1Slice = Buffer.prototype.latin1Slice;

/** Chosen: about 10 MB when full of usual ones, 25 MB of the longest. */
export const knownEntriesSlots = 32_768;

/** Entries of a descriptor that came before; whoever knows them by their slot need not read them again. */
export class KnownEntries {
  /** From 0 to below `knownEntriesSlots`. */
  readonly slot: number;
  /** As they stood on the wire, one character a byte: much smaller than an array of bytes. */
  readonly text: string;
  readonly entries: readonly Entry[];

  constructor(slot: number, text: string, entries: readonly Entry[]) {
    this.slot = slot;
    this.text = text;
    this.entries = entries;
  }
}

/**
 * The entries of descriptors by their bytes on the wire, since most requests are of a kind that came before. One
 * candidate a slot, the newest wins: nothing to fill up or to attack.
 */
export class KnownEntriesCache {
  /** Longest entries kept, in bytes. */
  static readonly maxBytes = 192;

  readonly #slots: (KnownEntries | undefined)[] = new Array(knownEntriesSlots).fill(undefined);

  get(bytes: Uint8Array, start: number, end: number): KnownEntries | undefined {
    const known = this.#slots[slotOf(bytes, start, end)];
    if (known === undefined) return undefined;
    const { text } = known;
    if (text.length !== end - start) return undefined;
    for (let index = 0; index < text.length; index++) {
      if (text.charCodeAt(index) !== bytes[start + index]) return undefined;
    }
    return known;
  }

  /** The caller keeps to `maxBytes`, and changes the entries no more. */
  add(bytes: Uint8Array, start: number, end: number, entries: readonly Entry[]): KnownEntries {
    const slot = slotOf(bytes, start, end);
    const known = new KnownEntries(slot, latin1Slice.call(bytes, start, end), entries);
    this.#slots[slot] = known;
    return known;
  }
}

function slotOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = end - start;
  for (let position = start; position < end; position++) {
    hash = (Math.imul(hash, 31) + bytes[position]!) | 0;
  }
  return (hash ^ (hash >>> 15)) & (knownEntriesSlots - 1);
}
