/** Loads responses of the xDS server: small ones in place, large ones in a thread. */
import { errorText } from '../../../process/log/error-text.ts';
import type { Timers } from '../../../process/time/clock.ts';
import { brokenLoad, type FailedLoad, type RulesReviewOutcome } from '../config-source.ts';
import {
  type LoadThread,
  type LoadThreadLimits,
  type LoadThreadOptions,
  runLoadThread,
} from '../load-thread.ts';
import { type LoadedResources, loadResources, type ResourcesRequest } from './load-resources.ts';

export interface ResponseLoaderOptions extends LoadThreadLimits {
  /** Longer responses are loaded in a thread. */
  maxInPlaceBytes: number;
  /** The loader waits this long after a load before it reviews the rules, so that rules that change each second are reviewed once. */
  reviewDelayMs: number;
  timers: Timers;
  /** Defaults to threads of Node. */
  startThread?: StartLoadThread;
}

/** Starts a load in a thread, so that no caller of the limiter waits for it. */
export type StartLoadThread = (
  request: ResourcesRequest,
  options: LoadThreadOptions,
) => LoadThread<LoadedResources>;

/** A review that will start, and the callback that gets its result. */
export interface Reviewing {
  request: ResourcesRequest;
  report(review: RulesReviewOutcome): void;
}

/** Runs one load at a time, and then the review of the rules that it loaded. */
export class ResponseLoader {
  readonly #options: ResponseLoaderOptions;
  #running: { thread: LoadThread<LoadedResources>; request: ResourcesRequest } | undefined;
  /** The request that the rules in force were loaded from; undefined once they are reviewed. */
  #unreviewed: ResourcesRequest | undefined;
  #callOffReview = (): void => {};
  #isClosed = false;

  constructor(options: ResponseLoaderOptions) {
    this.#options = options;
  }

  /** Never rejects. A load that is still running is stopped first. */
  async load(request: ResourcesRequest): Promise<LoadedResources | FailedLoad> {
    await this.#breakOff();
    if (this.#isClosed) return brokenLoad('response', 'the load ended without a result');
    const isSmall = request.bytes.length <= this.#options.maxInPlaceBytes;
    const outcome = isSmall ? loadInPlace(request) : await this.#start(request).outcome;
    if (outcome.ok && outcome.rules !== undefined) this.#unreviewed = request;
    return outcome;
  }

  /**
   * Reviews the rules of the last good load in a thread. Call it when they are in force. It reports nothing if the rules were reviewed
   * before, or if another load starts first. If the thread of that load has ended, `begin` names the resources to review.
   */
  review(report: (review: RulesReviewOutcome) => void, begin?: () => Reviewing): void {
    const request = this.#unreviewed;
    if (request === undefined) return;
    const running = this.#running;
    if (running?.request === request && request.parts?.change === undefined) {
      void this.#follow(running.thread, report);
      return;
    }
    const { timers, reviewDelayMs } = this.#options;
    this.#callOffReview = timers.after(reviewDelayMs, () => {
      const reviewing = begin?.() ?? { request, report };
      void this.#follow(this.#start({ ...reviewing.request, hashInForce: undefined }), reviewing.report);
    });
  }

  /** Stops a load in a thread. Resolves when the thread has ended. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.#breakOff();
  }

  #start(request: ResourcesRequest): LoadThread<LoadedResources> {
    const { startThread = startLoadThread } = this.#options;
    const thread = startThread(request, this.#options);
    this.#running = { thread, request };
    return thread;
  }

  async #follow(thread: LoadThread<unknown>, report: (review: RulesReviewOutcome) => void): Promise<void> {
    const review = await thread.review;
    if (review === undefined) return;
    this.#unreviewed = undefined;
    report(review);
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

const startLoadThread: StartLoadThread = (request, options) => {
  // The bytes may be part of a larger buffer, which cannot move to the thread, so the thread gets a copy.
  const bytes = new Uint8Array(request.bytes);
  return runLoadThread<LoadedResources>(
    {
      program: './load-resources-worker',
      base: import.meta.url,
      request: { ...request, bytes },
      transfer: [bytes.buffer],
      source: 'response',
    },
    options,
  );
};

function loadInPlace(request: ResourcesRequest): LoadedResources | FailedLoad {
  try {
    return loadResources(request).outcome;
  } catch (error) {
    return brokenLoad('response', `the load failed: ${errorText(error)}`);
  }
}
