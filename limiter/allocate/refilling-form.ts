/** The refilling form: buckets of tokens whose sizes and flow in a window do not exceed the limit together. */
import { hitsOf, nothing, refillingBucket } from './buckets.ts';
import type { FormRules } from './demand.ts';
import type { GrantedBucket } from './terms.ts';

/** A bucket is changed only if its flow differs by more than this, and it has this much more than is needed. */
const changes = 0.05;
const spare = 1.2;

export const refillingForm: FormRules = {
  refills: true,
  released: ({ terms }) => terms.requests,
  need: (perSecond) => perSecond,
  claim: (need, _, { terms }) => hitsFor(need, terms.lengthSeconds),

  bucketFor({ limits, weight, random }, { holder, grants: { newest } }, lasting, need, isChanged) {
    const isFresh = newest === undefined || lasting === undefined || lasting.tokens === 0;
    let bucket: GrantedBucket | undefined;
    for (const { level, terms } of limits) {
      const { requests, lengthSeconds } = terms;
      const share = (requests * holder.weight) / Math.max(holder.weight, weight);
      const had = newest === undefined ? 0 : hitsOf(newest, lengthSeconds);
      const wanted = Math.max(1, Math.min(hitsFor(need, lengthSeconds), had + share));
      const hits = Math.min(wanted, level * holder.weight);
      const rounded = hits < wanted && hits < 2 ? Math.floor(hits + random()) : hits;
      const next = refillingBucket(rounded, lengthSeconds, isFresh);
      if (bucket === undefined || next.perFill * bucket.fillSeconds < bucket.perFill * next.fillSeconds)
        bucket = next;
    }
    if (bucket === undefined || isFresh || isChanged) return bucket;
    const flow = bucket.perFill / bucket.fillSeconds;
    const flowed = newest.perFill / newest.fillSeconds;
    const isSmall = newest.tokens < Math.min(newest.perFill, bucket.tokens);
    return isSmall || Math.abs(flow - flowed) > changes * flowed ? bucket : undefined;
  },

  /** A client's first bucket gets half of the free hits, because others will follow, and surplus hits return late. */
  within(bucket, member, limits) {
    const { newest } = member.grants;
    const isFirst = newest === undefined || newest.tokens === 0;
    let within = bucket;
    for (const { accounts, terms } of limits) {
      for (const account of accounts) {
        const { free } = account;
        const isAlone = newest === undefined || member.partOf(account).keeps === 0;
        // The flow of the newest bucket ends when this one arrives. A full one adds its tokens.
        const isAdded = bucket.isFresh && !isAlone;
        const had = isAlone ? 0 : hitsOf(newest, terms.lengthSeconds) - (isAdded ? newest.tokens : 0);
        const max = had + (isFirst ? Math.max(Math.min(1, free), free / 2) : free);
        if (hitsOf(within, terms.lengthSeconds) > max)
          within = refillingBucket(max, terms.lengthSeconds, bucket.isFresh);
        if (isAdded && within.tokens > free)
          within = free < 1 ? nothing : { ...within, tokens: Math.floor(free) };
      }
    }
    return within;
  },

  clearsFromMs: () => Number.POSITIVE_INFINITY,
  clears: () => false,
};

/** Returns the size of a refilling bucket for this many hits per second. */
function hitsFor(perSecond: number, windowSeconds: number): number {
  return perSecond > 0 ? Math.ceil(perSecond * spare * (windowSeconds + 1)) + 2 : 0;
}
