import { keyBytes } from './folded-run.ts';

/** Gauges `ratelimit.localcache.<name>`. */
export interface LocalCacheStats {
  /** Entries that were removed before their window ended, to make room. */
  evacuateCount: number;
  /** Entries that ended with their window. */
  expiredCount: number;
  entryCount: number;
  /** Always 0: reading the clock at every lookup would cost more than the lookup itself. */
  averageAccessTime: number;
  hitCount: number;
  missCount: number;
  lookupCount: number;
  overwriteCount: number;
}

/**
 * The memory of an entry in addition to its key's characters, rounded up: its slot in the map, its time and the string's header. Measured
 * on Node 26: 80 bytes just after the map has doubled.
 */
export const cacheEntryOverheadBytes = 176;

/**
 * Keys that are over their limit, remembered in this process so that the store is not asked again. The size is bounded in bytes. The
 * oldest entry is removed first. Every call is O(1).
 */
export class BoundedLocalCache {
  readonly stats: LocalCacheStats = {
    evacuateCount: 0,
    expiredCount: 0,
    entryCount: 0,
    averageAccessTime: 0,
    hitCount: 0,
    missCount: 0,
    lookupCount: 0,
    overwriteCount: 0,
  };
  readonly #maxBytes: number;
  /** The times until which keys are over limit, in the order in which they were remembered. */
  readonly #ends = new Map<string, number>();
  /** The keys from the oldest on. It is retained, because a new iterator would first pass the gaps that removed keys leave. */
  #oldest: MapIterator<string> | undefined;
  #bytes = 0;

  constructor(options: { maxBytes: number }) {
    this.#maxBytes = options.maxBytes;
  }

  /** The bytes in use, counted as key plus `cacheEntryOverheadBytes`. They never exceed the bound. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Returns the time until which the key is over limit, or 0 if it is not at `nowMs`. It counts as a lookup. */
  until(key: string, nowMs: number): number {
    this.stats.lookupCount += 1;
    const endMs = this.#ends.get(key);
    if (endMs !== undefined && endMs > nowMs) {
      this.stats.hitCount += 1;
      return endMs;
    }
    this.stats.missCount += 1;
    if (endMs !== undefined) {
      this.stats.expiredCount += 1;
      this.forget(key);
    }
    return 0;
  }

  /**
   * Remembers a key. `expiresAtMs` is the time at which a hit passes again and the key is no longer over limit. A key that is too large
   * for the whole cache is not remembered.
   */
  remember(key: string, expiresAtMs: number): void {
    if (this.#ends.delete(key)) {
      this.stats.overwriteCount += 1;
    } else {
      const bytes = bytesOf(key);
      if (bytes > this.#maxBytes) return;
      while (this.#bytes + bytes > this.#maxBytes) {
        this.stats.evacuateCount += 1;
        this.forget(this.#takeOldest());
      }
      this.#bytes += bytes;
    }
    this.#ends.set(key, expiresAtMs);
    this.stats.entryCount = this.#ends.size;
  }

  forget(key: string): void {
    if (!this.#ends.delete(key)) return;
    this.#bytes -= bytesOf(key);
    this.stats.entryCount = this.#ends.size;
  }

  clear(): void {
    this.#ends.clear();
    this.#oldest = undefined;
    this.#bytes = 0;
    this.stats.entryCount = 0;
  }

  /** Call it only if there are entries. */
  #takeOldest(): string {
    const next = this.#oldest?.next();
    if (next !== undefined && next.done !== true) return next.value;
    // An iterator that was at the end does not see later keys.
    this.#oldest = this.#ends.keys();
    return this.#oldest.next().value!;
  }
}

function bytesOf(key: string): number {
  return keyBytes(key) + cacheEntryOverheadBytes;
}
