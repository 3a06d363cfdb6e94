import { extname } from 'node:path';
import { parentPort, type Transferable, Worker } from 'node:worker_threads';
import { errorText, systemErrorCode } from '../../process/log/error-text.ts';
import type { Timers } from '../../process/time/clock.ts';
import { brokenLoad, type FailedLoad, type MadeLoad, type RulesReviewOutcome } from './config-source.ts';
import { type ReviewOptions, reviewLoad } from './load-review.ts';

/** A load in a thread. `Success` is the type of a good result. */
export interface LoadThread<Success> {
  /**
   * Never rejects: if the thread fails, the load has failed. Settles once the thread and its memory are gone. If the thread goes
   * on to review the rules, it settles as soon as they are loaded.
   */
  readonly outcome: Promise<Success | FailedLoad>;
  /** Settles once the thread and its memory are gone; undefined if the thread was stopped or had nothing to review. */
  readonly review: Promise<RulesReviewOutcome | undefined>;
  /** Ends the thread. If there is no outcome yet, it becomes a failure. */
  stop(): void;
}

type ThreadMessage<Success> =
  | { outcome: Success | FailedLoad; goesOn: boolean }
  | { review: RulesReviewOutcome };

export interface ThreadedLoad {
  /** Path of the thread's program without extension, relative to `base`. */
  program: string;
  base: string;
  /** Plain data for the thread's `workerData`. */
  request: unknown;
  /** Parts of the request that move to the thread instead of being copied. */
  transfer?: readonly Transferable[];
  /** The source that errors of a failed thread name. */
  source: string;
}

export interface LoadThreadOptions extends LoadThreadLimits {
  timers: Timers;
}

export interface LoadThreadLimits {
  maxHeapMiB: number;
  timeoutMs: number;
  /** The maximum time for the review of loaded rules. */
  reviewTimeoutMs: number;
}

/**
 * Chosen: most objects of a load live until its end, so a larger young generation only adds to the peak. With 100,000 rules, 8 MiB
 * takes 50 MB less than the default, in the same time.
 */
const maxYoungHeapMiB = 8;

/** Loads in a thread that is started for this load, so that its memory is released afterward. */
export function runLoadThread<Success>(load: ThreadedLoad, options: LoadThreadOptions): LoadThread<Success> {
  try {
    return followWorker(startWorker(load, options.maxHeapMiB), load, options);
  } catch (error) {
    // The system could not start a thread, for example because their number is bounded. The next change tries again.
    const outcome = brokenLoad(load.source, brokenThread(error, options.maxHeapMiB).load);
    return { outcome: Promise.resolve(outcome), review: Promise.resolve(undefined), stop: () => {} };
  }
}

/** The program is `.ts` from source and `.js` in the package, because the compiler does not rewrite URLs. */
function startWorker({ program, base, request, transfer }: ThreadedLoad, maxHeapMiB: number): Worker {
  return new Worker(new URL(`${program}${extname(base)}`, base), {
    name: 'load-rules',
    workerData: request,
    transferList: [...(transfer ?? [])],
    resourceLimits: { maxOldGenerationSizeMb: maxHeapMiB, maxYoungGenerationSizeMb: maxYoungHeapMiB },
  });
}

function followWorker<Success>(
  worker: Worker,
  load: ThreadedLoad,
  options: LoadThreadOptions,
): LoadThread<Success> {
  const { maxHeapMiB, timeoutMs, reviewTimeoutMs, timers } = options;
  let outcome: Success | FailedLoad = brokenLoad(load.source, 'the load ended without a result');
  const outcomeThere = Promise.withResolvers<Success | FailedLoad>();
  let review: RulesReviewOutcome | undefined;
  let isSettled = false;
  let isReviewing = false;
  const settle = (value: Success | FailedLoad) => {
    if (!isSettled) outcome = value;
    isSettled = true;
  };
  const fail = (texts: { load: string; review: string }) => {
    settle(brokenLoad(load.source, texts.load));
    if (isReviewing) review ??= { problem: texts.review };
  };
  const endAfter = (ms: number) =>
    timers.after(ms, () => {
      fail({ load: `the load took longer than ${ms} ms`, review: `it took longer than ${ms} ms` });
      void worker.terminate();
    });
  let callOffTimeout = endAfter(timeoutMs);
  worker.on('message', (message: ThreadMessage<Success>) => {
    if ('review' in message) {
      review ??= message.review;
      return;
    }
    settle(message.outcome);
    isReviewing = message.goesOn;
    if (!isReviewing) return;
    callOffTimeout();
    callOffTimeout = endAfter(reviewTimeoutMs);
    outcomeThere.resolve(outcome);
  });
  worker.on('error', (error) => fail(brokenThread(error, maxHeapMiB)));
  const reviewed = new Promise<RulesReviewOutcome | undefined>((resolve) => {
    worker.on('exit', () => {
      callOffTimeout();
      outcomeThere.resolve(outcome);
      resolve(review);
    });
  });
  return { outcome: outcomeThere.promise, review: reviewed, stop: () => void worker.terminate() };
}

/** Runs in the thread: returns the outcome of the load first, and then reviews the rules, which may take longer. */
export function endLoad<Success>(
  { outcome, reviewed }: MadeLoad<Success>,
  { transfer, ...options }: ReviewOptions & { transfer: readonly Transferable[] },
): void {
  parentPort?.postMessage({ outcome, goesOn: reviewed !== undefined }, [...transfer]);
  if (reviewed !== undefined) parentPort?.postMessage({ review: reviewLoad(reviewed(), options) });
}

function brokenThread(error: unknown, maxHeapMiB: number): { load: string; review: string } {
  if (systemErrorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY') {
    const load = `the rules need more memory to load than the bound of ${maxHeapMiB} MiB`;
    return { load, review: `it needs more memory than the bound of ${maxHeapMiB} MiB` };
  }
  return { load: `the load failed: ${errorText(error)}`, review: `it failed: ${errorText(error)}` };
}
