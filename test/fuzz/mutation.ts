import type { Random } from './random.ts';

/** Bytes at which lengths, integers and formats turn. */
const edges = [0, 1, 2, 4, 5, 8, 9, 0x0f, 0x1f, 0x20, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xbe, 0xfe, 0xff];

type Mutation = (bytes: Buffer, random: Random, other: Uint8Array) => Buffer;

const mutations: readonly Mutation[] = [
  function flipBit(bytes, random) {
    const at = random.below(bytes.length);
    if (bytes.length > 0) bytes[at]! ^= 1 << random.below(8);
    return bytes;
  },
  function setByte(bytes, random) {
    if (bytes.length > 0) bytes[random.below(bytes.length)] = random.below(256);
    return bytes;
  },
  function setEdge(bytes, random) {
    if (bytes.length > 0) bytes[random.below(bytes.length)] = edges[random.below(edges.length)]!;
    return bytes;
  },
  function stepByte(bytes, random) {
    const at = random.below(bytes.length);
    if (bytes.length > 0) bytes[at]! += random.below(2) === 0 ? 1 : -1;
    return bytes;
  },
  function setLength(bytes, random) {
    const size = 1 + random.below(4);
    if (bytes.length < size) return bytes;
    bytes.writeUIntBE(
      random.below(2) === 0 ? random.below(300) % 2 ** (8 * size) : random.below(2 ** (8 * size - 1)),
      random.below(bytes.length - size + 1),
      size,
    );
    return bytes;
  },
  function insert(bytes, random) {
    const at = random.below(bytes.length + 1);
    const more = Buffer.alloc(1 + random.below(8));
    for (let index = 0; index < more.length; index++) more[index] = random.below(256);
    return Buffer.concat([bytes.subarray(0, at), more, bytes.subarray(at)]);
  },
  function remove(bytes, random) {
    const at = random.below(bytes.length);
    return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + random.below(8))]);
  },
  function cut(bytes, random) {
    return bytes.subarray(0, random.below(bytes.length));
  },
  function repeat(bytes, random) {
    const from = random.below(bytes.length);
    const piece = bytes.subarray(from, from + 1 + random.below(64));
    const pieces = Array.from({ length: 1 + random.below(random.below(8) === 0 ? 200 : 4) }, () => piece);
    return Buffer.concat([bytes.subarray(0, from), ...pieces, bytes.subarray(from)]);
  },
  function splice(bytes, random, other) {
    const from = random.below(other.length);
    const piece = other.subarray(from, from + 1 + random.below(other.length - from));
    const at = random.below(bytes.length + 1);
    return Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at + random.below(2) * piece.length)]);
  },
];

/** `input`, which stays as it is, changed once or a few times; `other` is where pieces come from. */
export function mutated(
  input: Uint8Array,
  options: { other: Uint8Array; random: Random; maxBytes: number },
): Buffer {
  const { other, random, maxBytes } = options;
  let bytes: Buffer = Buffer.from(input);
  for (let count = 1 + random.below(random.below(3) === 0 ? 16 : 3); count > 0; count--) {
    bytes = mutations[random.below(mutations.length)]!(bytes, random, other);
    if (bytes.length > maxBytes) bytes = bytes.subarray(0, maxBytes);
  }
  return bytes;
}
