import type { Used } from './terms.ts';

/**
 * What one client may still use at most, by what was sent to it and what it reported. Its uses are of the oldest grant first, as
 * each one replaced the one before: what it did not use is then the most that it can have left.
 */
class Grant {
  /** The bucket's size, and what flows into it. */
  tokens = 0;
  perFill = 0;
  fillSeconds = 1;
  /** Full when it began, whatever was left before. */
  isFresh = true;
  /** Exact form: hits that were not reported yet, and those that it likely has: reports are likely about what was sent last. */
  left = 0;
  likelyLeft = 0;
  sentMs = 0;
  /** It is known to have arrived. */
  hasArrived = false;
  /** From then on nothing of it can be used. */
  untilMs = 0;
  /** What replaced it. */
  next: Grant | undefined = undefined;
}

/**
 * Grants that ended, for those to come: each report replaces one, and what lives for seconds is expensive to collect.
 * Chosen: as many as may be sent in a tick.
 */
const spares: Grant[] = [];
const mostSpares = 10_000;

/** Chosen: what is sent so soon after a report was there for all of the next one. */
const appliedMs = 1_000;
/** Chosen: a report that comes so soon after something was sent may say nothing of it, though the peer's transport has it. */
const inUseMs = 2_000;

export type Bucket = Readonly<Pick<Grant, 'tokens' | 'perFill' | 'fillSeconds' | 'isFresh'>>;

/** What can come from buckets that refill, each of which replaced the one before it. */
class Flow {
  readonly #seconds: number;
  #before = 0;
  #tokens = 0;
  #perFill = 0;
  #fillSeconds = 1;

  constructor(seconds: number) {
    this.#seconds = seconds;
  }

  get most(): number {
    return this.#before + this.#tokens + Math.floor((this.#seconds * this.#perFill) / this.#fillSeconds);
  }

  add({ tokens, perFill, fillSeconds, isFresh }: Bucket): void {
    if (isFresh) {
      this.#before = this.most;
      this.#tokens = 0;
      this.#perFill = 0;
    }
    this.#tokens = Math.max(this.#tokens, tokens);
    // A bucket that changes keeps the fraction of its tokens, and flows at one rate or the other.
    if (perFill * this.#fillSeconds < this.#perFill * fillSeconds) return;
    this.#perFill = perFill;
    this.#fillSeconds = fillSeconds;
  }
}

export class Grants {
  readonly #refills: boolean;
  readonly #settleMs: number;
  #oldest: Grant | undefined;
  #newest: Grant | undefined;
  #reportedMs: number;
  #former: Grants | undefined;
  /**
   * Until all that another limiter sent before has been replaced: hits that were sent, that were reported, and those among them that may
   * be of these grants.
   */
  #beginning: { sent: number; reported: number; own: number } | undefined = { sent: 0, reported: 0, own: 0 };

  /**
   * `settleMs`: a report that comes so long after something was sent was made after it arrived. `former`: of the other form, which
   * may be used until it has ended.
   */
  constructor(options: { refills: boolean; settleMs: number; former?: Grants | undefined }, nowMs: number) {
    this.#refills = options.refills;
    this.#settleMs = options.settleMs;
    this.#former = options.former;
    this.#reportedMs = nowMs;
  }

  /** What was sent last. */
  get newest(): Readonly<Grant> | undefined {
    return this.#newest;
  }

