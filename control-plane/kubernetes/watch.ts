import type { Clock, Timers } from '../../process/time/clock.ts';
import { ApiError, type Denial, type KubernetesApi, unreadable } from './api.ts';
import { WatchOutage, WatchProgress, type WatchProgressOptions } from './watch-progress.ts';
import {
  type ApiObject,
  apiObjectKey,
  type ListPage,
  type ProgressEvent,
  parseListPage,
  type Reading,
  readWatch,
  resourceName,
  resourcePath,
  resourceText,
  type WatchedResource,
} from './watch-protocol.ts';

/** Chosen: a watch that the server has left open for this time works, even if its kind does not change. A bookmark may take a minute. */
export const trustedMs = 5_000;

export interface WatchListener {
  /** Called when `items` has changed: once for each complete list, of which the first may be empty, and once for each event after it. */
  changed(): void;
  /** Called once for an outage, or once more if it became a rejection. `items` stay unchanged. */
  unreachable(reason: string, status: number): void;
  reachable(): void;
  /** Called when the API server starts or stops to answer with 401 or 403 in a way that may pass on its own. */
  doubtful?(isDoubtful: boolean): void;
  /** An object that cannot be read. Its last readable version stays in use. */
  skipped(key: string, reason: string): void;
}

export interface ResourceWatchOptions<T> {
  client: KubernetesApi;
  resource: WatchedResource;
  /** The labels of the objects: `team=a,stage!=dev`. Empty or undefined for all objects. */
  labelSelector?: string | undefined;
  /** Returns the part of an object to store. The rest is dropped. */
  read(object: ApiObject): Reading<T>;
  /**
   * Called with the object in `items` before and after the change: after every event, and after a list for each object of both lists.
   * Returns whether to call `changed` for the event. If it is missing, `changed` is called for all events. `isListed`: a list may hide
   * changes in between.
   */
  itemShown?(now: T | undefined, before: T | undefined, isListed: boolean): boolean;
  listener: WatchListener;
  clock: Clock;
  timers: Timers;
  /** A number from 0 to below 1, for waits. */
  random(): number;
  limits?: Partial<WatchLimits>;
}

/** Chosen: bounds and waits. */
export interface WatchLimits extends Omit<WatchProgressOptions, 'random'> {
  /**
   * The silence after which a watch is opened again, because its connection may be dead. If anything of the kind changes,
   * matching or not, the server sends a bookmark about once a minute.
   */
  idleTimeoutMs: number;
  /** The time after which the server should end a watch, or up to twice that time, so that watches are spread over servers. */
  watchSeconds: number;
  /** How long 401 and 403 may repeat before they are reported. */
  deniedPatienceMs: number;
}

export const defaultWatchLimits: Readonly<WatchLimits> = {
  pageSize: 500,
  firstDelayMs: 200,
  maxDelayMs: 5_000,
  idleTimeoutMs: 150_000,
  watchSeconds: 300,
  deniedPatienceMs: 30_000,
};

/**
 * The objects of one kind, kept up to date from `start` to `close`. A new list replaces the objects when its last page has arrived. It
 * does not use the library's informer, which requests no bookmarks, stops at an error, lists in one piece, skips events that it
 * cannot parse, ends a quiet watch every 30 s, and opens a new connection for each watch.
 */
export class ResourceWatch<T> {
  readonly #options: ResourceWatchOptions<T>;
  readonly #limits: WatchLimits;
  readonly #progress: WatchProgress;
  /** Items by `namespace/name`. Empty before the first complete list. */
  #items = new Map<string, T>();
  readonly #outage: WatchOutage;
  readonly #abort = new AbortController();
  #running: Promise<void> | undefined;
  #endWait = (): void => {};
  #isListed = false;
  #isDoubtful = false;
  /** The outage ends with the first event, or after `trustedMs`, because the server may open watches and break them off. */
  #waitsForEvent = false;

  constructor(options: ResourceWatchOptions<T>) {
    this.#options = options;
    this.#limits = { ...defaultWatchLimits, ...options.limits };
    this.#outage = new WatchOutage(options.client, this.#limits.deniedPatienceMs);
    this.#progress = new WatchProgress({ ...this.#limits, random: options.random });
  }

  get items(): ReadonlyMap<string, T> {
    return this.#items;
  }

  /** The version up to which `items` are complete. Undefined before the first list, and after a watch that must not be resumed. */
  get resourceVersion(): string | undefined {
    return this.#progress.version;
  }

