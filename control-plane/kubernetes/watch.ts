import type { Clock, Timers } from '../../process/time/clock.ts';
import { type Denial, DeniedAccess, type KubernetesApi } from './api.ts';
import { ApiError, isDenied, isWatchRejected, unreadable } from './api-error.ts';
import {
  type ApiObject,
  apiObjectKey,
  type ProgressEvent,
  parseListPage,
  type Reading,
  Reflector,
  type ReflectorStep,
  readWatch,
  resourceName,
  resourcePath,
  resourceText,
  type WatchedResource,
} from './reflector.ts';

/** Chosen: a watch that the server has left open for this time works, even if its kind does not change. A bookmark may take a minute. */
const trustedMs = 5_000;
/** Chosen: a server that has just started may briefly deny rights that it grants later. */
const attemptsUntilSettled = 3;

/**
 * Decides which consecutive failures to report. It reports an outage once, when it begins. It reports the outage again if it became a
 * rejection that waiting does not end (401, 403, 404), and that occurred several times in a row. An API server that has just started
 * knows neither users nor roles, so 401 and 403 are not an outage before they have occurred for `deniedPatienceMs`. Pure.
 */
export class WatchOutage {
  readonly #deniedPatienceMs: number;
  /** The time since which all failures were 401 or 403. */
  #deniedSinceMs: number | undefined;
  #reported: string | undefined;
  #rejection: string | undefined;
  #rejections = 0;

  constructor(deniedPatienceMs: number) {
    this.#deniedPatienceMs = deniedPatienceMs;
  }

  /** Returns whether the last failure was 401 or 403. */
  get isDenied(): boolean {
    return this.#deniedSinceMs !== undefined;
  }

  /** Returns whether `reason` is to be reported. */
  failed(error: ApiError, reason: string, nowMs: number): boolean {
    const wasDenied = isDenied(error);
    this.#deniedSinceMs = wasDenied ? (this.#deniedSinceMs ?? nowMs) : undefined;
    if (this.#deniedSinceMs !== undefined && nowMs - this.#deniedSinceMs < this.#deniedPatienceMs)
      return false;
    const isRejection = isWatchRejected(error);
    this.#rejections = isRejection && reason === this.#rejection ? this.#rejections + 1 : 1;
    this.#rejection = isRejection ? reason : undefined;
    const isFirst = this.#reported === undefined;
    const isOther =
      isRejection && reason !== this.#reported && (wasDenied || this.#rejections >= attemptsUntilSettled);
    if (isFirst || isOther) this.#reported = reason;
    return isFirst || isOther;
  }

  /** Returns whether there was an outage that was reported. */
  recovered(): boolean {
    const wasReported = this.#reported !== undefined;
    this.#reported = undefined;
    this.#rejection = undefined;
    this.#rejections = 0;
    this.#deniedSinceMs = undefined;
    return wasReported;
  }
}

export interface WatchListener {
  /** The first complete list has arrived. */
  listed(): void;
  /** Called when `items` has changed after that: once for each event, and once for each later list. */
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
   * Returns whether to call `changed` for the event. If it is missing, `changed` is called for all events.
   */
  itemShown?(now: T | undefined, before: T | undefined): boolean;
  listener: WatchListener;
  clock: Clock;
  timers: Timers;
  /** A number from 0 to below 1, for waits. */
  random(): number;
  limits?: Partial<WatchLimits>;
}

/** Chosen: bounds and waits. */
export interface WatchLimits {
  /** The number of objects in a page of the list. */
  pageSize: number;
  firstDelayMs: number;
  maxDelayMs: number;
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
 * The objects of one kind, kept up to date from `start` to `close`. It performs the reflector's steps: lists, watches, waits. It
 * does not use the library's informer, which requests no bookmarks, stops at an error, lists in one piece, skips events that it
 * cannot parse, ends a quiet watch every 30 s, and opens a new connection for each watch.
 */
export class ResourceWatch<T> {
  readonly #options: ResourceWatchOptions<T>;
  readonly #limits: WatchLimits;
  readonly #reflector: Reflector<T>;
  readonly #outage: WatchOutage;
  readonly #abort = new AbortController();
  #running: Promise<void> | undefined;
  #isListed = false;
  #isDoubtful = false;
  readonly #denied: DeniedAccess;
  /** The outage ends with the first event, or after `trustedMs`, because the server may open watches and break them off. */
  #waitsForEvent = false;

  constructor(options: ResourceWatchOptions<T>) {
    this.#options = options;
    this.#limits = { ...defaultWatchLimits, ...options.limits };
    this.#outage = new WatchOutage(this.#limits.deniedPatienceMs);
    const { client, read, listener, random } = options;
    this.#denied = new DeniedAccess(client);
    this.#reflector = new Reflector<T>({
      ...this.#limits,
      read,
      random,
      skipped: (key, reason) => listener.skipped(key, reason),
    });
  }

