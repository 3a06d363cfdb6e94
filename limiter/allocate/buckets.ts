/** What is sent in the two forms, for so many hits. */
import type { Bucket } from './grants.ts';

/** Sent for denying everything. */
export const nothing: Bucket = { tokens: 0, perFill: 1, fillSeconds: 3_600, isFresh: true };

/** A number of hits. Envoy knows no bucket that never refills: a token an hour is next to nothing. */
export function exactBucket(tokens: number): Bucket {
  return { ...nothing, tokens };
}

/** Chosen: the shorter the seconds, the more of the hits flows in a window; longer ones are for what is lost by rounding. */
const fills = [1, 2, 5, 10];
const worthIt = 1.05;

/** A bucket from which no more than so many hits come in any window of this length. */
export function refillingBucket(hits: number, windowSeconds: number, isFresh: boolean): Bucket {
  let best: Bucket | undefined;
  for (const fillSeconds of fills) {
    const tokens = Math.floor((hits * fillSeconds) / (fillSeconds + windowSeconds));
    const isBetter = best === undefined || tokens * best.fillSeconds > worthIt * best.perFill * fillSeconds;
    if (tokens >= 1 && isBetter) best = { tokens, perFill: tokens, fillSeconds, isFresh };
  }
  if (best !== undefined || hits < 1) return best ?? nothing;
  const fillSeconds = hits < 2 ? windowSeconds + 1 : Math.ceil(windowSeconds / (Math.floor(hits) - 1));
  return { tokens: 1, perFill: 1, fillSeconds, isFresh };
}

/** Hits that come from it in a window at most. */
export function hitsOf({ tokens, perFill, fillSeconds }: Bucket, windowSeconds: number): number {
  return tokens + Math.floor((windowSeconds * perFill) / fillSeconds);
}
