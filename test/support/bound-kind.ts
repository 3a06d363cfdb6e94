import type { AlgorithmBound } from '../../limiter/algorithms/algorithm-bound.ts';

/** How the scripts of Redis know the algorithm of a bound. */
export const kindOf = ({ scriptText }: AlgorithmBound) =>
  scriptText.split(' ')[0] as 'fixed' | 'sliding' | 'bucket';
