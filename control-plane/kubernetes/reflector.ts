/**
 * Keeps a copy of the objects of one kind by a list and a watch that goes on where the list ended:
 *
 *              ┌─┐ page, and more to come
 *       start  v │     last page              410 Gone
 *   idle ────> listing ──────────> watching ────────────> listing
 *               ^  │ failed          ^ │ │ └ ended after it was of use: watching anew at once
 *               │  v                 │ │ failed
 *               waiting ─────────────┘ v
 *                  due   due        waiting
 *
 * A lost watch goes on at the version of the last event, so that nothing is missed or sent twice; what is kept stays
 * meanwhile. A new list replaces the copy when its last page is in, never before. Pure: the owner asks the server and
 * waits. A list is always the newest state (no `resourceVersion`): one from a server's cache might be older than what
 * is kept.
 */
import { retryDelayMs } from '../../process/time/token-bucket.ts';
import type { ApiError } from './api-error.ts';
import { type ApiObject, apiObjectKey, type ListPage } from './watch-protocol.ts';

/** What the owner does next. */
export type ReflectorStep =
  | { do: 'list'; limit: number | undefined; continueToken: string | undefined }
  | { do: 'watch'; resourceVersion: string }
  | { do: 'wait'; delayMs: number };

export interface ReflectorOptions<T> {
  /** What is kept of an object, or why it cannot be read: then what was kept of it stays. */
  read(object: ApiObject): Reading<T>;
  skipped(key: string, reason: string): void;
  /** 0 <= x < 1. */
  random(): number;
  /** Objects a page. */
  pageSize: number;
  /** Waits after a failure: at most this at first, doubled by each further failure, up to `maxDelayMs`. */
  firstDelayMs: number;
  maxDelayMs: number;
}

export type Reading<T> = { item: T } | { unreadable: string };

/** How a watch came to its end. */
export interface WatchEnd {
  /** Undefined: it ended in order, after the time it was given or after silence. */
  error: ApiError | undefined;
  lastedMs: number;
}

/** Chosen: a watch that lives so long is no failure, whatever ends it. */
const usefulMs = 5_000;

/** Chosen: so often a watch is resumed that the server refuses or breaks off, before all is listed anew. */
const resumesBeforeList = 3;

export class Reflector<T> {
  readonly #options: ReflectorOptions<T>;
  #state: 'idle' | 'listing' | 'watching' | 'waiting' = 'idle';
  #items = new Map<string, T>();
  /** Of the list under way. */
  #listed = new Map<string, T>();
  /** Undefined: what comes next is a list. */
  #resourceVersion: string | undefined;
  #pageSize: number | undefined;
  #failures = 0;
  #hasReceived = false;
  /** The watch under way goes on where a list ended, not where another watch did. */
  #isFirstWatch = false;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#pageSize = options.pageSize;
  }

  /** By `namespace/name`. */
  get items(): ReadonlyMap<string, T> {
    return this.#items;
  }

  /** In a row, since a watch was of use. */
  get failures(): number {
    return this.#failures;
  }

  start(): ReflectorStep {
    this.#leave('idle');
    return this.#next();
  }

  /** `isComplete`: this was the last page, and `items` are those of the list. */
  pageListed({ resourceVersion, continueToken, objects }: ListPage): {
    isComplete: boolean;
    step: ReflectorStep;
  } {
    this.#leave('listing');
    for (const object of objects) this.#keep(object, this.#listed);
    if (continueToken !== '') {
      this.#state = 'listing';
      return { isComplete: false, step: { do: 'list', limit: this.#pageSize, continueToken } };
    }
    this.#items = this.#listed;
    this.#listed = new Map();
    this.#resourceVersion = resourceVersion;
    this.#isFirstWatch = true;
    this.#pageSize = this.#options.pageSize;
    return { isComplete: true, step: this.#next() };
  }

  /** A list whose pages became too old while they were fetched is asked for in one piece. */
  listFailed(error: ApiError): ReflectorStep {
    this.#leave('listing');
    this.#listed = new Map();
    this.#pageSize = error.status === 410 ? undefined : this.#options.pageSize;
    return this.#wait(error);
  }

  objectChanged(type: 'ADDED' | 'MODIFIED' | 'DELETED', object: ApiObject): void {
    this.bookmarked(object.metadata.resourceVersion ?? this.#resourceVersion ?? '');
    if (type === 'DELETED') this.#items.delete(apiObjectKey(object));
    else this.#keep(object, this.#items);
  }

  /** All changes up to this version have been received. */
  bookmarked(resourceVersion: string): void {
    if (this.#state !== 'watching') throw new Error(`no watch is under way: ${this.#state}`);
    this.#resourceVersion = resourceVersion;
    this.#hasReceived = true;
    this.#failures = 0;
  }

  watchEnded({ error, lastedMs }: WatchEnd): ReflectorStep {
    this.#leave('watching');
    const wasUseful = this.#hasReceived || lastedMs >= usefulMs;
    if (wasUseful) this.#failures = 0;
    const isExpired = error?.status === 410;
    if (isExpired || isRefused(error)) this.#resourceVersion = undefined;
    else if (this.#failures >= resumesBeforeList && isAnswered(error)) this.#resourceVersion = undefined;
    const isNoLoop = wasUseful || (isExpired && !this.#isFirstWatch);
    this.#isFirstWatch = false;
    if (isNoLoop && (isExpired || error === undefined)) return this.#next();
    return this.#wait(error);
  }

  /** The wait is over. */
  due(): ReflectorStep {
    this.#leave('waiting');
    return this.#next();
  }

  #next(): ReflectorStep {
    if (this.#resourceVersion === undefined) {
      this.#state = 'listing';
      return { do: 'list', limit: this.#pageSize, continueToken: undefined };
    }
    this.#state = 'watching';
    this.#hasReceived = false;
    return { do: 'watch', resourceVersion: this.#resourceVersion };
  }

  #wait(error: ApiError | undefined): ReflectorStep {
    this.#state = 'waiting';
    const { firstDelayMs, maxDelayMs, random } = this.#options;
    this.#failures++;
    const delayMs = retryDelayMs({
      failures: this.#failures,
      firstMs: firstDelayMs,
      mostMs: maxDelayMs,
      random,
      retryAfterMs: error?.retryAfterMs,
    });
    return { do: 'wait', delayMs };
  }

  #keep(object: ApiObject, items: Map<string, T>): void {
    const key = apiObjectKey(object);
    const reading = this.#options.read(object);
    if ('item' in reading) {
      items.set(key, reading.item);
      return;
    }
    const before = this.#items.get(key);
    if (before !== undefined) items.set(key, before);
    this.#options.skipped(key, reading.unreadable);
  }

  #leave(state: 'idle' | 'listing' | 'watching' | 'waiting'): void {
    if (this.#state !== state) throw new Error(`not ${state} but ${this.#state}`);
  }
}

/** The server will not resume this watch; 429 asks for patience only. */
function isRefused(error: ApiError | undefined): boolean {
  return error !== undefined && error.status >= 400 && error.status < 500 && error.status !== 429;
}

/** A server that is away says nothing about the version asked for. */
function isAnswered(error: ApiError | undefined): boolean {
  return error?.reason !== 'Unreachable' && error?.reason !== 'Timeout' && error?.status !== 429;
}
