/** A small seeded generator (xorshift32): the same seed gives the same run. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = (Math.imul(seed, 0x9e3779b1) ^ 0x5bd1e995) | 1;
  }

  /** From 0 to `bound - 1`; 0 if there is nothing to choose from. */
  below(bound: number): number {
    let state = this.#state;
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    this.#state = state;
    return bound <= 1 ? 0 : (state >>> 0) % bound;
  }
}
