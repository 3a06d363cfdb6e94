/**
 * Folding: the operations of many callers on one key become one command, and each caller still gets the total as if all had asked one
 * after another. An addition is x -> min(maxTotal, x + h), a subtraction x -> max(0, x - h). Both are clamps, and a sequence of clamps is
 * again a clamp: any run of them is x -> min(high, max(low, x + shift)) with three numbers. The store applies this clamp once and returns
 * the value before it. Each total follows from that value. Pure.
 */
import { failOp, hitsToCount, type LeaseTerms, type Operation } from './operation.ts';
import type { StoreError } from './store-error.ts';

/** The maximum of totals: the largest number that is exact both in JavaScript and in Redis's Lua. */
export const maxTotal = Number.MAX_SAFE_INTEGER;
/** The total to report if the exact total would be larger. It is above any limit, including 2^53 - 1. */
export const beyondTotal = maxTotal + 1;

/** A number above any total. */
export const neverOver = 2 ** 54;

export class FoldedRun {
  readonly key: string;
  /** The shift, within ±maxTotal, so that shift plus any total still compares exactly with low and high. */
  shift = 0;
  low = 0;
  high = maxTotal;
  /** The lifetime of the key if it does not exist. 0: nothing in the run creates it. */
  ttlSeconds = 0;
  /** The largest value before the run for which no hit of the run is over limit, or `neverOver`. */
  max = neverOver;
  /** The message to the ledger of leases that is sent with the run. */
  lease: LeaseTerms | undefined;
  readonly #first: Operation;
  /** Only set from the second op on, because most runs have a single op. */
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

  /** The lifetime of the key if another command has created it. */
  get lifeSeconds(): number {
    return this.ttlSeconds === 0 ? this.#first.ttlSeconds : this.ttlSeconds;
  }

  /** Whether plain INCRBY by `shift` is equivalent: it adds something, no subtraction has an effect, and nothing is reported. */
  get isAddition(): boolean {
    return this.lease === undefined && this.shift > 0 && this.low === this.shift && this.high === maxTotal;
  }

  /** Whether it changes no total, whatever its value. */
  get isLook(): boolean {
    return this.shift === 0 && this.low === 0 && this.high === maxTotal;
  }

  /** Writes every op's answer, from the key's value before the run. A missing key counts as 0. */
  answer(before: number): void {
    const rest = this.#rest;
    let total = Math.max(0, before);
    let next = 0;
    for (let op: Operation | undefined = this.#first; op !== undefined; op = rest?.[next++]) {
      const hits = hitsToCount(op);
      const reported = reportedTotal(total, hits, op.verb === 'refund');
      total = Math.min(maxTotal, reported);
      op.applied = hits;
      op.after = reported;
      op.error = undefined;
    }
  }

  /**
   * Answers every op of a run with `lease`. `before` is the value without the hits that the limiter returned, and `outstanding` the
   * leased hits. Refunds do not go below the leased hits.
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

  /** Answers the ops of a run that the store could not count: rejects hits on an exhausted counter, and fails the others. */
  answerUncounted(held: number, error: StoreError): void {
    this.forEach((op) => {
      const hits = hitsToCount(op);
      if (op.verb === 'refund' || (hits > 0 && held < op.counter.capacity)) {
        failOp(op, error);
        return;
      }
      op.applied = 0;
      op.after = reportedTotal(held, hits, false);
      op.error = undefined;
    });
  }

  /** Calls `act` for each op. */
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
    const { verb, lease } = op;
    const hits = hitsToCount(op);
    // A limiter has at most one message in progress for a counter. If it was given up meanwhile, nothing waits for the answer.
    if (lease !== undefined && lease.sequence >= (this.lease?.sequence ?? 0)) this.lease = lease;
    if (verb === 'refund') {
      this.low = Math.max(0, this.low - hits);
      this.high = Math.max(0, this.high - hits);
      // Any value from here down ends at low, because values are at most maxTotal.
      this.shift = Math.max(this.low - maxTotal, this.shift - hits);
    } else {
      this.low = Math.min(maxTotal, this.low + hits);
      this.high = Math.min(maxTotal, this.high + hits);
      // Any value from here up ends at high, because values are at least 0.
      this.shift = Math.min(this.high, this.shift + hits);
      if (this.ttlSeconds === 0 && hits > 0) this.ttlSeconds = op.ttlSeconds;
      const limit = op.counter.capacity;
      // The counter may be over limit after this, and a limit of 0 never has room.
      if (limit > 0) this.max = Math.min(this.max, this.low > limit ? -1 : limit - this.shift);
    }
  }
}

/** Returns the total after `hits` are added or, if `negative`, refunded. */
export function totalAfter(before: number, hits: number, negative: boolean): number {
  return Math.min(maxTotal, reportedTotal(before, hits, negative));
}

/** Returns the total that the caller gets. It is `beyondTotal` if the total cannot include all of the hits. */
export function reportedTotal(before: number, hits: number, negative: boolean): number {
  return negative ? Math.max(0, before - hits) : Math.min(beyondTotal, before + hits);
}

/** Returns at least the memory in V8: one byte per character, or two if any is not ASCII. */
export function keyBytes(key: string): number {
  return Buffer.byteLength(key) === key.length ? key.length : key.length * 2;
}
