import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { errorText } from '../../../process/error-text.ts';
import { systemErrorCode } from '../../../process/system-error.ts';
import type { Timers } from '../../../process/timers.ts';
import { fileProblem } from './file-problem.ts';
import type { LoadOutcome, LoadRequest } from './load-rules.ts';

export interface LoadThread {
  /** Never rejects: a thread that breaks is a load that failed. Settles once the thread and its memory are gone. */
  readonly outcome: Promise<LoadOutcome>;
  /** Ends the thread; the outcome is then a failure. */
  stop(): void;
}

export interface LoadThreadOptions extends LoadThreadLimits {
  timers: Timers;
}

export interface LoadThreadLimits {
  maxHeapMiB: number;
  timeoutMs: number;
}

/** `load-worker.ts` when run from source, `load-worker.js` in the package: the compiler leaves a URL as it is. */
const workerUrl = new URL(`./load-worker${extname(import.meta.url)}`, import.meta.url);

/**
 * We chose it: what a load makes it mostly keeps until its end, so a larger space for the newborn only adds to the
 * peak (100,000 rules: 8 MiB saves 50 MB against the default, in the same time).
 */
const maxYoungHeapMiB = 8;

/** Loads in a thread of its own, made for this load: between loads none of its memory stays. */
export function startLoadThread(request: LoadRequest, options: LoadThreadOptions): LoadThread {
  try {
    return followWorker(startWorker(request, options.maxHeapMiB), request, options);
  } catch (error) {
    // No thread to be had, for one where the number of threads is bounded: the next change tries again.
    const outcome = failure(request, brokenThread(error, options.maxHeapMiB));
    return { outcome: Promise.resolve(outcome), stop: () => {} };
  }
}

function startWorker(request: LoadRequest, maxHeapMiB: number): Worker {
  return new Worker(workerUrl, {
    name: 'load-rules',
    workerData: request,
    resourceLimits: { maxOldGenerationSizeMb: maxHeapMiB, maxYoungGenerationSizeMb: maxYoungHeapMiB },
  });
}

function followWorker(worker: Worker, request: LoadRequest, options: LoadThreadOptions): LoadThread {
  const { maxHeapMiB, timeoutMs, timers } = options;
  let outcome = failure(request, 'the load ended without a result');
  let isSettled = false;
  const settle = (value: LoadOutcome) => {
    if (!isSettled) outcome = value;
    isSettled = true;
  };
  const callOffTimeout = timers.after(timeoutMs, () => {
    settle(failure(request, `the load took longer than ${timeoutMs} ms`));
    void worker.terminate();
  });
  worker.on('message', (message: LoadOutcome) => settle(message));
  worker.on('error', (error) => settle(failure(request, brokenThread(error, maxHeapMiB))));
  return {
    outcome: new Promise((resolve) => {
      worker.on('exit', () => {
        callOffTimeout();
        resolve(outcome);
      });
    }),
    stop: () => void worker.terminate(),
  };
}

function brokenThread(error: unknown, maxHeapMiB: number): string {
  if (systemErrorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY') {
    return `the rules need more memory to load than the bound of ${maxHeapMiB} MiB`;
  }
  return `the load broke off: ${errorText(error)}`;
}

function failure(request: LoadRequest, text: string): LoadOutcome {
  const problem = fileProblem('unreadable', request.layout.readDirectory, text);
  return { ok: false, errors: [problem], total: 1 };
}
