/** The main thread's end of one worker thread, and the check that it still answers. */
import { extname } from 'node:path';
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { errorText } from '../../process/log/error-text.ts';
import type { Timers } from '../../process/time/clock.ts';
import type { NumberedTask, WorkerMessage, WorkerStart, WorkerTask } from './messages.ts';

/** Starts a thread, like `new Worker`. */
export type StartThread = (program: URL, options: WorkerOptions) => Worker;

interface WorkerThreadOptions {
  start: WorkerStart;
  name: string;
  startThread: StartThread;
  /** Called for every message that does not answer a task. */
  onNews(news: Exclude<WorkerMessage, { is: 'done' | 'failed' }>): void;
  /** Called when the thread and its memory are gone. `reason` is set if the thread was not asked to end. */
  onEnd(reason: string | undefined): void;
}

/** A task could not be carried out, or its thread ended before it was done. */
export class WorkerTaskError extends Error {
  override readonly name = 'WorkerTaskError';
  /** Whether the thread has ended. */
  readonly isEnd: boolean;

  constructor(message: string, isEnd: boolean) {
    super(message);
    this.isEnd = isEnd;
  }
}

interface PendingTask {
  resolve(result: unknown): void;
  reject(error: WorkerTaskError): void;
}

/** The main thread's end of one worker thread. */
export class WorkerThread {
  readonly ended: Promise<void>;
  readonly #worker: Worker;
  readonly #waiting = new Map<number, PendingTask>();
  #lastNumber = 0;
  #endReason: string | undefined;
  #mayEnd = false;
  #hasEnded = false;

  /** @throws if no thread can be started */
  constructor(options: WorkerThreadOptions) {
    // The program is `.ts` when run from source and `.js` in the package, and the compiler does not change a URL.
    const program = new URL(`./worker-program${extname(import.meta.url)}`, import.meta.url);
    this.#worker = options.startThread(program, { name: options.name, workerData: options.start });
    this.#worker.on('message', (news: WorkerMessage) => this.#receive(news, options));
    this.#worker.on('messageerror', (error) => this.abandon(errorText(error)));
    this.#worker.on('error', (error) => {
      this.#endReason = errorText(error);
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    this.#worker.on('exit', (code) => {
      this.#hasEnded = true;
      const reason = this.#mayEnd ? undefined : (this.#endReason ?? `the thread ended with code ${code}`);
      for (const { reject } of this.#waiting.values()) reject(endError(reason));
      this.#waiting.clear();
      options.onEnd(reason);
      resolve();
    });
  }

  /** Resolves when the task is done. Rejects with a WorkerTaskError. */
  ask(task: WorkerTask): Promise<unknown> {
    if (this.#hasEnded) return Promise.reject(endError(this.#endReason));
    const number = ++this.#lastNumber;
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject });
      this.#worker.postMessage({ number, task } satisfies NumberedTask);
    });
  }

  /** Lets the thread end by itself after the tasks before this one. */
  async end(): Promise<void> {
    this.#mayEnd = true;
    await this.ask({ do: 'end' });
  }

  /** Ends the thread, whatever it is doing. */
  async terminate(): Promise<void> {
    this.#mayEnd = true;
    await this.#worker.terminate();
  }

  /** Ends the thread as if it had ended by itself, for this reason. */
  abandon(reason: string): void {
    this.#endReason = reason;
    void this.#worker.terminate();
  }

  #receive(news: WorkerMessage, options: WorkerThreadOptions): void {
    if (news.is !== 'done' && news.is !== 'failed') {
      options.onNews(news);
      return;
    }
    const waiting = this.#waiting.get(news.number);
    this.#waiting.delete(news.number);
    if (news.is === 'done') waiting?.resolve(news.result);
    else waiting?.reject(new WorkerTaskError(news.message, false));
  }
}

function endError(reason = 'the thread was stopped'): WorkerTaskError {
  return new WorkerTaskError(`a worker thread ended: ${reason}`, true);
}

export const startNodeThread: StartThread = (program, options) => new Worker(program, options);

/** Chosen: far longer than the pauses of a working thread. */
const intervalMs = 5_000;
const maxMisses = 6;

export const silenceSeconds = (intervalMs * maxMisses) / 1_000;

/**
 * Asks repeatedly, with at most one open question. Counts intervals instead of time, so that a machine that was asleep causes no alarm.
 * Returns a function that stops it.
 */
export function watchHeartbeat(
  timers: Timers,
  ask: () => Promise<unknown>,
  onSilence: () => void,
): () => void {
  let isWaiting = false;
  let misses = 0;
  const answered = (): void => {
    isWaiting = false;
    misses = 0;
  };
  const callOff = timers.every(intervalMs, () => {
    if (isWaiting) {
      misses += 1;
      if (misses === maxMisses) {
        callOff();
        onSilence();
      }
      return;
    }
    isWaiting = true;
    ask().then(answered, answered);
  });
  return callOff;
}
