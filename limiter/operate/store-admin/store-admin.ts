/**
 * The process's access to its store for operators: separate from the connections that count, and opened at the first question. A failure
 * here is reported, and never ends or fails the process.
 */
import type { StoredCounter } from '../../stores/store.ts';

/** The location of a counter. */
export interface CounterRef {
  /** The complete key, with CACHE_KEY_PREFIX and window. */
  readonly key: string;
  /** Whether the counter is in the Redis of limits per second (REDIS_PERSECOND). */
  readonly perSecond: boolean;
}

export interface ScanQuery {
  /** Keys begin with one of these. */
  readonly prefixes: readonly string[];
  /** Where to continue; undefined: at the beginning. */
  readonly from: string | undefined;
  /** The approximate number of keys to read. */
  readonly count: number;
}

export interface ScannedKeys {
  readonly counters: readonly CounterRef[];
  /** The number of keys that were read, including other keys. */
  readonly scanned: number;
  /** An opaque position; undefined: nothing is left. */
  readonly place: string | undefined;
  /** The parts that were not scanned, and the reasons. */
  readonly notes: readonly string[];
}

/** A command that the server, its ACL or a proxy rejects. */
export interface MissingRight {
  readonly command: string;
  /** The server's message, without credentials. */
  readonly message: string;
}

export interface SubscriptionListener {
  /** Called for each message of any limiter, including this one. */
  received(text: string): void;
  /** Called when messages arrive from now on. Some may have been missed before. */
  back(): void;
}

/** Small records, one hash for each table and one field for each record. */
export type RecordTable = 'overrides' | 'limiters' | 'revisions';

/** Methods reject with a `StoreError` if the store is unavailable, and with a `StoreAdminRejection` if it can never do this. */
export interface StoreAdmin {
  readonly kind: 'redis' | 'memory' | 'memcache';
  /** Returns one slice of keys of counters. A key may come twice, and one that does not exist all the time may be missing. */
  scan(question: ScanQuery): Promise<ScannedKeys>;
  /** Reads counters, in the given order; undefined: it does not exist, or is no counter. */
  read(counters: readonly CounterRef[]): Promise<(StoredCounter | undefined)[]>;
  /** Removes counters with the ledgers of their leases, and releases their reservations. Returns how many existed. */
  remove(counters: readonly CounterRef[]): Promise<number>;
  /** Commands that were rejected when they were last tried. */
  readonly missing: readonly MissingRight[];
  /** Sends a text to all listeners. Returns false if this is rejected: `missing` has the reason. */
  publish(text: string): Promise<boolean>;
  /** Subscribes, again whenever the connection is lost. Returns a function that ends it. */
  subscribe(listener: SubscriptionListener): () => void;
  records(table: RecordTable): Promise<Map<string, string>>;
  /** Reads one record; undefined: there is no such field. */
  record(table: RecordTable, field: string): Promise<string | undefined>;
  /** `absent`: writes only if there is no such field; `is`: only in place of this text. Returns false if another text was there. */
  putRecord(
    table: RecordTable,
    field: string,
    text: string,
    when?: 'always' | 'absent' | { is: string },
  ): Promise<boolean>;
  /** `is`: removes only this text. Returns false if there was none, or another. */
  removeRecord(table: RecordTable, field: string, is?: string): Promise<boolean>;
  close(): Promise<void>;
}

/** This store can never do this, or not with such a question. */
export class StoreAdminRejection extends Error {
  override readonly name = 'StoreAdminRejection';
  readonly isQuestions: boolean;

  constructor(message: string, { isQuestions = false } = {}) {
    super(message);
    this.isQuestions = isQuestions;
  }
}

const ownKeys = ['weir:{', 'weir:lease:', 'weir:reserve:', 'weir:reserve-', 'weir:claim:'];

/** Whether a key is one of Weir's own that holds no counter. */
export function isStoreAdminKey(key: string): boolean {
  return ownKeys.some((beginning) => key.startsWith(beginning));
}