  get isListed(): boolean {
    return this.#isListed;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Settles when no request is in progress. */
  async close(): Promise<void> {
    this.#abort.abort();
    this.#endWait();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#abort.signal.aborted) {
      const { version } = this.#progress;
      const waitMs = await (version === undefined ? this.#list() : this.#watch(version));
      if (waitMs > 0 && !this.#abort.signal.aborted) await this.#wait(waitMs);
    }
  }

  /** Lists all objects. Returns the wait before the next request. */
  async #list(): Promise<number> {
    const listed = new Map<string, T>();
    try {
      for (let continueToken: string | undefined; continueToken !== ''; ) {
        const page = await this.#page(continueToken);
        if (this.#abort.signal.aborted) return 0;
        for (const object of page.objects) this.#keep(object, listed);
        continueToken = page.continueToken;
        if (continueToken === '') this.#progress.listed(page.resourceVersion);
      }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (this.#abort.signal.aborted) return 0;
      const isExpired = error.status === 410;
      if (!isExpired) this.#failed(error, 'list');
      return this.#progress.listFailed(error);
    }
    const before = this.#items;
    this.#items = listed;
    this.#showList(before);
    this.#isListed = true;
    this.#options.listener.changed();
    return 0;
  }

  async #page(continueToken: string | undefined): Promise<ListPage> {
    const { client, resource, labelSelector } = this.#options;
    const path = resourcePath(resource);
    const query = {
      limit: this.#progress.pageSize,
      continue: continueToken,
      labelSelector: labelSelector || undefined,
    };
    const page = parseListPage(await client.request({ path, query, signal: this.#abort.signal }));
    if (page === undefined) throw unreadable(`GET ${path}: the answer is not a list`);
    return page;
  }

  /** Stores the readable part of an object. The last readable part of an unreadable object stays. */
  #keep(object: ApiObject, items: Map<string, T>): void {
    const { read, listener } = this.#options;
    const key = apiObjectKey(object);
    const reading = read(object);
    const item = 'item' in reading ? reading.item : this.#items.get(key);
    if (item !== undefined) items.set(key, item);
    if ('unreadable' in reading) listener.skipped(key, reading.unreadable);
  }

  #showList(before: ReadonlyMap<string, T>): void {
    const { items } = this;
    const { itemShown = () => true } = this.#options;
    for (const [key, item] of before) if (!items.has(key)) itemShown(undefined, item, true);
    for (const [key, item] of items) itemShown(item, before.get(key), true);
  }

  /** Watches until the watch ends. Returns the wait before the next request. */
  async #watch(resourceVersion: string): Promise<number> {
    const { clock } = this.#options;
    const startMs = clock.monotonicMs();
    const { error, hasOpened } = await this.#follow(resourceVersion);
    if (this.#abort.signal.aborted) return 0;
    const waitMs = this.#progress.watchEnded({ error, lastedMs: clock.monotonicMs() - startMs });
    const isRepeated = this.#progress.failures > 2;
    if (error !== undefined && error.status !== 410 && (!hasOpened || isRepeated)) {
      this.#waitsForEvent = hasOpened;
      this.#failed(error, 'watch');
    }
    return waitMs;
  }

  /** Follows a watch from the request to the end of the answer. */
  async #follow(resourceVersion: string): Promise<{ error: ApiError | undefined; hasOpened: boolean }> {
    const { client, resource, labelSelector, random, timers } = this.#options;
    const path = resourcePath(resource);
    let hasOpened = false;
    let callOffTrust = (): void => {};
    try {
      const stream = await client.stream({
        path,
        query: {
          watch: true,
          allowWatchBookmarks: true,
          resourceVersion,
          timeoutSeconds: Math.ceil(this.#limits.watchSeconds * (1 + random())),
          labelSelector: labelSelector || undefined,
        },
        signal: this.#abort.signal,
      });
      hasOpened = true;
      if (!this.#waitsForEvent) this.#recovered();
      else callOffTrust = timers.after(trustedMs, () => this.#recovered());
      const error = await readWatch({
        stream,
        timers,
        idleTimeoutMs: this.#limits.idleTimeoutMs,
        request: `watch of ${path}`,
        receive: (events) => this.#receive(events),
      });
      return { error, hasOpened };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return { error, hasOpened };
    } finally {
      callOffTrust();
    }
  }

  #receive(events: readonly ProgressEvent[]): void {
    let hasChanged = false;
    for (const event of events) {
      if (event.type === 'BOOKMARK') {
        this.#progress.received(event.resourceVersion);
        continue;
      }
      const { object } = event;
      const key = apiObjectKey(object);
      const before = this.#items.get(key);
      this.#progress.received(object.metadata.resourceVersion);
      if (event.type === 'DELETED') this.#items.delete(key);
      else this.#keep(object, this.#items);
      hasChanged = (this.#options.itemShown?.(this.#items.get(key), before, false) ?? true) || hasChanged;
    }
    if (this.#waitsForEvent) this.#recovered();
    if (hasChanged) this.#options.listener.changed();
  }

  #wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const callOff = this.#options.timers.after(delayMs, resolve);
      this.#endWait = () => {
        callOff();
        resolve();
      };
    });
  }

  #failed(error: ApiError, verb: Denial['verb']): void {
    const { resource, listener, clock } = this.#options;
    const reason = reasonText(error, resource);
    const access = { verb, resource: resourceName(resource), reason };
    const isReported = this.#outage.failed(error, access, clock.monotonicMs());
    const wasDenied = this.#outage.isDenied;
    if (wasDenied && !this.#isDoubtful) listener.doubtful?.(true);
    this.#isDoubtful ||= wasDenied;
    if (isReported) listener.unreachable(reason, error.status);
  }

  #recovered(): void {
    this.#waitsForEvent = false;
    const { listener } = this.#options;
    if (this.#isDoubtful) listener.doubtful?.(false);
    this.#isDoubtful = false;
    if (this.#outage.recovered()) listener.reachable();
  }
}

/** The server's message names the missing permission. For an unknown kind, it contains nothing useful. */
function reasonText(error: ApiError, resource: WatchedResource): string {
  if (error.status !== 404) return error.message;
  return `the Kubernetes API has no ${resourceText(resource)}: is the CustomResourceDefinition installed?`;
}
