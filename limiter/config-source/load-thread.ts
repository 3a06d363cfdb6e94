import { extname } from 'node:path';
import { parentPort, type Transferable, Worker } from 'node:worker_threads';
import { errorText } from '../../process/error-text.ts';
import { systemErrorCode } from '../../process/system-error.ts';
import type { Timers } from '../../process/timers.ts';
import type { CounterKeys } from '../../rules/counter-keys.ts';
import type { RuleSource } from '../../rules/model.ts';
import { type MeetingsSummary, meetingCounters, meetingsSummary } from '../../rules/review/index.ts';
import type { FailedLoad, MadeLoad } from './load-outcome.ts';

/** `Success` is what comes of a load that went well. */
export interface LoadThread<Success> {
  /**
   * Never rejects: a thread that breaks is a load that failed. Settles once the thread and its memory are gone; where the thread
   * goes on to look for counters that could meet, as soon as the rules are there.
   */
  readonly outcome: Promise<Success | FailedLoad>;
  /** Settles once the thread and its memory are gone; undefined where it has not looked to the end, or not at all. */
  readonly meetings: Promise<FoundMeetings | undefined>;
  /** Ends the thread; an outcome that is not there yet is then a failure. */
  stop(): void;
}

/** Undefined: there are none. */
interface FoundMeetings {
  summary: MeetingsSummary | undefined;
}

type ThreadMessage<Success> = { outcome: Success | FailedLoad; goesOn: boolean } | FoundMeetings;

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
}

/**
 * We chose it: what a load makes it mostly keeps until its end, so a larger space for the newborn only adds to the
 * peak (100,000 rules: 8 MiB saves 50 MB against the default, in the same time).
 */
const maxYoungHeapMiB = 8;

/** Loads in a thread of its own, made for this load: between loads none of its memory stays. */
export function runLoadThread<Success>(load: ThreadedLoad, options: LoadThreadOptions): LoadThread<Success> {
  try {
    return followWorker(startWorker(load, options.maxHeapMiB), load, options);
  } catch (error) {
    // No thread to be had, for one where the number of threads is bounded: the next change tries again.
    const outcome = failure(load, brokenThread(error, options.maxHeapMiB));
    return { outcome: Promise.resolve(outcome), meetings: Promise.resolve(undefined), stop: () => {} };
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
  const { maxHeapMiB, timeoutMs, timers } = options;
  let outcome: Success | FailedLoad = failure(load, 'the load ended without a result');
  const outcomeThere = Promise.withResolvers<Success | FailedLoad>();
  let found: FoundMeetings | undefined;
  let isSettled = false;
  const settle = (value: Success | FailedLoad) => {
    if (!isSettled) outcome = value;
    isSettled = true;
  };
  const callOffTimeout = timers.after(timeoutMs, () => {
    settle(failure(load, `the load took longer than ${timeoutMs} ms`));
    void worker.terminate();
  });
  worker.on('message', (message: ThreadMessage<Success>) => {
    if ('summary' in message) found = message;
    else {
      settle(message.outcome);
      if (message.goesOn) outcomeThere.resolve(outcome);
    }
  });
  worker.on('error', (error) => settle(failure(load, brokenThread(error, maxHeapMiB))));
  const meetings = new Promise<FoundMeetings | undefined>((resolve) => {
    worker.on('exit', () => {
      callOffTimeout();
      outcomeThere.resolve(outcome);
      resolve(found);
    });
  });
  return { outcome: outcomeThere.promise, meetings, stop: () => void worker.terminate() };
}

/**
 * In the thread: hands over what came of the load, and looks for counters that could meet when the rules are on their way to be in
 * force, as that may take longer than the load.
 */
export function endLoad<Success>(
  { outcome, sources }: MadeLoad<Success>,
  { counterKeys, transfer }: { counterKeys: CounterKeys; transfer: readonly Transferable[] },
): void {
  const goesOn = counterKeys === 'compatible' && sources.length > 0;
  parentPort?.postMessage({ outcome, goesOn } satisfies ThreadMessage<Success>, [...transfer]);
  if (goesOn) tellMeetings(sources);
}

/** In a thread. */
export function tellMeetings(sources: readonly RuleSource[]): void {
  const summary = meetingsSummary(meetingCounters(sources));
  parentPort?.postMessage({ summary } satisfies FoundMeetings);
}

function brokenThread(error: unknown, maxHeapMiB: number): string {
  if (systemErrorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY') {
    return `the rules need more memory to load than the bound of ${maxHeapMiB} MiB`;
  }
  return `the load broke off: ${errorText(error)}`;
}

function failure({ source }: ThreadedLoad, text: string): FailedLoad {
  const error = { source, text, path: [], line: undefined, column: undefined };
  return { ok: false, errors: [{ code: 'unreadable', ...error }], total: 1 };
}
