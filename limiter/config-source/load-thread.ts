import { extname } from 'node:path';
import { parentPort, type Transferable, Worker } from 'node:worker_threads';
import { errorText, systemErrorCode } from '../../process/log/error-text.ts';
import type { Timers } from '../../process/time/clock.ts';
import { type ReviewOptions, reviewLoad } from '../../rules/review/reviewed-load.ts';
import { brokenLoad, type FailedLoad, type MadeLoad, type ReviewOutcome } from './config-source.ts';

/** `Success` is what comes of a load that went well. */
export interface LoadThread<Success> {
  /**
   * Never rejects: a thread that breaks is a load that failed. Settles once the thread and its memory are gone; where the thread
   * goes on to review the rules, as soon as they are there.
   */
  readonly outcome: Promise<Success | FailedLoad>;
  /** Settles once the thread and its memory are gone; undefined for a thread that was stopped, or had nothing to review. */
  readonly review: Promise<ReviewOutcome | undefined>;
  /** Ends the thread; an outcome that is not there yet is then a failure. */
  stop(): void;
}

type ThreadMessage<Success> = { outcome: Success | FailedLoad; goesOn: boolean } | { review: ReviewOutcome };

export interface ThreadedLoad {
  /** Path of the thread's program without extension, and what it is relative to. */
  program: string;
  base: string;
  /** Plain data for the thread's `workerData`. */
  request: unknown;
  /** Parts of the request that move to the thread instead of being copied. */
  transfer?: readonly Transferable[];
  /** How errors of a broken thread name what was to be loaded. */
  source: string;
}

export interface LoadThreadOptions extends LoadThreadLimits {
  timers: Timers;
}

export interface LoadThreadLimits {
  maxHeapMiB: number;
  timeoutMs: number;
  /** How long the rules are looked at, once they are loaded. */
  reviewTimeoutMs: number;
}

/**
 * Chosen: what a load makes it mostly keeps until its end, so a larger space for the newborn only adds to the
 * peak (100,000 rules: 8 MiB saves 50 MB against the default, in the same time).
 */
const maxYoungHeapMiB = 8;

/** Loads in a thread of its own, made for this load: between loads none of its memory stays. */
export function runLoadThread<Success>(load: ThreadedLoad, options: LoadThreadOptions): LoadThread<Success> {
  try {
    return followWorker(startWorker(load, options.maxHeapMiB), load, options);
  } catch (error) {
    // No thread to be had, for one where the number of threads is bounded: the next change tries again.
    const outcome = brokenLoad(load.source, brokenThread(error, options.maxHeapMiB).load);
    return { outcome: Promise.resolve(outcome), review: Promise.resolve(undefined), stop: () => {} };
  }
}

/** The program is `.ts` when run from source, `.js` in the package: the compiler leaves a URL as it is. */
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
  let review: ReviewOutcome | undefined;
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
  const reviewed = new Promise<ReviewOutcome | undefined>((resolve) => {
    worker.on('exit', () => {
      callOffTimeout();
      outcomeThere.resolve(outcome);
      resolve(review);
    });
  });
  return { outcome: outcomeThere.promise, review: reviewed, stop: () => void worker.terminate() };
}

/** In the thread: hands over what came of the load, and looks at the rules only then, which may take longer than the load. */
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
  return { load: `the load broke off: ${errorText(error)}`, review: `it broke off: ${errorText(error)}` };
}
