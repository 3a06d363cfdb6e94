/** The buckets of the two forms, for a number of hits. */
import type { GrantedBucket } from './terms.ts';

/**
 * The interval at which an exact bucket gets one token, because Envoy has no bucket that never refills. With one token per hour, each
 * client of a used-up limit of a day got 24 more.
 */
const neverSeconds = 100_000_000;

/** Returns a bucket for a number of hits. */
export function exactBucket(tokens: number): GrantedBucket {
  return { tokens, perFill: 1, fillSeconds: neverSeconds, isFresh: true };
}

/** The bucket that denies everything. */
export const nothing = exactBucket(0);

/**
 * Chosen: the tokens of a bucket are what flows in a second, but at most this part of its hits. A bucket for few hits has some more,
 * because one that is full loses what would flow into it.
 */
const tokensPart = 0.25;
const moreTokens = 0.7;

/** Returns a bucket from which at most this many hits flow in any window of this length. */
export function refillingBucket(hits: number, windowSeconds: number, isFresh: boolean): GrantedBucket {
  const whole = Math.floor(hits);
  if (whole < 1) return nothing;
  if (whole === 1) return { tokens: 1, perFill: 1, fillSeconds: windowSeconds + 1, isFresh };
  const flowed = whole * Math.min(tokensPart, 1 / (windowSeconds + 1));
  const tokens = Math.max(1, Math.floor(Math.max(flowed, moreTokens * Math.sqrt(whole))));
  return { tokens, perFill: whole - tokens, fillSeconds: windowSeconds, isFresh };
}

/** Returns the most hits that flow from the bucket in a window. */
export function hitsOf({ tokens, perFill, fillSeconds }: GrantedBucket, windowSeconds: number): number {
  return tokens + Math.floor((windowSeconds * perFill) / fillSeconds);
}