  /** In the exact form, of all that it may be using. */
  get left(): number {
    let left = 0;
    for (let grant = this.#oldest; grant !== undefined; grant = grant.next) left += grant.left;
    return left;
  }

  /** `untilMs`: from when on nothing of it can be used. */
  send({ tokens, perFill, fillSeconds, isFresh }: Bucket, nowMs: number, untilMs: number): void {
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

  /** Reports that come from now on were made after all that was sent until then had arrived. */
  arrived(sentMs: number): void {
    for (let grant = this.#oldest; grant !== undefined; grant = grant.next)
      if (grant.sentMs <= sentMs) grant.hasArrived = true;
  }

  /** The newest was sent again. */
  renew(untilMs: number): void {
    if (this.#newest !== undefined) this.#newest.untilMs = Math.max(this.#newest.untilMs, untilMs);
  }

  /**
   * The most that it may use in a window, or have used without a report. In the refilling form what it reported in the window is
   * part of that: `used`, where it is known. `next`: as if this was sent as well; `renewedMs`: as if the newest was sent again.
   */
  mayUseIn(startMs: number, endMs: number, used?: number, next?: Bucket, renewedMs = 0): number {
    const former = this.#former?.mayUseIn(startMs, endMs) ?? 0;
    return (
      former +
      (this.#refills
        ? this.#flowsIn(startMs, endMs, used, next, renewedMs)
        : this.#leftIn(startMs, endMs, next, renewedMs))
    );
  }

  #isUsableIn(grant: Grant, startMs: number, endMs: number, renewedMs: number): boolean {
    return grant.sentMs < endMs && Math.max(grant.untilMs, grant === this.#newest ? renewedMs : 0) > startMs;
  }

  #leftIn(startMs: number, endMs: number, next: Bucket | undefined, renewedMs: number): number {
    let left = next?.tokens ?? 0;
    for (let grant = this.#oldest; grant !== undefined; grant = grant.next)
      if (this.#isUsableIn(grant, startMs, endMs, renewedMs)) left += grant.left;
    return left;
  }

  /** Less than the whole, where it did not use all: only what it may use since the last report was made is not known. */
  #flowsIn(startMs: number, endMs: number, used?: number, next?: Bucket, renewedMs = 0): number {
    const sinceMs = Math.max(startMs, this.#reportedMs - this.#settleMs);
    const whole = new Flow((endMs - startMs) / 1000);
    const inUse = new Flow((endMs - sinceMs) / 1000);
    for (let grant = this.#oldest; grant !== undefined; grant = grant.next) {
      if (!this.#isUsableIn(grant, startMs, endMs, renewedMs)) continue;
      whole.add(grant);
      if (grant.untilMs > this.#reportedMs) inUse.add(grant);
    }
    if (next !== undefined) {
      whole.add(next);
      inUse.add(next);
    }
    return used === undefined ? whole.most : Math.min(whole.most, used + inUse.most);
  }

  /**
   * Takes in a report. Gives how many of the hits can be of these grants, how many could not have been used, and how many are given back.
   * `most`: hits that it may have used of what another limiter sent. `windowMs`: when the windows begin that are still counted.
   */
  report(
    { allowed, denied }: Used,
    nowMs: number,
    { windowMs, most }: { windowMs: number; most: number },
  ): { own: number; over: number; returned: number } {
    const newest = this.#newest;
    if (newest !== undefined) {
      const wasThere = newest.sentMs < this.#reportedMs + appliedMs;
      newest.likelyLeft = denied > 0 && wasThere ? 0 : Math.max(0, newest.likelyLeft - allowed);
    }
    const { own, over } = this.#useAll(allowed, nowMs, most);
    this.#reportedMs = nowMs;
    if (this.#former?.mayUseIn(windowMs, nowMs + 1) === 0) this.#former = undefined;
    const applied = this.#appliedAt(nowMs);
    if (applied !== undefined) this.#beginning = undefined;
    return { own, over, returned: this.#drop(applied, nowMs, windowMs) };
  }

  /** The last that was in use when a report of this time was made. */
  #appliedAt(nowMs: number): Grant | undefined {
    let applied: Grant | undefined;
    for (let grant = this.#oldest; grant !== undefined; grant = grant.next)
      if (grant.sentMs <= nowMs - (grant.hasArrived ? inUseMs : this.#settleMs)) applied = grant;
    return applied;
  }

  /** Those before `applied` have been replaced. Gives what is left of those that are of no use any more. */
  #drop(applied: Grant | undefined, nowMs: number, windowMs: number): number {
    let isReplaced = applied !== undefined;
    let returned = 0;
    let before: Grant | undefined;
    for (let grant = this.#oldest; grant !== undefined; ) {
      const { next } = grant;
      if (grant === applied) isReplaced = false;
      if (isReplaced) grant.untilMs = Math.min(grant.untilMs, nowMs);
      // One that refills was of use in its window.
      if (grant.untilMs > nowMs || (this.#refills && grant.untilMs > windowMs)) before = grant;
      else {
        if (!this.#refills) returned += grant.left;
        if (before === undefined) this.#oldest = next;
        else before.next = next;
        if (spares.length < mostSpares) spares.push(grant);
      }
      grant = next;
    }
    this.#newest = before;
    return returned;
  }

  #useAll(used: number, nowMs: number, most: number): { own: number; over: number } {
    const over = this.#beyond(used, nowMs, most);
    const beginning = this.#beginning;
    if (beginning === undefined) return { own: used - over, over };
    beginning.reported += used - over;
    const { sent, reported, own: before } = beginning;
    // Another limiter has charged the rest. Of what refills all counts, as it is bounded by what was sent.
    beginning.own = this.#refills ? reported : Math.min(sent, reported);
    return { own: beginning.own - before, over };
  }

  /** Of buckets that refill since the report before, and a bit more: reports may be late. */
  #beyond(used: number, nowMs: number, most: number): number {
    if (this.#beginning !== undefined)
      return Math.max(0, used - Math.max(0, most - this.#beginning.reported));
    if (this.#refills) return Math.max(0, used - this.mayUseIn(this.#reportedMs - this.#settleMs, nowMs + 1));
    let rest = used;
    for (let grant = this.#oldest; grant !== undefined; grant = grant.next) {
      const taken = Math.min(rest, grant.left);
      grant.left -= taken;
      rest -= taken;
    }
    return rest;
  }
}
