import type { Bound } from '../../limiter/algorithms/bound.ts';

/** How the scripts of Redis know the algorithm of a bound. */
export const kindOf = ({ scriptText }: Bound) => scriptText.split(' ')[0] as 'fixed' | 'sliding' | 'bucket';
