/** Implements terms.ts for all pools of one limiter. */
import type { Clock } from '../../process/time/clock.ts';
import type { Store } from '../stores/store.ts';
import { Pool, type PoolOptions } from './pool.ts';
import type { Allocating, Holder, PoolTerms, Share, ShareTotals, ShareView } from './terms.ts';

export interface AllocatorOptions {
  /** The store of the leases. A store that counts in place of another one must not answer ledgers. */
  store: Store;
  clock: Pick<Clock, 'nowMs'>;
  /** From 0 to below 1. */
  random: () => number;
  /** The name of this thread of this process in ledgers. No other thread has the same name. */
  limiter: string;
  /** A report that arrives at least this long after a message was sent was made after the message arrived. Defaults to 6,000. */
  settleMs?: number | undefined;
  /** The TTL of assignments, at least 15, which is the default. Reports renew it every 5 s. */
  ttlSeconds?: number | undefined;
}

export class Allocator implements Allocating {
  readonly #options: PoolOptions;
  readonly #pools = new Map<string, Pool>();
  #sequence = 0;
  /** The position at which an unfinished tick continues. */
  #ticked: Iterator<[string, Pool], undefined> | undefined;

  constructor({ settleMs = 6_000, ttlSeconds = 15, ...options }: AllocatorOptions) {
    const nextSequence = (): number => {
      this.#sequence += 1;
      return this.#sequence;
    };
    this.#options = { ...options, settleMs, ttlSeconds, nextSequence };
  }

  open(key: string, terms: PoolTerms, holder: Holder, nowMs: number): Share {
    return this.#pools
      .getOrInsertComputed(key, () => new Pool(key, terms, this.#options))
      .open(holder, nowMs);
  }

  change(key: string, terms: PoolTerms | undefined, nowMs: number): void {
    const pool = this.#pools.get(key);
    if (terms !== undefined) pool?.change(terms, nowMs);
    else if (pool !== undefined) for (const member of pool.members) member.close();
  }

  reset(keys: readonly string[]): void {
    const all = new Set(keys);
    for (const pool of this.#pools.values()) pool.reset(all);
  }

  tick(nowMs: number, mostShares = Number.POSITIVE_INFINITY): boolean {
    this.#ticked ??= this.#pools.entries();
    let left = mostShares;
    for (let { value } = this.#ticked.next(); value !== undefined; { value } = this.#ticked.next()) {
      const [key, pool] = value;
      if (pool.dueMs > nowMs) continue;
      pool.tick(nowMs);
      if (pool.members.size === 0) this.#pools.delete(key);
      left -= pool.members.size + 1;
      if (left <= 0) return false;
    }
    this.#ticked = undefined;
    return true;
  }

  async drain(nowMs: number): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.drain(nowMs)));
  }

  *list(key?: string): Iterable<ShareView> {
    for (const pool of this.#pools.values()) if (key === undefined || key === pool.key) yield* pool.list();
  }

  totals(key: string): ShareTotals | undefined {
    return this.#pools.get(key)?.totals;
  }
}
