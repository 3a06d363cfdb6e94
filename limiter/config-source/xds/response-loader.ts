/** Loads responses: small ones in place, large ones in a thread, so that callers of the limiter need not wait. */
import { errorText } from '../../../process/log/error-text.ts';
import type { Timers } from '../../../process/time/clock.ts';
import { brokenLoad, type FailedLoad, type ReviewOutcome } from '../config-source.ts';
import { type LoadThread, type LoadThreadLimits, runLoadThread } from '../load-thread.ts';
import { type LoadedResources, loadResources, type ResourcesRequest } from './load-resources.ts';

export interface ResponseLoaderOptions extends LoadThreadLimits {
  /** Longer responses are loaded in a thread. */
  maxInPlaceBytes: number;
  /** Rules that change by the second are reviewed when they have settled for so long. */
  reviewDelayMs: number;
  timers: Timers;
}

/** What is to be looked at, and who learns what was found. */
export interface Reviewing {
  request: ResourcesRequest;
  tell(review: ReviewOutcome): void;
}

export class ResponseLoader {
  readonly #options: ResponseLoaderOptions;
  #running: { thread: LoadThread<LoadedResources>; request: ResourcesRequest } | undefined;
  /** What the rules in force are of, until they were reviewed. */
  #unreviewed: ResourcesRequest | undefined;
  #callOffReview = (): void => {};
  #isClosed = false;

  constructor(options: ResponseLoaderOptions) {
    this.#options = options;
  }

  /** Never rejects. One load at a time. */
  async load(request: ResourcesRequest): Promise<LoadedResources | FailedLoad> {
    await this.#breakOff();
    if (this.#isClosed) return brokenLoad('response', 'the load ended without a result');
    const isSmall = request.bytes.length <= this.#options.maxInPlaceBytes;
    const outcome = isSmall ? loadInPlace(request) : await this.#start(request).outcome;
    if (outcome.ok && outcome.rules !== undefined) this.#unreviewed = request;
    return outcome;
  }

  /**
   * Call when the rules of the last good load are in force. Tells what there is to say of them, unless it was told, or another
   * load comes before; never on this thread are they looked at. `begin`: what to look at instead of the last load, where
   * that is over.
   */
  review(tell: (review: ReviewOutcome) => void, begin?: () => Reviewing): void {
    const request = this.#unreviewed;
    if (request === undefined) return;
    const running = this.#running;
    if (running?.request === request && request.parts?.change === undefined) {
      void this.#follow(running.thread, tell);
      return;
    }
    const { timers, reviewDelayMs } = this.#options;
    this.#callOffReview = timers.after(reviewDelayMs, () => {
      const reviewing = begin?.() ?? { request, tell };
      void this.#follow(this.#start({ ...reviewing.request, hashInForce: undefined }), reviewing.tell);
    });
  }

  /** Breaks off a load in a thread; resolves when the thread is gone. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.#breakOff();
  }

  #start(request: ResourcesRequest): LoadThread<LoadedResources> {
    // A copy, because the bytes may be part of a larger buffer that cannot move to the thread.
    const bytes = new Uint8Array(request.bytes);
    const thread = runLoadThread<LoadedResources>(
      {
        program: './load-resources-worker',
        base: import.meta.url,
        request: { ...request, bytes },
        transfer: [bytes.buffer],
        source: 'response',
      },
      this.#options,
    );
    this.#running = { thread, request };
    return thread;
  }

  async #follow(thread: LoadThread<unknown>, tell: (review: ReviewOutcome) => void): Promise<void> {
    const review = await thread.review;
    if (review === undefined) return;
    this.#unreviewed = undefined;
    tell(review);
  }

  async #breakOff(): Promise<void> {
    this.#callOffReview();
    const running = this.#running;
    if (running === undefined) return;
    running.thread.stop();
    await running.thread.review;
    if (this.#running === running) this.#running = undefined;
  }
}

function loadInPlace(request: ResourcesRequest): LoadedResources | FailedLoad {
  try {
    return loadResources(request).outcome;
  } catch (error) {
    return brokenLoad('response', `the load broke off: ${errorText(error)}`);
  }
}
