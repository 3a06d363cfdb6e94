/**
 * The exact form: a window's hits are released over its course. All are released some time before it ends, so that clients use them
 * up and report it. Hits that clients may have left at the end are also charged to the next window, if it is unknown in which of the
 * two a hit was used.
 */
import type { AccountedLimit } from './account.ts';
import { exactBucket, nothing } from './buckets.ts';
import { type FormRules, reportMs } from './demand.ts';

const aheadSeconds = 1.1 * (reportMs / 1000);
/** Hits are released this much ahead of a window's course. The course ends this long before the window, or with half of a short one. */
const leadSeconds = 6;
const tailSeconds = 30;
/** Chosen: a client that has this many times what it needs gets less if others need more. */
const tooMuch = 2;
/**
 * If the limit is short, a client is denied everything from this long after a report until the next one, if that is the last but one
 * of a window. So its last grant is all that it may be using, and the limiter has the rest of the hits back in time.
 * Chosen: `inUseMs` of grants.ts and some more before a report.
 */
const clearsFromMs = 2_500;
const clearsToMs = 2_900;

export const exactForm: FormRules = {
  refills: false,

  released({ terms: { requests }, current: { startMs, endMs } }, nowMs) {
    const seconds = (endMs - startMs) / 1000;
    const released =
      ((nowMs - startMs) / 1000 + leadSeconds) / (seconds - Math.min(tailSeconds, seconds / 2));
    return requests * Math.min(1, released);
  },

  need(perSecond, max, leftSeconds) {
    const expected = perSecond * Math.min(aheadSeconds, Math.max(aheadSeconds / 3, leftSeconds));
    // Two standard deviations of random arrivals are added.
    const needed = Math.ceil(expected + 2 * Math.sqrt(expected)) + (perSecond > 0 ? 1 : 0);
    return Math.min(Math.max(1, max), needed);
  },

  /** For as long as a steady flow would use the released hits, the needs of others are ignored. */
  claim(need, rate, { terms: { requests }, current: { startMs, endMs } }, released, nowMs) {
    const share = requests === 0 ? 0 : released / requests;
    const seconds = (share * (endMs - startMs) - (nowMs - startMs) - reportMs) / 1000;
    return Math.max(need, rate * Math.max(0, seconds));
  },

  bucketFor({ limits, random }, member, lasting, need, isChanged) {
    const left = lasting?.likelyLeft ?? 0;
    const { newest } = member.grants;
    let room = need;
    let max = Number.POSITIVE_INFINITY;
    for (const { level, current } of limits) {
      const { used, keeps } = member.partOf(current);
      const hits = level * member.holder.weight - used;
      max = Math.min(max, hits);
      room = Math.min(room, hits - keeps);
    }
    if (isChanged && left > max) return exactBucket(Math.max(0, Math.floor(room)));
    // Rounded up or down at random, so that clients with shares below one take turns.
    const tokens = Math.floor(room + (room < need ? random() : 0));
    if (tokens > left && left * 1.1 < need) return exactBucket(tokens);
    if (member.rate !== undefined && left > tooMuch * need && isShort(limits))
      return exactBucket(Math.floor(need));
    // It has likely used up its grant. The hits that may be left of it are returned once another grant was sent.
    return left === 0 && newest !== undefined && newest.left > 0 ? nothing : undefined;
  },

  within(bucket, { grants: { newest } }, limits) {
    let min = bucket.tokens;
    for (const { accounts } of limits) for (const { free } of accounts) min = Math.min(min, free);
    if (min === bucket.tokens) return bucket;
    return min > (newest?.likelyLeft ?? 0) ? { ...bucket, tokens: min } : undefined;
  },

  clearsFromMs(limits) {
    if (!isShort(limits)) return Number.POSITIVE_INFINITY;
    return Math.min(...limits.map(({ current }) => current.endMs)) - 3 * reportMs;
  },

  clears({ isPending, grants: { reportedMs, newest, left } }, limits, nowMs) {
    const sinceMs = nowMs - reportedMs;
    if (isPending || sinceMs < clearsFromMs || sinceMs > clearsToMs) return false;
    const isLastButOne = limits.some(({ current: { endMs } }) => {
      const leftMs = endMs - reportedMs;
      return leftMs > 2 * reportMs && leftMs <= 3 * reportMs;
    });
    return isLastButOne && newest?.hasArrived === true && newest.tokens > 0 && left > newest.likelyLeft;
  },
};

/** Whether some clients need more than is available, by the last computed level. */
function isShort(limits: readonly AccountedLimit[]): boolean {
  return limits.some(({ level }) => level < Number.POSITIVE_INFINITY);
}
