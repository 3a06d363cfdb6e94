/** Determines from the results of lists and watches the next request and the failures to report. */
import { retryDelayMs } from '../../process/time/pacing.ts';
import { type ApiError, type Denial, isDenied, isWatchRejected, type KubernetesApi } from './api.ts';

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

export interface WatchProgressOptions {
  /** The number of objects in a page of the list. */
  pageSize: number;
  /** The maximum of the first wait after a failure. Each further failure doubles it, up to `maxDelayMs`. */
  firstDelayMs: number;
  maxDelayMs: number;
  /** A number from 0 to below 1, for waits. */
  random(): number;
}

/**
 * Decides the next request, and how long to wait before it. A lost watch continues at the version of the last event, so that nothing is
 * missed or sent twice. After a list, a watch continues where the list ended:
 *
 *   start ──> list ─────────────> watch ──┐ ended after it was of use: at once
 *             ^  │ failed: waits  ^ │  └──┘ failed: waits, and resumes
 *             └──┘                │ └─> list: the version is too old (410), the server rejects it, or resuming did not help
 *                                 └─────┘
 *
 * Pure. A list is always the newest state (no `resourceVersion`), because one from a server's cache may be older than what is known.
 */
export class WatchProgress {
  readonly #options: WatchProgressOptions;
  #version: string | undefined;
  #pageSize: number | undefined;
  #failures = 0;
  #hasReceived = false;
  /** Whether the current watch continues where a list ended, instead of where another watch ended. */
  #isFirstWatch = false;

  constructor(options: WatchProgressOptions) {
    this.#options = options;
    this.#pageSize = options.pageSize;
  }

  /** The version at which the next watch continues. Undefined if a list is next. */
  get version(): string | undefined {
    return this.#version;
  }

  /** The number of objects in a page of the list. Undefined for a list in one piece. */
  get pageSize(): number | undefined {
    return this.#pageSize;
  }

  /** The number of consecutive failures since a useful watch. */
  get failures(): number {
    return this.#failures;
  }

  /** Called when the last page of a list has arrived. */
  listed(version: string): void {
    this.#version = version;
    this.#isFirstWatch = true;
    this.#pageSize = this.#options.pageSize;
  }

  /** Returns the wait before the next list. If pages became too old while they were fetched, the list is requested in one piece. */
  listFailed(error: ApiError): number {
    this.#pageSize = error.status === 410 ? undefined : this.#options.pageSize;
    return this.#failed(error);
  }

  /** Called when all changes up to this version have been received. */
  received(version: string | undefined): void {
    this.#version = version ?? this.#version;
    this.#hasReceived = true;
    this.#failures = 0;
  }

  /** Returns the wait before the next request. 0 if it follows at once. */
  watchEnded({ error, lastedMs }: WatchEnd): number {
    const wasUseful = this.#hasReceived || lastedMs >= usefulMs;
    this.#hasReceived = false;
    if (wasUseful) this.#failures = 0;
    const isExpired = error?.status === 410;
    if (isExpired || isRejected(error)) this.#version = undefined;
    else if (this.#failures >= resumesBeforeList && isAnswered(error)) this.#version = undefined;
    const isNoLoop = wasUseful || (isExpired && !this.#isFirstWatch);
    this.#isFirstWatch = false;
    return isNoLoop && (isExpired || error === undefined) ? 0 : this.#failed(error);
  }

  #failed(error: ApiError | undefined): number {
    const { firstDelayMs, maxDelayMs, random } = this.#options;
    this.#failures++;
    return retryDelayMs({
      failures: this.#failures,
      firstMs: firstDelayMs,
      maxMs: maxDelayMs,
      random,
      retryAfterMs: error?.retryAfterMs,
    });
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

/** Chosen: a server that has just started may briefly deny rights that it grants later. */
const attemptsUntilSettled = 3;

/**
 * Decides which consecutive failures to report. It reports an outage once, when it begins. It reports the outage again if it became a
 * rejection that waiting does not end (401, 403, 404), and that occurred several times in a row. An API server that has just started
 * knows neither users nor roles, so 401 and 403 are not an outage before they have occurred for `deniedPatienceMs`. The client learns
 * which access such an outage denies.
 */
export class WatchOutage {
  readonly #client: Pick<KubernetesApi, 'denied'>;
  readonly #deniedPatienceMs: number;
  #denial: Denial | undefined;
  /** The time since which all failures were 401 or 403. */
  #deniedSinceMs: number | undefined;
  #reported: string | undefined;
  #rejection: string | undefined;
  #rejections = 0;

  constructor(client: Pick<KubernetesApi, 'denied'>, deniedPatienceMs: number) {
    this.#client = client;
    this.#deniedPatienceMs = deniedPatienceMs;
  }

  /** Returns whether the last failure was 401 or 403. */
  get isDenied(): boolean {
    return this.#deniedSinceMs !== undefined;
  }

  /** Returns whether the reason is to be reported. */
  failed(error: ApiError, access: Denial, nowMs: number): boolean {
    const { reason } = access;
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
    if (!isFirst && !isOther) return false;
    this.#reported = reason;
    if (wasDenied) this.#deny(access);
    return true;
  }

  /** Returns whether there was an outage that was reported. */
  recovered(): boolean {
    const wasReported = this.#reported !== undefined;
    this.#reported = undefined;
    this.#rejection = undefined;
    this.#rejections = 0;
    this.#deniedSinceMs = undefined;
    this.#deny(undefined);
    return wasReported;
  }

  #deny(denial: Denial | undefined): void {
    if (this.#denial !== undefined) this.#client.denied?.(this.#denial, false);
    this.#denial = denial;
    if (denial !== undefined) this.#client.denied?.(denial, true);
  }
}
