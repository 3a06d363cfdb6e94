/** The Huffman code of strings, both ways. RFC 7541, section 5.2 and appendix B. */
import { HpackError } from './tables.ts';

/** The symbol that no string may hold; the padding of a string is the beginning of its code. */
const EOS = 256;

/**
 * The Huffman code of RFC 7541, appendix B. It is canonical: in the order of code length and then of symbol, each code
 * is the one before plus one, extended by zeros where the length grows. So the lengths say all.
 */
// biome-ignore format: sixteen symbols a line
const codeLengths: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
  28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
  6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
  5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
  6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
  20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
  24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
  22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
  21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
  26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
  19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
  20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
  26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
  30,
];

/** Bits of each symbol's code. */
export const huffmanLengths: Uint8Array = Uint8Array.from(codeLengths);

/** Each symbol's code, in the low bits. */
export const huffmanCodes: Uint32Array = canonicalCodes();

function canonicalCodes(): Uint32Array {
  const symbols = codeLengths
    .map((_, symbol) => symbol)
    .sort((a, b) => codeLengths[a]! - codeLengths[b]! || a - b);
  const codes = new Uint32Array(codeLengths.length);
  let code = 0;
  let length = 0;
  for (const symbol of symbols) {
    code <<= codeLengths[symbol]! - length;
    length = codeLengths[symbol]!;
    codes[symbol] = code++;
  }
  return codes;
}

/** An entry of `transitions`: the next state in bits 0-7, the symbol that ends in bits 8-15, and these. */
const EMITS = 0x1_00_00;
const HAS_EOS = 0x2_00_00;

const latin1Slice = Buffer.prototype.latin1Slice;

/**
 * Huffman decoding, four bits at a time. A state is an inner node of the code's tree: the bits of the current symbol so far. No
 * code is shorter than five bits, so four bits end at most one symbol.
 */
const { transitions, mayEnd } = buildTables();

/**
 * Builds the transitions: the result for a state and four bits is at `state * 16 + bits`. Also returns the states in which a
 * string may end.
 */
function buildTables(): { transitions: Int32Array; mayEnd: Uint8Array } {
  const tree = buildTree();
  const count = tree.length / 2;
  const table = new Int32Array(count * 16);
  for (let state = 0; state < count; state++) {
    for (let bits = 0; bits < 16; bits++) table[state * 16 + bits] = transition(tree, state, bits);
  }
  // Padding is shorter than a byte and all ones. RFC 7541, section 5.2.
  const ends = new Uint8Array(count);
  for (let state = 0, depth = 0; depth <= 7; depth++) {
    ends[state] = 1;
    state = tree[state * 2 + 1]!;
  }
  return { transitions: table, mayEnd: ends };
}

/** Returns two children for each node, the root first: an inner node by its number, a symbol as -1 - symbol. */
function buildTree(): number[] {
  const tree = [0, 0];
  for (let symbol = 0; symbol <= EOS; symbol++) {
    const code = huffmanCodes[symbol]!;
    let node = 0;
    for (let bit = huffmanLengths[symbol]! - 1; bit > 0; bit--) {
      const child = node * 2 + ((code >>> bit) & 1);
      if (tree[child] === 0) {
        tree[child] = tree.length / 2;
        tree.push(0, 0);
      }
      node = tree[child]!;
    }
    tree[node * 2 + (code & 1)] = -1 - symbol;
  }
  return tree;
}

function transition(tree: readonly number[], state: number, bits: number): number {
  let node = state;
  let emitted = 0;
  for (let bit = 3; bit >= 0; bit--) {
    node = tree[node * 2 + ((bits >>> bit) & 1)]!;
    if (node >= 0) continue;
    const symbol = -1 - node;
    if (symbol === EOS) return HAS_EOS;
    emitted = EMITS | (symbol << 8);
    node = 0;
  }
  return emitted | node;
}

/** The buffer into which strings are decoded. A longer string gets its own array, so that this one stays small. */
const scratch = Buffer.allocUnsafeSlow(16_384);

/** The string that `bytes` hold from `start` to `end`. @throws HpackError */
export function decodeHuffman(bytes: Uint8Array, start: number, end: number): string {
  const maxLength = Math.floor(((end - start) * 8) / 5);
  const text = maxLength <= scratch.length ? scratch : Buffer.allocUnsafeSlow(maxLength);
  let length = 0;
  let state = 0;
  for (let position = start; position < end; position++) {
    const byte = bytes[position]!;
    const high = transitions[state * 16 + (byte >>> 4)]!;
    if (high >= EMITS) text[length++] = high >>> 8;
    const low = transitions[(high & 0xff) * 16 + (byte & 15)]!;
    if (low >= EMITS) text[length++] = low >>> 8;
    if (((high | low) & HAS_EOS) !== 0) {
      throw new HpackError(`the Huffman code at byte ${start} holds the symbol EOS`);
    }
    state = low & 0xff;
  }
  if (mayEnd[state] === 0) {
    throw new HpackError(`the Huffman code at byte ${start} ends with more or other padding than seven ones`);
  }
  return latin1Slice.call(text, 0, length);
}

/**
 * Returns the octet of a character, because header fields are strings of one character for each byte. Any other character becomes
 * a question mark, instead of its low byte.
 */
export function byteAt(text: string, index: number): number {
  const code = text.charCodeAt(index);
  return code <= 0xff ? code : 0x3f;
}

/** Returns the number of bytes of the Huffman code of `text`. */
export function huffmanEncodedBytes(text: string): number {
  let bits = 0;
  for (let index = 0; index < text.length; index++) bits += huffmanLengths[byteAt(text, index)]!;
  return (bits + 7) >>> 3;
}

/** Writes the Huffman code of `text` at `offset`. Returns the offset behind it. RFC 7541, section 5.2. */
export function encodeHuffman(text: string, target: Uint8Array, offset: number): number {
  let position = offset;
  // Bits that wait for a whole byte, at most seven between two symbols. The bits above them were written.
  let pending = 0;
  let pendingBits = 0;
  for (let index = 0; index < text.length; index++) {
    const symbol = byteAt(text, index);
    const code = huffmanCodes[symbol]!;
    let bits = huffmanLengths[symbol]!;
    if (bits > 24) {
      // Together with the waiting bits, the code would not fit in 32 bits, so its first byte is written first.
      bits -= 8;
      pending = (pending << 8) | (code >>> bits);
      target[position++] = pending >>> pendingBits;
    }
    pending = (pending << bits) | (code & ((1 << bits) - 1));
    pendingBits += bits;
    while (pendingBits >= 8) {
      pendingBits -= 8;
      target[position++] = pending >>> pendingBits;
    }
  }
  if (pendingBits > 0) {
    const padding = 8 - pendingBits;
    target[position++] = (pending << padding) | ((1 << padding) - 1);
  }
  return position;
}