  /** Items by `namespace/name`. Empty before the first complete list. */
  get items(): ReadonlyMap<string, T> {
    return this.#reflector.items;
  }

  /** The version up to which `items` are complete. Undefined before the first list, and after a watch that must not be resumed. */
  get resourceVersion(): string | undefined {
    return this.#reflector.resourceVersion;
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
    await this.#running;
  }

  async #run(): Promise<void> {
    let step = this.#reflector.start();
    while (!this.#abort.signal.aborted) {
      const next = await this.#take(step);
      if (next === undefined) return;
      step = next;
    }
  }

  /** Resolves with undefined if the watch was closed meanwhile. */
  #take(step: ReflectorStep): Promise<ReflectorStep | undefined> {
    switch (step.do) {
      case 'list':
        return this.#list(step);
      case 'watch':
        return this.#watch(step.resourceVersion);
      case 'wait':
        return this.#wait(step.delayMs);
    }
  }

  async #list(step: ReflectorStep & { do: 'list' }): Promise<ReflectorStep | undefined> {
    const { client, resource, labelSelector, listener } = this.#options;
    const path = resourcePath(resource);
    const query = {
      limit: step.limit,
      continue: step.continueToken,
      labelSelector: labelSelector || undefined,
    };
    try {
      const answer = await client.request({ path, query, signal: this.#abort.signal });
      const page = parseListPage(answer);
      if (page === undefined) throw unreadable(`GET ${path}: the answer is not a list`);
      if (this.#abort.signal.aborted) return undefined;
      const before = this.items;
      const { isComplete, step: next } = this.#reflector.pageListed(page);
      if (isComplete) {
        this.#showList(before);
        if (this.#isListed) listener.changed();
        else {
          this.#isListed = true;
          listener.listed();
        }
      }
      return next;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (this.#abort.signal.aborted) return undefined;
      const isExpired = error.status === 410;
      if (!isExpired) this.#failed(error, 'list');
      return this.#reflector.listFailed(error);
    }
  }

  #showList(before: ReadonlyMap<string, T>): void {
    const { items } = this;
    const { itemShown = () => true } = this.#options;
    for (const [key, item] of before) if (!items.has(key)) itemShown(undefined, item);
    for (const [key, item] of items) itemShown(item, before.get(key));
  }

  async #watch(resourceVersion: string): Promise<ReflectorStep | undefined> {
    const startMs = this.#options.clock.monotonicMs();
    const { error, hasOpened } = await this.#follow(resourceVersion);
    if (this.#abort.signal.aborted) return undefined;
    const lastedMs = this.#options.clock.monotonicMs() - startMs;
    const next = this.#reflector.watchEnded({ error, lastedMs });
    const isRepeated = this.#reflector.failures > 2;
    if (error !== undefined && error.status !== 410 && (!hasOpened || isRepeated)) {
      this.#waitsForEvent = hasOpened;
      this.#failed(error, 'watch');
    }
    return next;
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
      if (event.type === 'BOOKMARK') this.#reflector.bookmarked(event.resourceVersion);
      else {
        const key = apiObjectKey(event.object);
        const before = this.items.get(key);
        this.#reflector.objectChanged(event.type, event.object);
        hasChanged = (this.#options.itemShown?.(this.items.get(key), before) ?? true) || hasChanged;
      }
    }
    if (this.#waitsForEvent) this.#recovered();
    if (hasChanged) this.#options.listener.changed();
  }

  #wait(delayMs: number): Promise<ReflectorStep | undefined> {
    const { signal } = this.#abort;
    return new Promise((resolve) => {
      const onAbort = () => {
        callOff();
        resolve(undefined);
      };
      const callOff = this.#options.timers.after(delayMs, () => {
        signal.removeEventListener('abort', onAbort);
        resolve(this.#reflector.due());
      });
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  #failed(error: ApiError, verb: Denial['verb']): void {
    const { resource, listener, clock } = this.#options;
    const reason = reasonText(error, resource);
    const isReported = this.#outage.failed(error, reason, clock.monotonicMs());
    const wasDenied = this.#outage.isDenied;
    if (wasDenied && !this.#isDoubtful) listener.doubtful?.(true);
    this.#isDoubtful ||= wasDenied;
    if (isReported) {
      if (wasDenied) this.#denied.set({ verb, resource: resourceName(resource), reason });
      listener.unreachable(reason, error.status);
    }
  }

  #recovered(): void {
    this.#waitsForEvent = false;
    const { listener } = this.#options;
    if (this.#isDoubtful) listener.doubtful?.(false);
    this.#isDoubtful = false;
    this.#denied.set(undefined);
    if (this.#outage.recovered()) listener.reachable();
  }
}

/** The server's message names the missing permission. For an unknown kind, it contains nothing useful. */
function reasonText(error: ApiError, resource: WatchedResource): string {
  if (error.status !== 404) return error.message;
  return `the Kubernetes API has no ${resourceText(resource)}: is the CustomResourceDefinition installed?`;
}
