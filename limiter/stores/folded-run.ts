/**
 * Folding: what many callers do to one key becomes one command, and everyone still learns the total as if it had come
 * alone, in order. An addition is x -> min(maxTotal, x + h), a subtraction x -> max(0, x - h). Both are clamps, and
 * clamps compose: any run of them is x -> min(high, max(low, x + shift)) with three numbers. The store applies that once
 * and gives the value before; each total follows from it. Pure.
 */
import { callAbandoned, failOp, type LeaseTerms, type Operation } from './operation.ts';
import type { StoreError } from './store-error.ts';

/** Totals stop here: the largest number that is exact both in JavaScript and in Redis's Lua. */
export const maxTotal = Number.MAX_SAFE_INTEGER;
/** What is reported about a total that would be beyond: more than any limit, that of 2^53 - 1 among them. */
export const beyondTotal = maxTotal + 1;

/** More than any total. */
export const neverOver = 2 ** 54;

export class FoldedRun {
  readonly key: string;
  /** Never beyond ±maxTotal, so that shift plus any total still compares exactly with low and high. */
  shift = 0;
  low = 0;
  high = maxTotal;
  /** Life of the key should it be missing; 0 when nothing in the run creates it. */
  ttlSeconds = 0;
  /** The largest value before the run with which none of its hits is over; `neverOver` where none ever is. */
  most = neverOver;
  /** What is reported to the ledger of leases along with it. */
  lease: LeaseTerms | undefined;
  #first: Operation;
  /** Only from the second op on: most runs have one. */
  #rest: Operation[] | undefined;

  constructor(op: Operation) {
    this.key = op.key;
    this.#first = op;
    this.#fold(op);
  }

  add(op: Operation): void {
    if (this.#rest === undefined) this.#rest = [op];
    else this.#rest.push(op);
    this.#fold(op);
  }

  /** Life of the key should something have made it after all. */
  get lifeSeconds(): number {
    return this.ttlSeconds === 0 ? this.#first.ttlSeconds : this.ttlSeconds;
  }

  /** Whether plain INCRBY by `shift` does the same: something is added, no subtraction left a trace, and nothing is reported. */
  get isAddition(): boolean {
    return this.lease === undefined && this.shift > 0 && this.low === this.shift && this.high === maxTotal;
  }

  /** Whether it changes no total, whatever that is. */
  get isLook(): boolean {
    return this.shift === 0 && this.low === 0 && this.high === maxTotal;
  }

  /** Answers the ops whose callers gave up, and forgets them; false when none is left. Asked right before it is sent. */
  leaveOutAbandoned(): boolean {
    const rest = this.#rest;
    if (rest === undefined) {
      if (this.#first.caller?.abandoned !== true) return true;
      failOp(this.#first, callAbandoned);
      return false;
    }
    const kept: Operation[] = [];
    for (const op of [this.#first, ...rest]) {
      if (op.caller?.abandoned === true) failOp(op, callAbandoned);
      else kept.push(op);
    }
    const [first, ...others] = kept;
    if (first === undefined) return false;
    if (others.length === rest.length) return true;
    this.#first = first;
    this.#rest = others;
    this.shift = 0;
    this.low = 0;
    this.high = maxTotal;
    this.ttlSeconds = 0;
    this.most = neverOver;
    this.lease = undefined;
    for (const op of kept) this.#fold(op);
    return true;
  }

  /** Writes every op's answer, from the key's value before the run. A missing key counts as 0. */
  answer(before: number): void {
    const rest = this.#rest;
    let total = Math.max(0, before);
    let next = 0;
    for (let op: Operation | undefined = this.#first; op !== undefined; op = rest?.[next++]) {
      const reported = reportedAfter(total, op.hits, op.verb === 'refund');
      total = Math.min(maxTotal, reported);
      op.applied = op.hits;
      op.after = reported;
      op.error = undefined;
    }
  }

  /**
   * The same of a run with `lease`: `before` is the value once what the limiter gave back was taken off, `outstanding` what
   * is leased then. Hits that are taken back stop at that.
   */
  answerLeased(before: number, outstanding: number, granted: number, others: readonly number[] = []): void {
    const floor = Math.min(before, outstanding);
    this.answer(before - floor);
    const rest = this.#rest;
    let next = 0;
    let after = before;
    for (let op: Operation | undefined = this.#first; op !== undefined; op = rest?.[next++]) {
      after = Math.min(beyondTotal, op.after + floor);
      op.after = after;
      op.leased = granted;
      op.mayReturn = outstanding + granted > 0;
    }
    const lease = this.lease!;
    lease.granted = granted;
    lease.top = after + granted;
    [lease.othersCharged = 0, lease.othersHungry = 0] = others;
  }

  /** Of a run that the store could not count: refuses hits on a counter that is exhausted already, and fails the others. */
  answerUncounted(held: number, error: StoreError): void {
    this.forEach((op) => {
      if (op.verb === 'refund' || (op.hits > 0 && held < op.counter.capacity)) {
        failOp(op, error);
        return;
      }
      op.applied = 0;
      op.after = reportedAfter(held, op.hits, false);
      op.error = undefined;
    });
  }

  /** Does so for each op. */
  forEach(act: (op: Operation) => void): void {
    act(this.#first);
    if (this.#rest !== undefined) for (const op of this.#rest) act(op);
  }

  fail(error: StoreError): void {
    failOp(this.#first, error);
    if (this.#rest === undefined) return;
    for (const op of this.#rest) failOp(op, error);
  }

  #fold(op: Operation): void {
    const { hits, lease } = op;
    // A limiter has one message under way for a counter; of one that was given up meanwhile nobody waits for the answer.
    if (lease !== undefined && lease.sequence >= (this.lease?.sequence ?? 0)) this.lease = lease;
    if (op.verb === 'refund') {
      this.low = Math.max(0, this.low - hits);
      this.high = Math.max(0, this.high - hits);
      // Any x ends at low from here down, as x is at most maxTotal.
      this.shift = Math.max(this.low - maxTotal, this.shift - hits);
    } else {
      this.low = Math.min(maxTotal, this.low + hits);
      this.high = Math.min(maxTotal, this.high + hits);
      // Any x ends at high from here up, as x is at least 0.
      this.shift = Math.min(this.high, this.shift + hits);
      if (this.ttlSeconds === 0 && hits > 0) this.ttlSeconds = op.ttlSeconds;
      this.#bound(op.counter.capacity);
    }
  }

  /** What it holds by now may be over the limit: nothing gives room to one of 0. */
  #bound(limit: number): void {
    if (limit === 0 || (this.high < maxTotal && this.high <= limit)) return;
    this.most = Math.min(this.most, this.low > limit ? -1 : limit - this.shift);
  }
}

/** The total after `hits` are added or, when `negative`, taken back. */
export function totalAfter(before: number, hits: number, negative: boolean): number {
  return Math.min(maxTotal, reportedAfter(before, hits, negative));
}

/** The same as the caller is reported it: `beyondTotal` where the total stops before all of the hits. */
export function reportedAfter(before: number, hits: number, negative: boolean): number {
  return negative ? Math.max(0, before - hits) : Math.min(beyondTotal, before + hits);
}

/** At least what V8 keeps: one byte a character, two where any is beyond ASCII. */
export function keyBytes(key: string): number {
  return Buffer.byteLength(key) === key.length ? key.length : key.length * 2;
}
