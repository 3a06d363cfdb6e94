/** The interface of pools: their terms, and the messages between clients and the owners of their streams. */
import type { Counter } from '../stores/operation.ts';

/**
 * `exact`: a number of hits for a window, which is handed out over its course. `refilling`: buckets of tokens whose sizes and flow in
 * a window together do not exceed the limit.
 */
export type AssignmentForm = 'exact' | 'refilling';

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
  readonly form: AssignmentForm;
  /** The limits, at least one. An assignment is charged to all of them, so that the tightest decides. */
  readonly limits: readonly SharedLimit[];
}

/** A bucket of tokens, as Envoy has it. */
export interface GrantedBucket {
  /** `max_tokens`. 0: everything is denied. */
  readonly tokens: number;
  /** `tokens_per_fill` and `fill_interval`, in whole seconds. */
  readonly perFill: number;
  readonly fillSeconds: number;
  /**
   * Send DENY_ALL and then the bucket in the same response, so that it begins full. False: the same bucket as last time, which keeps
   * its tokens, and only its TTL begins again; or a refilling one that keeps the fraction of its tokens.
   */
  readonly isFresh: boolean;
}

/** What happens to hits of a share: charged ahead, used, denied, given back, and reported beyond what could have been used. */
export const hitKinds = ['assigned', 'used', 'denied', 'returned', 'overReported'] as const;
export type HitKind = (typeof hitKinds)[number];

/** The owner of a share. */
export interface Holder {
  /** Above 0. Shares of clients that need more than they get are in proportion to it. */
  readonly weight: number;
  /**
   * Called once the bucket is charged: it counts as sent from now on, with the TTL of the allocator, and replaces everything sent before.
   * Not called after `close`.
   */
  push(bucket: GrantedBucket): void;
  /** Counts hits of the share in statistics. */
  count(kind: HitKind, hits: number): void;
}

/** A client's report of the hits since its last report: whole numbers, not negative. */
export interface ClientReport {
  readonly allowed: number;
  readonly denied: number;
}

/** One client's share of a pool. */
export interface Share {
  /**
   * Takes in a report, which may have waited here since `cameMs`, by the monotonic clock. Its interval is measured by that time. Returns
   * how many hits were allowed beyond what the client could have used, normally 0. These are charged to no other client and count in no
   * demand.
   */
  report(used: ClientReport, cameMs?: number): number;
  /**
   * Records that the client has everything that was pushed up to this moment, and had it before its next report: it answered an
   * HTTP/2 PING that was sent afterward. `sentMs`: by the monotonic clock. Without this call, the share waits for `settleMs`, and more
   * of the limit stays unused meanwhile.
   */
  arrived(sentMs: number): void;
  /** Counts everything that the client may still use as used. Earlier assignments stay valid: send an end if the protocol allows it. */
  close(): void;
  view(): ShareView;
}

/** A share, as operators see it: its hits of each kind since it was opened, and its state. */
export interface ShareView extends Readonly<Record<HitKind, number>> {
  readonly form: AssignmentForm;
  readonly weight: number;
  /** The most that the client may use now: in the exact form in total, in the refilling form in a window. */
  readonly mayUse: number;
  /** The hits that it wants per second. */
  readonly demand: number;
  readonly sinceMs: number;
  /** The time at which its assignment ends without a renewal; 0: it has none. */
  readonly endsMs: number;
}

/** Returns the form of a rule's assignments if its field `assign` is not set. */
export function defaultForm(
  limits: readonly Pick<SharedLimit, 'lengthSeconds' | 'hasBurst'>[],
): AssignmentForm {
  return limits.every(({ lengthSeconds, hasBurst }) => lengthSeconds >= 60 && !hasBurst)
    ? 'exact'
    : 'refilling';
}

/** Whether two terms of one pool say the same, by the windows of this time. */
export function sameTerms(one: PoolTerms, other: PoolTerms, nowMs: number): boolean {
  const textOf = ({ form, limits }: PoolTerms): string =>
    JSON.stringify([
      form,
      limits.map((limit) => [limit.requests, limit.lengthSeconds, limit.hasBurst, limit.windowAt(nowMs)]),
    ]);
  return one === other || textOf(one) === textOf(other);
}
