/** `bytes` in pieces whose lengths follow from `seed`; one piece if it is 0. */
export function* pieces(bytes: Uint8Array, seed: number): Generator<Uint8Array> {
  let state = seed;
  for (let from = 0; from < bytes.length; ) {
    state = (state * 75 + 74) % 65_537;
    const length = seed === 0 ? bytes.length : 1 + (state % (state % 3 === 0 ? 4 : 400));
    // A copy, overwritten afterward: anyone who keeps a piece beyond its call reads garbage.
    const piece = Uint8Array.from(bytes.subarray(from, from + length));
    yield piece;
    piece.fill(0xdb);
    from += length;
  }
}
