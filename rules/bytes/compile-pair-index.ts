import { slotHash, slotWords } from './rule-table-hash.ts';

/** The slots of a `PairIndex` that holds the given (a, b, value) triples. */
export function compilePairIndex(triples: Int32Array): Int32Array {
  const count = triples.length / 3;
  let capacity = 2;
  while (capacity < count * 2) capacity *= 2;
  const slots = new Int32Array(capacity * slotWords);
  const mask = capacity - 1;
  for (let i = 0; i < triples.length; i += 3) {
    const a = triples[i]!;
    const b = triples[i + 1]!;
    let slot = slotHash(a, b) & mask;
    while (slots[slot * slotWords + 2] !== 0) slot = (slot + 1) & mask;
    slots[slot * slotWords] = a;
    slots[slot * slotWords + 1] = b;
    slots[slot * slotWords + 2] = triples[i + 2]! + 1;
  }
  return slots;
}
