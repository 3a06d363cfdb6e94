import { longAgoMs } from './pool-times.ts';
import type { ClientReport, GrantedBucket } from './terms.ts';

/**
 * The most that one client may still use, by what was sent to it and what it reported. Its uses count for the oldest grant first,
 * because each grant replaced the one before. What the client did not use of it is the most that it can have left.
 */
class Grant {
  /** The size of the bucket, and its flow. */
  tokens = 0;
  perFill = 0;
  fillSeconds = 1;
  /** The bucket was full when it began, whatever was left before. */
  isFresh = true;
  /** Exact form: hits not yet reported, and the hits that the client likely has left: reports are likely about the last grant sent. */
  left = 0;
  likelyLeft = 0;
  sentMs = 0;
  /** The client is known to have received it. */
  hasArrived = false;
  /** The time from which nothing of it can be used. */
  untilMs = 0;
  /** The grant that replaced it. */
  next: Grant | undefined = undefined;
}

/**
 * Ended grants for reuse: each report replaces one, and objects that live for seconds are expensive to collect.
 * Chosen: as many as may be sent in a tick.
 */
const spares: Grant[] = [];
const maxSpares = 10_000;

/** A report that arrives at least this long after a grant was sent was made after the grant arrived. */
export const settleMs = 6_000;
/** Chosen: a grant sent within this time after a report was in effect for the whole interval of the next report. */
const appliedMs = 1_000;
/** Chosen: a report this soon after a grant was sent may not reflect it, even if the client's transport has received it. */
const inUseMs = 2_000;

/** A proposed message: a bucket, or the newest one again. */
export type Proposal = GrantedBucket | 'renew';

/** The most hits from refilling buckets that replaced one another, so that only one of them flows at a time. */
class Flow {
  readonly #seconds: number;
  /** Tokens of full buckets, and what larger ones can have added. */
  #tokens = 0;
  #last = 0;
  #perFill = 0;
  #fillSeconds = 1;

  constructor(seconds: number) {
    this.#seconds = seconds;
  }

  get max(): number {
    return this.#tokens + Math.floor((this.#seconds * this.#perFill) / this.#fillSeconds);
  }

  add({ tokens, perFill, fillSeconds, isFresh }: GrantedBucket): void {
    // A bucket that changes keeps the fraction of its tokens.
    this.#tokens += isFresh ? tokens : Math.max(0, tokens - this.#last);
    this.#last = tokens;
    if (perFill * this.#fillSeconds < this.#perFill * fillSeconds) return;
    this.#perFill = perFill;
    this.#fillSeconds = fillSeconds;
  }
}

export class Grants {
  readonly #refills: boolean;
  #oldest: Grant | undefined;
  #newest: Grant | undefined;
  /** The time of the last report, or of the begin. */
  reportedMs: number;
  /**
   * Hits that were sent, hits that were reported, and those of them that may belong to these grants. Undefined once everything that
   * another limiter sent before has been replaced.
   */
  #beginning: { sent: number; reported: number; own: number } | undefined = { sent: 0, reported: 0, own: 0 };

  constructor(refills: boolean, nowMs: number) {
    this.#refills = refills;
    this.reportedMs = nowMs;
  }

  /** The last grant sent. */
  get newest(): Readonly<Grant> | undefined {
    return this.#newest;
  }

