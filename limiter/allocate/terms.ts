/**
 * What the allocator is asked, and what it answers. A pool is the limits of one rule for one bucket id. Its clients each have a
 * share of it: what they may use without asking. Leases are the same thing with a limiter as the client.
 *
 *   const allocator = new Allocator({ store, limiter, random, … });    one for each thread; `limiter` names it in ledgers
 *   const share = allocator.open(key, terms, holder, nowMs);           a stream reports a bucket for the first time
 *   share.report({ allowed, denied }, nowMs);                          each report of the bucket, the first one among them
 *   share.close();                                                     the stream broke, or the bucket is abandoned
 *   allocator.change(key, terms, nowMs);                               the rule says something else, or an override does
 *   allocator.reset(keys);                                             counters were reset
 *   allocator.tick(nowMs);                                             every `tickMs`: grants at a window's start, renewals
 *   allocator.drain(nowMs)                                             every assignment is renewed before streams end
 *
 * An assignment is charged to the counters first. It reaches `holder.push` when the store has answered: within the call where
 * the store is in this process, else later. Nothing is pushed while the store fails: then assignments end with their TTL, and
 * the filter does what its configuration says. All that is asked in one turn of the event loop is one call of the store.
 *
 * Never above the limit. An assignment is charged to every window in which it can still be used, from the moment it is sent until
 * `ttlSeconds` and `settleMs` later, so that nobody has to do anything when a limiter dies. What a client may still use is at
 * most all that was sent to it since the last report which it can only have made after applying it; `settleMs` is how much
 * later a report has to come for that. What a report says was used comes off the oldest grant first. What has been replaced is
 * given back then, and only then. A share that is closed gives nothing back.
 *
 * Times are those of this limiter's clock, in milliseconds since the epoch. Limiters whose clocks differ begin windows at
 * different moments, as they do when they count hits.
 */
import type { Counter } from '../stores/operation.ts';

/** How often `Allocator.tick` is to be called. */
export const tickMs = 250;

/**
 * `exact`: a number of hits for a window, which is handed out over its course. `refilling`: buckets of tokens whose sizes, and
 * what flows into them in a window, do not exceed the limit together.
 */
export type Form = 'exact' | 'refilling';

/** A window of a limit, as `Window` in decide/ has it, and the counter's key in it. */
export interface SharedWindow {
  readonly key: string;
  readonly startSeconds: number;
  /** Infinity where one counter counts for good. */
  readonly endSeconds: number;
  /** How long the counter has to live, from the moment that was asked about. */
  readonly ttlSeconds: number;
}

export interface SharedLimit {
  /** The counter of its plan; one without a `bound`, or with one that `holdsTotal`, counts a fixed window. */
  readonly counter: Counter;
  /** Hits in a window. 0: nobody gets any. */
  readonly requests: number;
  /** Of a calendar's window the usual length. */
  readonly lengthSeconds: number;
  /** A token bucket. */
  readonly hasBurst: boolean;
  windowAt(nowMs: number): SharedWindow;
}

export interface PoolTerms {
  readonly form: Form;
  /** At least one. An assignment is charged to all of them, so that the tightest decides. */
  readonly limits: readonly SharedLimit[];
}

/** Something to be sent for one bucket, in place of all that was sent for it before. */
export interface Assignment {
  /** The bucket's size: `max_tokens`. 0: send DENY_ALL for `ttlSeconds`. */
  readonly tokens: number;
  /** `tokens_per_fill` and `fill_interval`, in whole seconds. */
  readonly perFill: number;
  readonly fillSeconds: number;
  /** `assignment_time_to_live`. */
  readonly ttlSeconds: number;
  /**
   * Send DENY_ALL and then the bucket in the same response, so that it begins full. False: the same bucket as the last time, of
   * which what is left stays; only its TTL begins anew. Or a refilling one that keeps the fraction of its tokens.
   */
  readonly isFresh: boolean;
}

/** Who has a share. */
export interface Holder {
  /** Above 0; shares of clients who need more than they get are in proportion. */
  readonly weight: number;
  /** Called once the assignment is charged: it counts as sent from now on. Not after `close`. */
  push(assignment: Assignment): void;
}

/** What a client says happened since its last report. Numbers that are no counts are taken for 0. */
export interface Used {
  readonly allowed: number;
  readonly denied: number;
}

/** One client's share of a pool. */
export interface Share {
  readonly holder: Holder;
  /**
   * A report, which may have waited here since `cameMs`; its interval is measured by that. Gives how many hits it says were allowed beyond what the client could have used,
   * 0 as a rule: these are charged to nobody else, count in no demand, and are for the caller to count and log.
   */
  report(used: Used, nowMs: number, cameMs?: number): number;
  /**
   * The client has all that was pushed up to this moment, and had it before it makes the next report: an HTTP/2 PING that was sent
   * behind it is answered. Without that, `settleMs` is waited for, and more of the limit stays unused meanwhile.
   */
  arrived(sentMs: number): void;
  /** All that it may still use counts as used. Assignments pushed before stay what they are: send an end where that can be sent. */
  close(): void;
}

/** Hits of a share, or of all shares of a pool, since it was opened. */
export interface ShareTotals {
  readonly assigned: number;
  readonly used: number;
  readonly denied: number;
  /** Given back to the counters. */
  readonly returned: number;
  /** Reported beyond what could have been used. */
  readonly overReported: number;
}

/** For operators: who may use how much. */
export interface ShareView extends ShareTotals {
  readonly pool: string;
  readonly form: Form;
  readonly holder: Holder;
  /** What it may use now at most: in the exact form in all, in the refilling form in a window. */
  readonly mayUse: number;
  /** Of its demand, hits a second. */
  readonly demand: number;
  readonly sinceMs: number;
  /** When its assignment ends; 0: it has none. */
  readonly endsMs: number;
}

export interface Allocating {
  /** A share of the pool of this key, which begins with the first one; its terms count then, and others by `change` alone. */
  open(pool: string, terms: PoolTerms, holder: Holder, nowMs: number): Share;
  /**
   * Shares that are open go on under the new terms with the next tick: less is sent at once, and what is left of former grants
   * comes back with reports. `undefined`: the pool ends, and its shares are closed.
   */
  change(pool: string, terms: PoolTerms | undefined, nowMs: number): void;
  /** Counters with these keys are empty: what shares may still use is charged to them anew, and the rest is to be had again. */
  reset(keys: readonly string[]): void;
  /**
   * What time brings, of pools with so many shares and one more pool at most. Whether that was all; if not, it is to be called again
   * in another turn of the event loop.
   */
  tick(nowMs: number, mostShares?: number): boolean;
  /** Renews all assignments with their whole TTL, and settles when the last one is pushed, or could not be. Nothing is granted after. */
  drain(nowMs: number): Promise<void>;
  list(pool?: string): Iterable<ShareView>;
  /** What all shares had, those that are closed among them; undefined for a pool without shares. */
  totals(pool: string): ShareTotals | undefined;
}

/** The form of a rule's assignments where its field `assign` does not say. */
export function defaultForm(limits: readonly Pick<SharedLimit, 'lengthSeconds' | 'hasBurst'>[]): Form {
  return limits.every(({ lengthSeconds, hasBurst }) => lengthSeconds >= 60 && !hasBurst)
    ? 'exact'
    : 'refilling';
}
