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
 * The memory of an entry in addition to its key's characters: the entry, its slot in the map and the string's header. Measured on Node
 * 26: 127 bytes with a full map, 175 just after the map has doubled.
 */
export const cacheEntryOverheadBytes = 176;

interface CachedKey {
  readonly key: string;
  readonly bytes: number;
  expiresAtMs: number;
  older: CachedKey | undefined;
  newer: CachedKey | undefined;
}

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
  readonly #entries = new Map<string, CachedKey>();
  #oldest: CachedKey | undefined;
  #newest: CachedKey | undefined;
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
    const entry = this.#entries.get(key);
    if (entry !== undefined && entry.expiresAtMs > nowMs) {
      this.stats.hitCount += 1;
      return entry.expiresAtMs;
    }
    this.stats.missCount += 1;
    if (entry !== undefined) {
      this.stats.expiredCount += 1;
      this.#remove(entry);
    }
    return 0;
  }

  /**
   * Remembers a key. `expiresAtMs` is the time at which a hit passes again and the key is no longer over limit. A key that is too large
   * for the whole cache is not remembered.
   */
  remember(key: string, expiresAtMs: number): void {
    const known = this.#entries.get(key);
    if (known !== undefined) {
      this.stats.overwriteCount += 1;
      known.expiresAtMs = expiresAtMs;
      this.#unlink(known);
      this.#append(known);
      return;
    }
    const bytes = keyBytes(key) + cacheEntryOverheadBytes;
    if (bytes > this.#maxBytes) return;
    while (this.#oldest !== undefined && this.#bytes + bytes > this.#maxBytes) {
      this.stats.evacuateCount += 1;
      this.#remove(this.#oldest);
    }
    const entry: CachedKey = { key, bytes, expiresAtMs, older: undefined, newer: undefined };
    this.#entries.set(key, entry);
    this.#append(entry);
    this.#bytes += bytes;
    this.stats.entryCount = this.#entries.size;
  }

  forget(key: string): void {
    const entry = this.#entries.get(key);
    if (entry !== undefined) this.#remove(entry);
  }

  clear(): void {
    this.#entries.clear();
    this.#oldest = undefined;
    this.#newest = undefined;
    this.#bytes = 0;
    this.stats.entryCount = 0;
  }

  #remove(entry: CachedKey): void {
    this.#entries.delete(entry.key);
    this.#unlink(entry);
    this.#bytes -= entry.bytes;
    this.stats.entryCount = this.#entries.size;
  }

  #append(entry: CachedKey): void {
    entry.older = this.#newest;
    entry.newer = undefined;
    if (this.#newest === undefined) this.#oldest = entry;
    else this.#newest.newer = entry;
    this.#newest = entry;
  }

  #unlink(entry: CachedKey): void {
    if (entry.older === undefined) this.#oldest = entry.newer;
    else entry.older.newer = entry.newer;
    if (entry.newer === undefined) this.#newest = entry.older;
    else entry.newer.older = entry.older;
  }
}
