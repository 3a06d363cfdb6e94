/** The algorithms of limiters, by number. */
import { type AlgorithmKey, inOrder, known } from '../../rules/algorithms/registry.ts';
import type { AlgorithmLua, CountingAlgorithm } from './algorithm.ts';
import { fixedWindow } from './fixed-window.ts';
import { slidingWindow } from './sliding-window.ts';
import { tokenBucket } from './token-bucket.ts';

const algorithms: { readonly [key in AlgorithmKey]: CountingAlgorithm } = {
  FIXED_WINDOW: fixedWindow,
  SLIDING_WINDOW: slidingWindow,
  TOKEN_BUCKET: tokenBucket,
};
const byNumber = inOrder(algorithms);

/** The parts of the program in Redis. */
export const algorithmsLua: readonly AlgorithmLua[] = Object.values(algorithms).map(({ lua }) => lua);

/** Returns the algorithm of a limit. Throws for an unknown number, so that such a limit is never counted in another way. */
export function countingOf({ algorithm }: { readonly algorithm: number }): CountingAlgorithm {
  return known(byNumber[algorithm], algorithm);
}
