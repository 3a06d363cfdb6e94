import { huffmanCodes, huffmanLengths } from './huffman-code.ts';
import { byteAt } from './octets.ts';

/** Bytes that the Huffman code of `text` takes. */
export function huffmanEncodedBytes(text: string): number {
  let bits = 0;
  for (let index = 0; index < text.length; index++) bits += huffmanLengths[byteAt(text, index)]!;
  return (bits + 7) >>> 3;
}

/** Writes the Huffman code of `text` at `offset`; returns the offset behind it. RFC 7541, section 5.2. */
export function encodeHuffman(text: string, target: Uint8Array, offset: number): number {
  let position = offset;
  // Bits that wait for a whole byte, at most seven between two symbols; those above them have gone out.
  let pending = 0;
  let pendingBits = 0;
  for (let index = 0; index < text.length; index++) {
    const symbol = byteAt(text, index);
    const code = huffmanCodes[symbol]!;
    let bits = huffmanLengths[symbol]!;
    if (bits > 24) {
      // Beside those that wait it would not fit in 32 bits: its first byte goes ahead.
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
