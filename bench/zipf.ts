/**
 * Returns indexes from 0 to count - 1 by Zipf's law with exponent 1: the frequency of index i is proportional to 1 / (i + 1). `random`
 * returns numbers in [0, 1).
 */
export function zipfSequence(options: { count: number; length: number; random: () => number }): Uint32Array {
  const cumulative = new Float64Array(options.count);
  let sum = 0;
  for (let i = 0; i < options.count; i++) {
    sum += 1 / (i + 1);
    cumulative[i] = sum;
  }
  const sequence = new Uint32Array(options.length);
  for (let i = 0; i < options.length; i++) sequence[i] = firstAtLeast(cumulative, options.random() * sum);
  return sequence;
}

function firstAtLeast(sorted: Float64Array, value: number): number {
  let low = 0;
  let high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns numbers in [0, 1) that are the same in every run (a 32-bit xorshift generator). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 4_294_967_296;
  };
}
