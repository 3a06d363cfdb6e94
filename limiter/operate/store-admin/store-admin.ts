/**
 * The process's own way to its store, for operators: away from the connections that count, opened when something is first
 * asked. What cannot be done is reported, and never ends or fails the process.
 */
import type { StoredCounter } from '../../stores/store.ts';

/** Where a counter is. */
export interface CounterRef {
  /** Whole, CACHE_KEY_PREFIX and window included. */
  readonly key: string;
  /** REDIS_PERSECOND: it is in the Redis of limits per second. */
  readonly perSecond: boolean;
}

export interface ScanQuestion {
  /** Keys begin with one of these. */
  readonly prefixes: readonly string[];
  /** Where to go on; undefined: at the beginning. */
  readonly from: string | undefined;
  /** Keys looked at, about. */
  readonly count: number;
}

export interface ScannedKeys {
  readonly counters: readonly CounterRef[];
  /** Keys that were looked at, others among them. */
  readonly scanned: number;
  /** Opaque; undefined: nothing is left. */
  readonly place: string | undefined;
  /** What was not looked at, and why. */
  readonly notes: readonly string[];
}

/** A command that the server, its ACL or a proxy refuses. */
export interface MissingRight {
  readonly command: string;
  /** The server's words, without credentials. */
  readonly message: string;
}

export interface NewsListener {
  /** A message of any limiter, this one among them. */
  heard(text: string): void;
  /** Messages come from now on; some may have been missed before. */
  back(): void;
}

/** Small records in one hash each, field by field. */
export type RecordTable = 'overrides' | 'limiters' | 'revisions';

/** Methods reject with a `StoreError` while the store is away, and with a `StoreAdminRefusal` for what it can never do. */
export interface StoreAdmin {
  readonly kind: 'redis' | 'memory' | 'memcache';
  /** One slice of keys of counters. A key may come twice, and one that is not there all the while not at all. */
  scan(question: ScanQuestion): Promise<ScannedKeys>;
  /** In their order; undefined: not there, or no counter. */
  read(counters: readonly CounterRef[]): Promise<(StoredCounter | undefined)[]>;
  /** With the ledgers of their leases, and what is reserved on them. Gives how many were there. */
  remove(counters: readonly CounterRef[]): Promise<number>;
  /** What was refused when it was tried last. */
  readonly missing: readonly MissingRight[];
  /** To all that listen. False where that is refused: `missing` says why. */
  publish(text: string): Promise<boolean>;
  /** Comes back by itself when it is lost. Call what it gives to end it. */
  subscribe(listener: NewsListener): () => void;
  records(table: RecordTable): Promise<Map<string, string>>;
  /** One of them; undefined: there is none of that field. */
  record(table: RecordTable, field: string): Promise<string | undefined>;
  /** `absent`: only where there is none of that field; `is`: only in place of this text. False: there was another. */
  putRecord(
    table: RecordTable,
    field: string,
    text: string,
    when?: 'always' | 'absent' | { is: string },
  ): Promise<boolean>;
  /** `is`: only this text. False: there was none, or another. */
  removeRecord(table: RecordTable, field: string, is?: string): Promise<boolean>;
  close(): Promise<void>;
}

/** Not with this store, whatever happens; or not with such a question. */
export class StoreAdminRefusal extends Error {
  override readonly name = 'StoreAdminRefusal';
  readonly isQuestions: boolean;

  constructor(message: string, { isQuestions = false } = {}) {
    super(message);
    this.isQuestions = isQuestions;
  }
}

const ownKeys = ['weir:{', 'weir:lease:', 'weir:reserve:', 'weir:reserve-', 'weir:claim:'];

/** Whether a key is one of ours that holds no counter. */
export function isStoreAdminKey(key: string): boolean {
  return ownKeys.some((beginning) => key.startsWith(beginning));
}
