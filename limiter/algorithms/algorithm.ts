import type { LimitNumbers } from '../../rules/algorithms/algorithm.ts';
import type { AlgorithmBound } from './algorithm-bound.ts';

/** The counting part of an algorithm, in a limiter. `rules/algorithms/` describes the algorithm for rules. */
export interface CountingAlgorithm {
  newBound(numbers: LimitNumbers): AlgorithmBound;
  /** Lifetime of a counter: from its first hit if its key names a window, otherwise from its last. */
  lifeSeconds(numbers: LimitNumbers): number;
  /** How long a client should wait if the state of a counter without a window's end is unknown. */
  secondsUncounted(numbers: LimitNumbers): number;
  readonly lua: AlgorithmLua;
}

/**
 * The same formula in Lua, in the same doubles. Each property is the body of a function with the variables `bound` (a table of the kind
 * and the numbers of `Bound.scriptText`), the state of a counter as `a`, `b` and `c`, the time `now`, `floor` and `max`.
 */
export interface AlgorithmLua {
  /** The first word of `Bound.scriptText`. */
  readonly kind: string;
  /** Functions that the bodies below need. */
  readonly helpers: string;
  /**
   * The methods of `Bound` in Lua. They return three numbers; `room` and `maxTaken` return one. `take` and `giveBack` can read
   * `hits`.
   */
  readonly stateAt: string;
  readonly room: string;
  readonly take: string;
  readonly maxTaken: string;
  readonly giveBack: string;
  /**
   * The body of `Bound.giveBackOf`: returns three numbers and the hits that were given back, at most `hits`. It has the variables
   * `charge` with `a`, `b` and `c`, and `isHere` if the counter is in the charge's window; for a bucket also `others` and `returned` of
   * the charge. `returned` is what reservations have returned to a bucket, as its three numbers. The body changes it in place.
   */
  readonly giveBackOf: string;
}
