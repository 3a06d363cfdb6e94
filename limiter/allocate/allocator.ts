/**
 * The allocator of shares for quota clients. A pool is the limits of one rule for one bucket id. Each of its clients has a share: what it
 * may use without asking. Leases do not pass through the allocator: lease-book.ts asks a counter's ledger for as many hits as the limiter
 * used in the last second, and `luaLeases` in lease-ledger.ts decides how many it gets.
 *
 *   const allocator = new Allocator({ store, limiter, random, … });    one for each thread; `limiter` names it in ledgers
 *   const share = allocator.open(key, terms, holder);                  a stream reports a bucket for the first time
 *   share.report({ allowed, denied });                                 each report of the bucket, including the first one
 *   share.close();                                                     the stream broke, or the bucket is abandoned
 *   allocator.change(key, terms);                                      the rule or an override may have changed
 *   allocator.reset(keys);                                             counters were reset
 *   allocator.tick();                                                  every `tickMs`: grants at a window's start, renewals
 *   allocator.drain()                                                  every assignment is renewed before streams end
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
 * Limiters whose clocks differ begin windows at different moments, as they do when they count hits. If a clock is set, windows move,
 * and assignments last as long as before.
 */
import type { Clock } from '../../process/time/clock.ts';
import type { Operation } from '../stores/operation.ts';
import { countAll, type Store } from '../stores/store.ts';
import { Pool, type PoolOptions } from './pool.ts';
import { longAgoMs, PoolTimes } from './pool-times.ts';
import type { Holder, PoolTerms, Share } from './terms.ts';

/** The interval at which the caller calls `Allocator.tick`. */
export const tickMs = 250;

export interface AllocatorOptions {
  /** The store of the leases. A store that counts in place of another one must not answer ledgers. */
  store: Store;
  clock: Clock;
  /** A random number from 0 to below 1. */
  random: () => number;
  /** The name of this thread of this process in ledgers. No other thread has the same name. */
  limiter: string;
  /** The TTL of assignments, at least 15, which is the default. Reports renew it every 5 s. */
  ttlSeconds?: number | undefined;
}

export class Allocator {
  readonly #options: PoolOptions;
  readonly #pools = new Map<string, Pool>();
  #sequence = 0;
  /** Questions that the store has not answered yet. */
  #asked = 0;
  /** The position at which an unfinished tick continues. */
  #ticked: Iterator<[string, Pool], undefined> | undefined;

  constructor({ ttlSeconds = 15, clock, ...options }: AllocatorOptions) {
    const ask = (questions: Operation[], answered: () => void): void => {
      this.#asked += 1;
      for (const { lease } of questions) lease!.sequence = this.#sequence += 1;
      options.store.submit(questions, countAll, () => {
        this.#asked -= 1;
        answered();
      });
    };
    const times = new PoolTimes(clock);
    this.#options = { ...options, times, ttlSeconds, ask };
  }

  /** Whether the store has not answered all questions. Its answers may push further buckets. */
  get isAsking(): boolean {
    return this.#asked > 0;
  }

  /** Opens a share of the pool with this key. The pool has these terms from now on. */
  open(key: string, terms: PoolTerms, holder: Holder): Share {
    const pool = this.#pools.getOrInsertComputed(key, () => new Pool(terms, this.#options));
    pool.change(terms);
    return pool.open(holder);
  }

  /**
   * Gives a pool other terms. Open shares continue under them with the next tick: less is sent at once, and what is left of earlier
   * grants returns with reports. If the form changes, everything that clients may still use counts as used.
   */
  change(key: string, terms: PoolTerms): void {
    this.#pools.get(key)?.change(terms);
  }

  /** Records that counters with these keys are empty: what shares may still use is charged again, and the rest is available again. */
  reset(keys: readonly string[]): void {
    const all = new Set(keys);
    for (const pool of this.#pools.values()) pool.reset(all);
  }

  /**
   * Does the work that is due, for one pool after the other while there is time. Returns whether that was all. If not, call it again in
   * another turn of the event loop.
   */
  tick(hasTime: () => boolean = () => true): boolean {
    const { times } = this.#options;
    if (times.follow()) for (const pool of this.#pools.values()) pool.dueMs = longAgoMs;
    this.#ticked ??= this.#pools.entries();
    const nowMs = times.now();
    for (let { value } = this.#ticked.next(); value !== undefined; { value } = this.#ticked.next()) {
      const [key, pool] = value;
      if (pool.dueMs > nowMs) continue;
      pool.tick(nowMs);
      if (pool.isOver) this.#pools.delete(key);
      if (!hasTime()) return false;
    }
    this.#ticked = undefined;
    return true;
  }

  /**
   * Renews all assignments with their whole TTL. Resolves when the last one is pushed, or could not be. Nothing is granted
   * afterward.
   */
  async drain(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.drain()));
  }
}
