/** What every store of counters can do. Knows keys and numbers, neither rules nor requests. */
import type { CallSpan } from '../../process/grpc/handlers.ts';
import type { Bound, Held } from '../algorithms/bound.ts';
import { textForCallers } from './text-for-callers.ts';

/** Who asked. */
export interface Caller {
  /** True from the moment on when it gave up; stays false for a caller that was answered, with or without the store. */
  readonly abandoned: boolean;
  /** Of a call that is traced: what the store does for it belongs to its trace. */
  readonly span?: CallSpan | undefined;
  /** The header section of its call, name, value, name, value, names in lower case: for what is rare. */
  readonly fields?: readonly string[] | undefined;
  /** Undefined where callers have no names. */
  readonly caller?: { readonly name: string } | undefined;
}

/**
 * Whether an op that is over holds the others of its request back: by itself, when all that do so `together` are over,
 * or never.
 */
export type HoldsBack = 'alone' | 'together' | 'never';

/**
 * What a limiter tells the ledger of a counter's leases in the call that counts, and what it is granted: see
 * leases/lease-book.ts. With each message it gives back what it did not spend.
 */
export interface LeaseAsk {
  /** Beside the counter, in its slot. */
  readonly ledgerKey: string;
  /** Who tells. */
  readonly limiter: string;
  /** Grows with each message of a limiter. 0: nothing is told; hits that are taken back only stop at what is leased. */
  readonly sequence: number;
  /** The message that was granted what this one tells of, and how many of those hits were spent. */
  readonly grantedBy: number;
  readonly spent: number;
  /** Hits to be leased anew, and the most that any limiter leases of this counter. 0 wants none. */
  readonly want: number;
  readonly most: number;
  readonly limit: number;
  /** The ledger may forget this limiter where it grants nothing: no message of before can arrive later. */
  readonly forgets: boolean;
  /** Answer: hits granted; -1 as long as there is none. */
  granted: number;
  /** Answer: the counter after everything, what was granted included. */
  top: number;
}

/** What a store found for a key, of no meaning to others; made anew with the key. */
export interface CounterPlace {
  counter: unknown;
}

/**
 * One counter's part in one request: written by the caller, answered in place by the store.
 * The total is as if every caller had come alone, in the order of `submit`.
 * It is made for one `submit` and its answer is read when `done` is called, not later: a store that was given up on may
 * still write to it.
 */
export interface CounterOp {
  /** The whole counter key, window included. */
  readonly key: string;
  /** 0 .. 2^53 - 1. 0 looks without counting. */
  readonly hits: number;
  /** Take the hits back: never below zero, and a missing key stays missing. */
  readonly negative: boolean;
  /** Life of the key in seconds, jitter included: from its first hit, of one with a sliding window or a bucket from its last. At least 1. */
  readonly ttlSeconds: number;
  /** The most that fits in: over when the total exceeds it. */
  readonly limit: number;
  /** Hits of the counter that a limiter may take ahead at a time; 0: none, as with a bound. */
  readonly leaseMost: number;
  /**
   * Undefined: a fixed window alone, which counts all hits, those that are over too. Else the hits are counted only if this
   * lets them pass.
   */
  readonly bound: Bound | undefined;
  /**
   * How many neighbouring ops of the request, this one among them, pass only together: those of all limits of one rule.
   * They have bounds, the same hits, and keys of one hash tag, each its own. 1 for one alone.
   */
  groupSize: number;
  /**
   * Used by `SubmitOptions.stopWhenOver` only: the caller already knows that the request is refused, so this one is
   * looked at, not incremented.
   */
  readonly lookOnly: boolean;
  /** Used by `SubmitOptions.stopWhenOver` only: what it does to the others when it is over. */
  readonly holdsBack: HoldsBack;
  /** The limit's unit is the second: such counters may have a store of their own (REDIS_PERSECOND). */
  readonly perSecond: boolean;
  /**
   * Whose op it is: one that was abandoned before its batch is sent is left out and answered with `callAbandoned`.
   * Undefined where nobody can give up. A store that counts within `submit` need not look.
   */
  readonly caller?: Caller | undefined;
  /** What is told to the ledger along with the hits: written by the store of leases for the store that it asks. */
  lease: LeaseAsk | undefined;
  /** The same for all ops of one key that are made for one plan: a store that looks the key up may keep there what it found. */
  readonly plan?: CounterPlace | undefined;