  /** The hits left in the exact form, of all grants that the client may be using. */
  get left(): number {
    let left = 0;
    for (let grant = this.#oldest; grant !== undefined; grant = grant.next) left += grant.left;
    return left;
  }

  /** Records a grant. `untilMs`: the time from which nothing of it can be used. */
  send({ tokens, perFill, fillSeconds, isFresh }: GrantedBucket, nowMs: number, untilMs: number): void {
    const grant = spares.pop() ?? new Grant();
    grant.tokens = tokens;
    grant.perFill = perFill;
    grant.fillSeconds = fillSeconds;
    grant.isFresh = isFresh;
    grant.left = this.#refills ? 0 : tokens;
    grant.likelyLeft = grant.left;
    grant.sentMs = nowMs;
    grant.hasArrived = false;
    grant.untilMs = untilMs;
    grant.next = undefined;
    if (this.#beginning !== undefined) this.#beginning.sent += grant.left;
    if (this.#newest === undefined) this.#oldest = grant;
    else this.#newest.next = grant;
    this.#newest = grant;
  }

  /** Records that all grants sent until `sentMs` have arrived. Later reports were made after that. */
  arrived(sentMs: number): void {
    for (let grant = this.#oldest; grant !== undefined; grant = grant.next)
      if (grant.sentMs <= sentMs) grant.hasArrived = true;
  }

  /** Records that the newest grant was sent again. */
  renew(untilMs: number): void {
    if (this.#newest !== undefined) this.#newest.untilMs = Math.max(this.#newest.untilMs, untilMs);
  }

  /**
   * Returns the most that the client may use in a window, or has used without a report. In the refilling form this includes what it
   * reported in the window: `used`, if known. `proposal`: as if this was sent as well, until that time.
   */
  mayUseIn(startMs: number, endMs: number, used?: number, proposal?: Proposal, untilMs = longAgoMs): number {
    const renewedMs = proposal === 'renew' ? untilMs : longAgoMs;
    const next = proposal === 'renew' ? undefined : proposal;
    if (this.#refills) return this.#flowsIn(startMs, endMs, used, next, renewedMs);
    let left = next?.tokens ?? 0;
    for (let grant = this.#oldest; grant !== undefined; grant = grant.next)
      if (this.#isUsableIn(grant, startMs, endMs, renewedMs)) left += grant.left;
    return left;
  }

  #isUsableIn(grant: Grant, startMs: number, endMs: number, renewedMs: number): boolean {
    return grant.sentMs < endMs && Math.max(grant.untilMs, grant === this.#newest ? renewedMs : 0) > startMs;
  }

  /** Returns less than the whole if the client did not use all: only its use since the last report was made is unknown. */
  #flowsIn(
    startMs: number,
    endMs: number,
    used: number | undefined,
    next: GrantedBucket | undefined,
    renewedMs: number,
  ): number {
    const sinceMs = Math.max(startMs, this.reportedMs - settleMs);
    const whole = new Flow((endMs - startMs) / 1000);
    const inUse = new Flow((endMs - sinceMs) / 1000);
    for (let grant = this.#oldest; grant !== undefined; grant = grant.next) {
      if (!this.#isUsableIn(grant, startMs, endMs, renewedMs)) continue;
      whole.add(grant);
      if (grant.untilMs > this.reportedMs) inUse.add(grant);
    }
    if (next !== undefined) {
      whole.add(next);
      inUse.add(next);
    }
    return used === undefined ? whole.max : Math.min(whole.max, used + inUse.max);
  }

  /**
   * Takes in a report. Returns how many of the hits can belong to these grants, how many could not have been used, and how many are
   * given back. `windowMs`: the start of the windows that still count. `max`: hits that the client may have used of another limiter's
   * grants.
   */
  report(
    { allowed, denied }: ClientReport,
    nowMs: number,
    windowMs: number,
    max: number,
  ): { own: number; over: number; returned: number } {
    const newest = this.#newest;
    if (newest !== undefined) {
      const wasThere = newest.sentMs < this.reportedMs + appliedMs;
      newest.likelyLeft = denied > 0 && wasThere ? 0 : Math.max(0, newest.likelyLeft - allowed);
    }
    const over = this.#beyond(allowed, nowMs, max);
    const own = this.#ownOf(allowed - over);
    this.reportedMs = nowMs;
    const applied = this.#appliedAt(nowMs);
    if (applied !== undefined) this.#beginning = undefined;
    return { own, over, returned: this.#drop(applied, nowMs, windowMs) };
  }

  /** Returns the last grant that was in use when a report of this time was made. */
  #appliedAt(nowMs: number): Grant | undefined {
    let applied: Grant | undefined;
    for (let grant = this.#oldest; grant !== undefined; grant = grant.next)
      if (grant.sentMs <= nowMs - (grant.hasArrived ? inUseMs : settleMs)) applied = grant;
    return applied;
  }

  /** Ends the grants before `applied`, which were replaced. Removes those without further use, and returns the hits left of them. */
  #drop(applied: Grant | undefined, nowMs: number, windowMs: number): number {
    let isReplaced = applied !== undefined;
    let returned = 0;
    let before: Grant | undefined;
    for (let grant = this.#oldest; grant !== undefined; ) {
      const { next } = grant;
      if (grant === applied) isReplaced = false;
      if (isReplaced) grant.untilMs = Math.min(grant.untilMs, nowMs);
      // A refilling grant is needed as long as its window counts.
      if (grant.untilMs > nowMs || (this.#refills && grant.untilMs > windowMs)) before = grant;
      else {
        if (!this.#refills) returned += grant.left;
        if (before === undefined) this.#oldest = next;
        else before.next = next;
        if (spares.length < maxSpares) spares.push(grant);
      }
      grant = next;
    }
    this.#newest = before;
    return returned;
  }

  /** Returns how many of the used hits can belong to these grants. */
  #ownOf(used: number): number {
    const beginning = this.#beginning;
    if (beginning === undefined) return used;
    beginning.reported += used;
    const { sent, reported, own: before } = beginning;
    // Another limiter has charged the rest. In the refilling form all hits count, because the grants sent bound them.
    beginning.own = this.#refills ? reported : Math.min(sent, reported);
    return beginning.own - before;
  }

  /**
   * Returns the hits that could not have been used. In the refilling form the time since the last report is extended by `settleMs`,
   * because reports may be late.
   */
  #beyond(used: number, nowMs: number, max: number): number {
    if (this.#beginning !== undefined) return Math.max(0, used - Math.max(0, max - this.#beginning.reported));
    if (this.#refills) return Math.max(0, used - this.mayUseIn(this.reportedMs - settleMs, nowMs + 1));
    let rest = used;
    for (let grant = this.#oldest; grant !== undefined; grant = grant.next) {
      const taken = Math.min(rest, grant.left);
      grant.left -= taken;
      rest -= taken;
    }
    return rest;
  }
}
