/**
 * Huffman decoding, four bits at a time. A state is an inner node of the code's tree: what was read of the symbol
 * under way. As no code is shorter than five bits, four bits end one symbol at most.
 */
import { HpackError } from './hpack-error.ts';
import { EOS, huffmanCodes, huffmanLengths } from './huffman-code.ts';

/** An entry of `transitions`: the next state in bits 0-7, the symbol that ends in bits 8-15, and these. */
const EMITS = 0x1_00_00;
const HAS_EOS = 0x2_00_00;

const latin1Slice = Buffer.prototype.latin1Slice;

const { transitions, mayEnd } = buildTables();

/** What one state and four bits lead to, at `state * 16 + bits`; and in which states a string may end. */
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

/** Two children a node, the root first: an inner node by its number, a symbol as -1 - symbol. */
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

/** What strings are decoded into; a longer one gets its own array, so that this one stays small. */
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
