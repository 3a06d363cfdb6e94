import type { LimitNumbers } from '../../rules/algorithms/algorithm.ts';
import type { Bound } from './bound.ts';

/** How a limiter counts by an algorithm. What the algorithm means for rules is in `rules/algorithms/`. */
export interface CountingAlgorithm {
  newBound(numbers: LimitNumbers): Bound;
  /** How long a counter lives: from its first hit on where its key names a window, else from its last. */
  lifeSeconds(numbers: LimitNumbers): number;
  /** How long a client is told to wait where nothing is known of a counter without a window's end. */
  secondsUncounted(numbers: LimitNumbers): number;
}
