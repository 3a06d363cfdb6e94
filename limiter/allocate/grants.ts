/**
 * What one client may still use at most, by what was sent to it and what it reported. Its uses are of the oldest grant first, as
 * each one replaced the one before: what it did not use is then the most that it can have left.
 */
interface Grant {
  /** The bucket's size, and what flows into it. */
  readonly tokens: number;
  readonly perFill: number;
  readonly fillSeconds: number;
  /** Full when it began, whatever was left before. */
  readonly isFresh: boolean;
  /** Exact form: hits that were not reported yet, and those that it likely has: reports are likely about what was sent last. */
  left: number;
  likelyLeft: number;
  readonly sentMs: number;
  /** It is known to have arrived. */
  hasArrived: boolean;
  /** From then on nothing of it can be used. */
  untilMs: number;
}

/** Chosen: what is sent so soon after a report was there for all of the next one. */
const appliedMs = 1_000;
/** Chosen: a report that comes so soon after something was sent may say nothing of it, though the peer's transport has it. */
const inUseMs = 2_000;

export type Bucket = Pick<Grant, 'tokens' | 'perFill' | 'fillSeconds' | 'isFresh'>;

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
  #list: Grant[] = [];
  #reportedMs: number;
  #former: Grants | undefined;
  /** What is reported is of these grants: all that another limiter sent before had been replaced when it reported last. */
  #isOwn = false;

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
  get newest(): Grant | undefined {
    return this.#list.at(-1);
  }

  /** In the exact form, of all that it may be using. */
  get left(): number {
    let left = 0;
    for (const grant of this.#list) left += grant.left;
    return left;
  }

  /** `untilMs`: from when on nothing of it can be used. */
  send({ tokens, perFill, fillSeconds, isFresh }: Bucket, nowMs: number, untilMs: number): void {
    const left = this.#refills ? 0 : tokens;
    this.#list.push({
      tokens,
      perFill,
      fillSeconds,
      isFresh,
      left,
      likelyLeft: left,
      sentMs: nowMs,
      hasArrived: false,
      untilMs,
    });
  }

  /** Reports that come from now on were made after all that was sent until then had arrived. */
  arrived(sentMs: number): void {
    for (const grant of this.#list) if (grant.sentMs <= sentMs) grant.hasArrived = true;
  }

  /** The newest was sent again. */
  renew(untilMs: number): void {
    const grant = this.#list.at(-1);
    if (grant !== undefined) grant.untilMs = Math.max(grant.untilMs, untilMs);
  }

  /**
   * The most that it may use in a window, or have used without a report. In the refilling form what it reported in the window is
   * part of that: `used`, where it is known. `next`: as if this was sent as well; `renewedMs`: as if the newest was sent again.
   */
  mayUseIn(startMs: number, endMs: number, used?: number, next?: Bucket, renewedMs = 0): number {
    const former = this.#former?.mayUseIn(startMs, endMs) ?? 0;
    const { newest } = this;
    // Less than the whole, where it did not use all: only what it may use since the last report was made is not known.
    const sinceMs = Math.max(startMs, this.#reportedMs - this.#settleMs);
    const whole = new Flow((endMs - startMs) / 1000);
    const inUse = new Flow((endMs - sinceMs) / 1000);
    let left = next?.tokens ?? 0;
    for (const grant of this.#list) {
      const untilMs = grant === newest ? Math.max(grant.untilMs, renewedMs) : grant.untilMs;
      if (grant.sentMs >= endMs || untilMs <= startMs) continue;
      left += grant.left;
      if (!this.#refills) continue;
      whole.add(grant);
      if (grant.untilMs > this.#reportedMs) inUse.add(grant);
    }
    if (!this.#refills) return former + left;
    if (next !== undefined) {
      whole.add(next);
      inUse.add(next);
    }
    return former + (used === undefined ? whole.most : Math.min(whole.most, used + inUse.most));
  }

  /**
   * Takes in a report. `isDenied`: it needed more. Gives how many of the hits could not have been used, and how many are given back. `windowMs`: when the
   * windows begin that are still counted.
   */
  report(
    used: number,
    isDenied: boolean,
    nowMs: number,
    windowMs: number,
  ): { over: number; returned: number } {
    const { newest } = this;
    if (newest !== undefined) {
      const wasThere = newest.sentMs < this.#reportedMs + appliedMs;
      newest.likelyLeft = isDenied && wasThere ? 0 : Math.max(0, newest.likelyLeft - used);
    }
    const over = this.#isOwn ? this.#useAll(used, nowMs) : 0;
    this.#reportedMs = nowMs;
    if (this.#former?.mayUseIn(windowMs, nowMs + 1) === 0) this.#former = undefined;
    const settledMs = nowMs - this.#settleMs;
    const applied = this.#list.findLastIndex(
      ({ sentMs, hasArrived }) => sentMs <= (hasArrived ? nowMs - inUseMs : settledMs),
    );
    if (applied >= 0) this.#isOwn = true;
    let returned = 0;
    this.#list = this.#list.filter((grant, index) => {
      if (index < applied) grant.untilMs = Math.min(grant.untilMs, nowMs);
      if (grant.untilMs > nowMs) return true;
      // One that refills was of use in its window.
      if (this.#refills) return grant.untilMs > windowMs;
      returned += grant.left;
      return false;
    });
    return { over, returned };
  }

  /** Gives what is beyond it. Of buckets that refill since the report before, and a bit more: reports may be late. */
  #useAll(used: number, nowMs: number): number {
    if (this.#refills) return Math.max(0, used - this.mayUseIn(this.#reportedMs - this.#settleMs, nowMs + 1));
    let rest = used;
    for (const grant of this.#list) {
      const taken = Math.min(rest, grant.left);
      grant.left -= taken;
      rest -= taken;
    }
    return rest;
  }
}
