import type { CounterState } from '../../algorithms/algorithm-bound.ts';
import type { StoredCounter } from '../../stores/store.ts';
import {
  type CounterRef,
  type RecordTable,
  type ScannedKeys,
  type ScanQuery,
  type StoreAdmin,
  StoreAdminRejection,
  type SubscriptionListener,
} from './store-admin.ts';

/** The counters of a store in this process. */
export interface MemoryCounters {
  /** Returns the keys one after the other, while counters are added and removed. */
  keys(): Iterator<string>;
  look(key: string): CounterState | undefined;
  remove(keys: readonly string[]): number;
}

/** Chosen: the number of unfinished scans that are kept. */
const maxScans = 16;

/** The store admin of BACKEND_TYPE=memory: messages and records live in this process, until it ends. */
export class MemoryStoreAdmin implements StoreAdmin {
  readonly kind = 'memory';
  readonly missing = [];
  readonly #counters: MemoryCounters;
  /** The rest of each unfinished scan, by the place that was returned last. */
  readonly #scans = new Map<string, Iterator<string>>();
  #lastScan = 0;
  readonly #listeners = new Set<SubscriptionListener>();
  readonly #tables = new Map<RecordTable, Map<string, string>>();

  constructor(counters: MemoryCounters) {
    this.#counters = counters;
  }

  async scan({ prefixes, from, count }: ScanQuery): Promise<ScannedKeys> {
    const keys = from === undefined ? this.#counters.keys() : this.#scans.get(from);
    if (keys === undefined) {
      throw new StoreAdminRejection(
        'the cursor is not from this limiter, or it was used before: start again',
        {
          isQuestions: true,
        },
      );
    }
    if (from !== undefined) this.#scans.delete(from);
    const counters: CounterRef[] = [];
    for (let scanned = 0; scanned < count; scanned += 1) {
      const next = keys.next();
      if (next.done === true) return { counters, scanned, place: undefined, notes: [] };
      const key = next.value;
      if (prefixes.some((prefix) => key.startsWith(prefix))) counters.push({ key, perSecond: false });
    }
    this.#lastScan += 1;
    const place = String(this.#lastScan);
    this.#scans.set(place, keys);
    for (const oldest of this.#scans.keys()) {
      if (this.#scans.size <= maxScans) break;
      this.#scans.delete(oldest);
    }
    return { counters, scanned: count, place, notes: [] };
  }

  async read(counters: readonly CounterRef[]): Promise<(StoredCounter | undefined)[]> {
    return counters.map(({ key }) => {
      const held = this.#counters.look(key);
      return held && { held, leased: 0 };
    });
  }

  async remove(counters: readonly CounterRef[]): Promise<number> {
    return this.#counters.remove(counters.map(({ key }) => key));
  }

  async publish(text: string): Promise<boolean> {
    // The caller gets its answer first, as with a server.
    setImmediate(() => {
      for (const listener of [...this.#listeners]) listener.received(text);
    });
    return true;
  }

  subscribe(listener: SubscriptionListener): () => void {
    // A new object, because the given one may be registered twice.
    const own: SubscriptionListener = {
      received: (text) => listener.received(text),
      back: () => listener.back(),
    };
    this.#listeners.add(own);
    queueMicrotask(() => {
      if (this.#listeners.has(own)) own.back();
    });
    return () => void this.#listeners.delete(own);
  }

  async records(table: RecordTable): Promise<Map<string, string>> {
    return new Map(this.#tables.get(table));
  }

  async record(table: RecordTable, field: string): Promise<string | undefined> {
    return this.#tables.get(table)?.get(field);
  }

  async putRecord(
    table: RecordTable,
    field: string,
    text: string,
    when: 'always' | 'absent' | { is: string } = 'always',
  ): Promise<boolean> {
    const records = this.#tables.get(table) ?? new Map<string, string>();
    const before = records.get(field);
    if (when !== 'always' && before !== (when === 'absent' ? undefined : when.is)) return false;
    this.#tables.set(table, records.set(field, text));
    return true;
  }

  async removeRecord(table: RecordTable, field: string, is?: string): Promise<boolean> {
    const records = this.#tables.get(table);
    if (is !== undefined && records?.get(field) !== is) return false;
    return records?.delete(field) ?? false;
  }

  async close(): Promise<void> {
    this.#listeners.clear();
  }
}
