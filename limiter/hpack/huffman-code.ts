/**
 * The Huffman code of RFC 7541, appendix B. It is canonical: in the order of code length and then of symbol, each code
 * is the one before plus one, extended by zeros where the length grows. So the lengths say all.
 */

/** The symbol that no string may hold; the padding of a string is the beginning of its code. */
export const EOS = 256;

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
