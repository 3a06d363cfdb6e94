/** Follows the objects of one kind in the API: what the server reports in pages of a list and events of a watch, and the next request. */
import type { Timers } from '../../process/time/clock.ts';
import { retryDelayMs } from '../../process/time/pacing.ts';
import type { WatchStream } from './api.ts';
import { type ApiError, unreadable, watchError } from './api-error.ts';

/** A kind of object, and where to look for it. */
export interface WatchedResource {
  /** The API group. Empty for the core group. */
  group: string;
  version: string;
  /** The plural as in the URL: `configmaps`. */
  plural: string;
  /** Undefined for all namespaces. */
  namespace: string | undefined;
}

export function resourcePath({ group, version, plural, namespace }: WatchedResource): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return namespace === undefined
    ? `${root}/${plural}`
    : `${root}/namespaces/${encodeURIComponent(namespace)}/${plural}`;
}

/** Returns the name as in roles and messages of the API server: `ratelimitconfigs.ratelimit.weir.dev`. */
export function resourceName({ group, plural }: WatchedResource): string {
  return group === '' ? plural : `${plural}.${group}`;
}

/** Returns the text for messages: `ratelimitconfigs of ratelimit.weir.dev/v1alpha1`. */
export function resourceText({ group, version, plural }: WatchedResource): string {
  return `${plural} of ${group === '' ? version : `${group}/${version}`}`;
}

/** The fields of every object of the API that are needed here. */
export interface ApiObject {
  metadata: {
    name: string;
    /** Missing for objects without a namespace. */
    namespace?: string;
    uid?: string;
    resourceVersion?: string;
    generation?: number;
    creationTimestamp?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string }[];
    /** The writers of fields, and the times of their last writes. `subresource` is set for the status. */
    managedFields?: { manager?: string; subresource?: string; time?: string }[];
  };
  [field: string]: unknown;
}

/** Returns `namespace/name`, or the name alone if there is no namespace. */
export function apiObjectKey({ metadata: { namespace, name } }: ApiObject): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

/** An answer to a list request. */
export interface ListPage {
  resourceVersion: string;
  /** The start of the next page. Empty for the last page. */
  continueToken: string;
  objects: ApiObject[];
}

/** Returns undefined for a value that is not a list. Such a value must never be read as an empty list. */
export function parseListPage(value: unknown): ListPage | undefined {
  const { kind, metadata, items } = fields(value);
  const { resourceVersion, continue: continueToken = '' } = fields(metadata);
  if (typeof kind !== 'string' || !kind.endsWith('List')) return undefined;
  if (typeof resourceVersion !== 'string' || resourceVersion === '') return undefined;
  if (typeof continueToken !== 'string') return undefined;
  const objects: unknown = items ?? [];
  if (!Array.isArray(objects) || !objects.every(isApiObject)) return undefined;
  return { resourceVersion, continueToken, objects };
}

/** A line of a watch's answer. `object` is a Status for `ERROR`, and has no name for `BOOKMARK`. */
export type WatchEvent = ProgressEvent | { type: 'ERROR'; status: unknown };

/** An event after which the watch continues. */
export type ProgressEvent = ObjectEvent | { type: 'BOOKMARK'; resourceVersion: string };

export interface ObjectEvent {
  type: 'ADDED' | 'MODIFIED' | 'DELETED';
  object: ApiObject;
}

/** Returns undefined for other values. */
export function parseWatchEvent(value: unknown): WatchEvent | undefined {
  const { type, object } = fields(value);
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
      return isApiObject(object) ? { type, object } : undefined;
    case 'BOOKMARK': {
      const { resourceVersion } = fields(fields(object)['metadata']);
      return typeof resourceVersion === 'string' && resourceVersion !== ''
        ? { type, resourceVersion }
        : undefined;
    }
    case 'ERROR':
      return { type, status: object };
    default:
      return undefined;
  }
}

function isApiObject(value: unknown): value is ApiObject {
  return typeof fields(fields(value)['metadata'])['name'] === 'string';
}

