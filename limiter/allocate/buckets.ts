/** The buckets of the two forms, for a number of hits. */
import type { GrantedBucket } from './terms.ts';

/** Returns a bucket for a number of hits. Envoy has no bucket that never refills, so this one gets one token per hour. */
export function exactBucket(tokens: number): GrantedBucket {
  return { tokens, perFill: 1, fillSeconds: 3_600, isFresh: true };
}

/** The bucket that denies everything. */
export const nothing = exactBucket(0);

/** Chosen: with short intervals, more of the hits flow in a window; longer ones reduce what rounding loses. */
const fills = [1, 2, 5, 10];
const worthIt = 1.05;

/** Returns a bucket from which at most this many hits flow in any window of this length. */
export function refillingBucket(hits: number, windowSeconds: number, isFresh: boolean): GrantedBucket {
  if (hits < 1) return nothing;
  const oneSeconds = hits < 2 ? windowSeconds + 1 : Math.ceil(windowSeconds / (Math.floor(hits) - 1));
  let best = { tokens: 1, perFill: 1, fillSeconds: oneSeconds, isFresh };
  for (const fillSeconds of fills) {
    const tokens = Math.floor((hits * fillSeconds) / (fillSeconds + windowSeconds));
    if (tokens * best.fillSeconds > worthIt * best.perFill * fillSeconds)
      best = { tokens, perFill: tokens, fillSeconds, isFresh };
  }
  return best;
}

/** Returns the most hits that flow from the bucket in a window. */
export function hitsOf({ tokens, perFill, fillSeconds }: GrantedBucket, windowSeconds: number): number {
  return tokens + Math.floor((windowSeconds * perFill) / fillSeconds);
}
