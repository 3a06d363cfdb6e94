/**
 * The interface of the allocator. A pool is the limits of one rule for one bucket id. Each of its clients has a share: what it may
 * use without asking. Leases work in the same way, with a limiter as the client.
 *
 *   const allocator = new Allocator({ store, limiter, random, … });    one for each thread; `limiter` names it in ledgers
 *   const share = allocator.open(key, terms, holder, nowMs);           a stream reports a bucket for the first time
 *   share.report({ allowed, denied }, nowMs);                          each report of the bucket, including the first one
 *   share.close();                                                     the stream broke, or the bucket is abandoned
 *   allocator.change(key, terms, nowMs);                               the rule or an override changed
 *   allocator.reset(keys);                                             counters were reset
 *   allocator.tick(nowMs);                                             every `tickMs`: grants at a window's start, renewals
 *   allocator.drain(nowMs)                                             every assignment is renewed before streams end
 *
 * An assignment is charged to the counters first. It reaches `holder.push` when the store has answered: within the call if the store
 * is in this process, otherwise later. Nothing is pushed while the store fails. Assignments then end with their TTL, and the filter
 * does what its configuration says. All questions of one turn of the event loop are one call of the store.
 *
 * The limit is never exceeded. An assignment is charged to every window in which it can still be used, from the moment it is sent
 * until `ttlSeconds` and `settleMs` later, so no action is needed when a limiter dies. A client may still use at most everything sent
 * to it since the last report that it can only have made after applying it. `settleMs` is how much later a report must arrive for
 * that. Reported uses count for the oldest grant first. Replaced hits are given back then, and only then. A closed share gives
 * nothing back.
 *
 * Times are those of this limiter's clock, in milliseconds since the epoch. Limiters whose clocks differ begin windows at
 * different moments, as they do when they count hits.
 */
import type { Counter } from '../stores/operation.ts';

/** The interval at which the caller calls `Allocator.tick`. */
export const tickMs = 250;

/**
 * `exact`: a number of hits for a window, which is handed out over its course. `refilling`: buckets of tokens whose sizes and flow in
 * a window together do not exceed the limit.
 */
export type Form = 'exact' | 'refilling';

/** A window of a limit, as `Window` in decide/ has it, and the counter's key in it. */
export interface SharedWindow {
  readonly key: string;
  readonly startSeconds: number;
  /** Infinity if one counter counts without end. */
  readonly endSeconds: number;
  /** How long the counter must live, from the time in question. */
  readonly ttlSeconds: number;
}

export interface SharedLimit {
  /** The counter of its plan; one without a `bound`, or with one that `holdsTotal`, counts a fixed window. */
  readonly counter: Counter;
  /** Hits in a window. 0: no client gets any. */
  readonly requests: number;
  /** The length of a window; for a calendar window the typical length. */
  readonly lengthSeconds: number;
  /** Whether the limit is a token bucket. */
  readonly hasBurst: boolean;
  windowAt(nowMs: number): SharedWindow;
}

export interface PoolTerms {
  readonly form: Form;
  /** The limits, at least one. An assignment is charged to all of them, so that the tightest decides. */
  readonly limits: readonly SharedLimit[];
}

/** A message to be sent for one bucket. It replaces everything sent for the bucket before. */
export interface Assignment {
  /** The bucket's size: `max_tokens`. 0: send DENY_ALL for `ttlSeconds`. */
  readonly tokens: number;
  /** `tokens_per_fill` and `fill_interval`, in whole seconds. */
  readonly perFill: number;
  readonly fillSeconds: number;
  /** `assignment_time_to_live`. */
  readonly ttlSeconds: number;
  /**
   * Send DENY_ALL and then the bucket in the same response, so that it begins full. False: the same bucket as last time, which keeps
   * its tokens, and only its TTL begins again; or a refilling one that keeps the fraction of its tokens.
   */
  readonly isFresh: boolean;
}

/** The owner of a share. */
export interface Holder {
  /** Above 0. Shares of clients that need more than they get are in proportion to it. */
  readonly weight: number;
  /** Called once the assignment is charged: it counts as sent from now on. Not called after `close`. */
  push(assignment: Assignment): void;
}

/** A client's report of the hits since its last report. Numbers that are no counts are taken as 0. */
export interface Used {
  readonly allowed: number;
  readonly denied: number;
}

/** One client's share of a pool. */
export interface Share {
  readonly holder: Holder;
  /**
   * Takes in a report, which may have waited here since `cameMs`; its interval is measured by that time. Returns how many hits were
   * allowed beyond what the client could have used, normally 0. These are charged to no other client and count in no demand. The
   * caller counts and logs them.
   */
  report(used: Used, nowMs: number, cameMs?: number): number;
  /**
   * Records that the client has everything that was pushed up to this moment, and had it before its next report: it answered an
   * HTTP/2 PING that was sent afterwards. Without this call, the share waits for `settleMs`, and more of the limit stays unused
   * meanwhile.
   */
  arrived(sentMs: number): void;
  /** Counts everything that the client may still use as used. Earlier assignments stay valid: send an end if the protocol allows it. */
  close(): void;
}

/** Hits of a share, or of all shares of a pool, since it was opened. */
export interface ShareTotals {
  readonly assigned: number;
  readonly used: number;
  readonly denied: number;
  /** Hits given back to the counters. */
  readonly returned: number;
  /** Hits reported beyond what could have been used. */
  readonly overReported: number;
}

/** A share, as operators see it. */
export interface ShareView extends ShareTotals {
  readonly pool: string;
  readonly form: Form;
  readonly holder: Holder;
  /** The most that the client may use now: in the exact form in total, in the refilling form in a window. */
  readonly mayUse: number;
  /** The hits that it wants per second. */
  readonly demand: number;
  readonly sinceMs: number;
  /** The time at which its assignment ends; 0: it has none. */
  readonly endsMs: number;
}

export interface Allocating {
  /** Opens a share of the pool with this key. The first share creates the pool with its terms. Later, only `change` changes them. */
  open(pool: string, terms: PoolTerms, holder: Holder, nowMs: number): Share;
  /**
   * Gives a pool other terms. Open shares continue under them with the next tick: less is sent at once, and what is left of earlier
   * grants returns with reports. `undefined`: the pool ends, and its shares are closed.
   */
  change(pool: string, terms: PoolTerms | undefined, nowMs: number): void;
  /** Records that counters with these keys are empty: what shares may still use is charged again, and the rest is available again. */
  reset(keys: readonly string[]): void;
  /**
   * Does the work that is due, for pools with this many shares and at most one more pool. Returns whether that was all. If not, call
   * it again in another turn of the event loop.
   */
  tick(nowMs: number, mostShares?: number): boolean;
  /**
   * Renews all assignments with their whole TTL. Resolves when the last one is pushed, or could not be. Nothing is granted
   * afterwards.
   */
  drain(nowMs: number): Promise<void>;
  list(pool?: string): Iterable<ShareView>;
  /** Returns the totals of all shares, including closed ones; undefined for a pool without shares. */
  totals(pool: string): ShareTotals | undefined;
}

/** Returns the form of a rule's assignments if its field `assign` is not set. */
export function defaultForm(limits: readonly Pick<SharedLimit, 'lengthSeconds' | 'hasBurst'>[]): Form {
  return limits.every(({ lengthSeconds, hasBurst }) => lengthSeconds >= 60 && !hasBurst)
    ? 'exact'
    : 'refilling';
}