function fields(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

export interface FollowedWatch {
  stream: WatchStream;
  timers: Timers;
  /** The time without events after which the watch ends regularly. Either nothing happened, or the other side is gone without notice. */
  idleTimeoutMs: number;
  /** The request, for messages. */
  request: string;
  /** Receives events in order, with one call for events that arrived together. Never called without events. */
  receive(events: readonly ProgressEvent[]): void;
}

/**
 * Settles when the watch has ended and its connection is free: with undefined for a regular end, and otherwise with the error. Never
 * rejects.
 */
export async function readWatch(options: FollowedWatch): Promise<ApiError | undefined> {
  const { stream, timers, idleTimeoutMs, request } = options;
  let end: { error: ApiError | undefined } | undefined;
  const finish = (error: ApiError | undefined) => {
    end ??= { error };
    stream.end();
  };
  const waitForMore = () => timers.after(idleTimeoutMs, () => finish(undefined));
  let callOff = waitForMore();
  const ended = await stream.follow((values) => {
    if (end !== undefined) return;
    callOff();
    callOff = waitForMore();
    const { events, error } = eventsOf(values, request);
    if (events.length > 0) options.receive(events);
    if (error !== undefined) finish(error);
  });
  callOff();
  return end === undefined ? ended : end.error;
}

/** Returns the events up to the first one that ends the watch. */
function eventsOf(
  values: readonly unknown[],
  request: string,
): { events: ProgressEvent[]; error: ApiError | undefined } {
  const events: ProgressEvent[] = [];
  for (const value of values) {
    const event = parseWatchEvent(value);
    if (event === undefined)
      return { events, error: unreadable(`${request}: an event in an unknown format`) };
    if (event.type === 'ERROR') return { events, error: watchError(event.status, request) };
    events.push(event);
  }
  return { events, error: undefined };
}

/** The next step that the owner performs. */
export type ReflectorStep =
  | { do: 'list'; limit: number | undefined; continueToken: string | undefined }
  | { do: 'watch'; resourceVersion: string }
  | { do: 'wait'; delayMs: number };

export interface ReflectorOptions<T> {
  /** Returns the part of an object to store, or the reason why it cannot be read. In the latter case, the stored part stays. */
  read(object: ApiObject): Reading<T>;
  skipped(key: string, reason: string): void;
  /** A number from 0 to below 1. */
  random(): number;
  /** The number of objects in a page. */
  pageSize: number;
  /** The maximum of the first wait after a failure. Each further failure doubles it, up to `maxDelayMs`. */
  firstDelayMs: number;
  maxDelayMs: number;
}

export type Reading<T> = { item: T } | { unreadable: string };

/** The end of a watch. */
export interface WatchEnd {
  /** Undefined if it ended regularly, after its time or after silence. */
  error: ApiError | undefined;
  lastedMs: number;
}

/** Chosen: a watch that lasts this long is not a failure, regardless of how it ends. */
const usefulMs = 5_000;

/** Chosen: the number of times that a watch is resumed after the server rejects or interrupts it, before all objects are listed again. */
const resumesBeforeList = 3;

/**
 * Keeps a copy of the objects of one kind by a list, and a watch that continues where the list ended:
 *
 *              ┌─┐ page, and more to come
 *       start  v │     last page              410 Gone
 *   idle ────> listing ──────────> watching ────────────> listing
 *               ^  │ failed          ^ │ │ └ ended after it was of use: watching anew at once
 *               │  v                 │ │ failed
 *               waiting ─────────────┘ v
 *                  due   due        waiting
 *
 * A lost watch continues at the version of the last event, so that nothing is missed or sent twice. The copy stays meanwhile. A new list
 * replaces the copy when its last page is in, never before. Pure: the owner asks the server and waits. A list is always the newest state
 * (no `resourceVersion`): one from a server's cache might be older than what is kept.
 */
export class Reflector<T> {
  readonly #options: ReflectorOptions<T>;
  #state: 'idle' | 'listing' | 'watching' | 'waiting' = 'idle';
  #items = new Map<string, T>();
  /** The objects of the list that is being read. */
  #listed = new Map<string, T>();
  /** Undefined if a list is next. */
  #resourceVersion: string | undefined;
  #pageSize: number | undefined;
  #failures = 0;
  #hasReceived = false;
  /** The current watch continues where a list ended, not where another watch ended. */
  #isFirstWatch = false;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#pageSize = options.pageSize;
  }

  /** Items by `namespace/name`. */
  get items(): ReadonlyMap<string, T> {
    return this.#items;
  }

  /** The version up to which `items` are complete. Undefined if a list is next. */
  get resourceVersion(): string | undefined {
    return this.#resourceVersion;
  }

  /** The number of consecutive failures since a useful watch. */
  get failures(): number {
    return this.#failures;
  }

  start(): ReflectorStep {
    this.#leave('idle');
    return this.#next();
  }

  /** `isComplete`: whether this was the last page. `items` are the items of the list. */
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

  /** If the pages of a list became too old while they were fetched, the list is requested in one piece. */
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

  /** Called when all changes up to this version have been received. */
  bookmarked(resourceVersion: string): void {
    if (this.#state !== 'watching') throw new Error(`no watch is open: ${this.#state}`);
    this.#resourceVersion = resourceVersion;
    this.#hasReceived = true;
    this.#failures = 0;
  }

  watchEnded({ error, lastedMs }: WatchEnd): ReflectorStep {
    this.#leave('watching');
    const wasUseful = this.#hasReceived || lastedMs >= usefulMs;
    if (wasUseful) this.#failures = 0;
    const isExpired = error?.status === 410;
    if (isExpired || isRejected(error)) this.#resourceVersion = undefined;
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
      maxMs: maxDelayMs,
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

/** The server will not resume this watch. A 429 only asks to wait. */
function isRejected(error: ApiError | undefined): boolean {
  return error !== undefined && error.status >= 400 && error.status < 500 && error.status !== 429;
}

/** An unreachable server says nothing about the requested version. */
function isAnswered(error: ApiError | undefined): boolean {
  return error?.reason !== 'Unreachable' && error?.reason !== 'Timeout' && error?.status !== 429;
}