  /** Answer: hits that the store really applied: `hits`, or 0 where they did not pass or stop-when-over held them back. */
  applied: number;
  /**
   * Answer: the total after this op, which saturates at 2^53 - 1; 2^53 where that left hits out: over any limit. With a bound what
   * is used of `limit`.
   */
  after: number;
  /** Answer with a bound: this one did not let the hits pass. */
  over: boolean;
  /**
   * Answer with a bound other than a fixed window: when over, how long until a single hit passes, else until nothing is used
   * any more.
   */
  waitMicros: number;
  /** Answer with a bound: what the counter holds after this op, undefined for one that is not there. */
  held: Held | undefined;
  /** Answer: hits beyond `after` that are charged as well, as leased: as little is left. */
  leased: number;
  /** Answer: leases or reservations may give back some of the total, so that one that is over need not stay so. */
  mayReturn: boolean;
  /** Answer: over, and reservations on its counter have expired, or may have: to look at it gives back what they held. */
  hasExpired: boolean;
  /** Answer: a lease covers the hits, and the store was not asked. */
  fromLease: boolean;
  /** Answer: set when this key failed; `after` then means nothing. */
  error: StoreError | undefined;
}

export interface SubmitOptions {
  /** When ops that would exceed their limits hold the others back, those others are not incremented. */
  stopWhenOver: boolean;
}

export interface CounterStore {
  /** False while it can reach no server at all, so that every op fails. Absent where that is never so, or not known. */
  readonly connected?: boolean;
  /** Hands over all ops of one request. `done` is called exactly once, possibly before `submit` returns. */
  submit(ops: CounterOp[], options: SubmitOptions, done: () => void): void;
  /**
   * Settles when the store answered once; rejects with a StoreError. A connection that has not answered after
   * `patienceMs` is given up for a new one: a network may have lost it without a word. Defaults to the store's timeout.
   */
  ping(patienceMs?: number): Promise<void>;
  /** Ends connections and timers; ops under way are answered with an error. */
  close(): Promise<void>;
}

/** What a store can never do as it is set, each with the reason; undefined: it can. */
export interface StoreLimits {
  /** Algorithms other than the fixed window. */
  readonly algorithms: string | undefined;
  /** Several limits of one rule, which pass together. */
  readonly groups: string | undefined;
  /** Reserve and commit. */
  readonly reservations: string | undefined;
}

/** Who is first in a whole fleet: what is to happen once, whichever limiter sees the occasion. */
export interface Claims {
  /** Whether nobody has claimed the name before, in the last so many seconds: true for one caller alone. Rejects with a StoreError. */
  claim(name: string, seconds: number): Promise<boolean>;
}

/**
 * What of a key says where a Redis Cluster keeps it: all of it, unless there is text between its first `{` and the next `}`.
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
 */
export function hashTagOf(key: string): string {
  const open = key.indexOf('{');
  const close = open === -1 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}

/** A store could not count. The message never holds credentials. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  /** Whether the same op may succeed a moment later. */
  readonly transient: boolean;
  /**
   * The op certainly was not counted: nothing that counts was sent, or the server said that it ran nothing. False where
   * nobody can know, such as when its reply was lost.
   */
  readonly notCounted: boolean;
  /**
   * Nobody asked the store, or it said nothing, and nothing within it has drawn a conclusion from that: such an error is
   * no sign that the store is there.
   */
  readonly unheard: boolean;
  #textForCallers: string | undefined;

  constructor(
    message: string,
    options: { transient: boolean; notCounted?: boolean; unheard?: boolean; cause?: unknown },
  ) {
    super(message, { cause: options.cause });
    this.transient = options.transient;
    this.notCounted = options.notCounted ?? false;
    this.unheard = options.unheard ?? false;
  }

  /** The message without the addresses of the store, which are for the log alone. */
  get textForCallers(): string {
    this.#textForCallers ??= textForCallers(this.message);
    return this.#textForCallers;
  }

  /** The same for an op of which more is known than when the error was made. */
  marked(notCounted: boolean): StoreError {
    if (notCounted === this.notCounted) return this;
    const { transient, unheard, cause } = this;
    return new StoreError(this.message, { transient, notCounted, unheard, cause });
  }
}

/** The answer to an op that was left out because its caller had gone: not counted, and no failure of the store. */
export const callAbandoned = new StoreError('the caller gave up before its hits were sent to the store', {
  transient: true,
  notCounted: true,
});

/** Whether any of a request's ops was left out: then the request counts as one that was never made. */
export function wasLeftOut(ops: readonly Pick<CounterOp, 'error'>[]): boolean {
  for (const op of ops) if (op.error === callAbandoned) return true;
  return false;
}

/** Says what went wrong with one op, as the answer to it. */
export function failOp(op: CounterOp, error: StoreError): void {
  op.applied = 0;
  op.after = 0;
  op.error = error;
}

/** What an op has that stands alone, counts all its hits, leases none and has no answer yet. */
export const unboundAnswer = {
  bound: undefined,
  groupSize: 1,
  leaseMost: 0,
  lease: undefined,
  applied: 0,
  after: 0,
  over: false,
  waitMicros: 0,
  held: undefined,
  leased: 0,
  mayReturn: false,
  hasExpired: false,
  fromLease: false,
  error: undefined,
} as const satisfies Partial<CounterOp>;
