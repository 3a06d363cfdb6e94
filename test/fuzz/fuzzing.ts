import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { FuzzMessage, FuzzProgress, FuzzResult, FuzzWorkerData } from './fuzz-worker.ts';
import { InputSlot } from './input-slot.ts';

export interface FuzzingOptions {
  targetsUrl: string;
  target: string;
  corpus: Uint8Array[];
  seed: number;
  /** When it ends at the latest. Defaults to no end: `inputs` bounds it then. */
  seconds?: number;
  /** After how many inputs it ends, the corpus included. Defaults to no end: `seconds` bound it then. */
  inputs?: number;
  /** The most processor time of one input: on a busy machine any input takes long. Defaults to 10 s. */
  hangMs?: number;
  maxGrowthBytes?: number;
  /** What a thread with a target and its corpus may take, garbage included. Defaults to 768 MiB. */
  maxProcessGrowthBytes?: number;
  /** Ends it as if its time were up. */
  signal?: AbortSignal;
  progress?: (reached: FuzzProgress) => void;
  /** How often. Defaults to 10 s. */
  progressMs?: number;
}

const maxInputBytes = 65_536;
const mebibyte = 1024 * 1024;

/** Fuzzes one target in a thread of its own, which is ended when an input does not come back from it. */
export function fuzzTarget(options: FuzzingOptions): Promise<FuzzResult> {
  const { targetsUrl, target, corpus, seed, signal } = options;
  const { seconds = Number.POSITIVE_INFINITY, inputs = Number.POSITIVE_INFINITY } = options;
  const slot = InputSlot.withRoomFor(maxInputBytes);
  const workerData: FuzzWorkerData = {
    ...{ targetsUrl, target, corpus, seed, seconds, inputs, maxInputBytes, slot: slot.buffer },
    maxGrowthBytes: options.maxGrowthBytes ?? 48 * mebibyte,
    progressMs: options.progressMs ?? 10_000,
  };
  const worker = new Worker(new URL('./fuzz-worker.ts', import.meta.url), {
    workerData,
    // Far above what the watch allows: a thread that runs into this limit can hardly be ended.
    resourceLimits: { maxOldGenerationSizeMb: 4096 },
  });
  const stop = (): void => slot.stop();
  if (signal?.aborted === true) stop();
  signal?.addEventListener('abort', stop);
  return new Promise((resolve) => {
    const end = (kind: 'crash' | 'hang' | 'growth', message: string): void => {
      const finding = { kind, message, input: slot.input() };
      finish({ finding, runs: slot.count, outcomes: 0, blocks: 0, novel: [] });
    };
    const { hangMs = 10_000, maxProcessGrowthBytes = 768 * mebibyte } = options;
    const watch = watchOver({ slot, hangMs, maxProcessGrowthBytes, end });
    const finish = (result: FuzzResult): void => {
      clearInterval(watch);
      signal?.removeEventListener('abort', stop);
      // V8 does not end every loop that allocates; what was found is shown all the same.
      void Promise.race([worker.terminate(), delay(5000, undefined, { ref: false })]).then(() =>
        resolve(result),
      );
    };
    worker.on('message', (message: FuzzMessage) => {
      if ('result' in message) finish(message.result);
      else options.progress?.(message.progress);
    });
    worker.on('error', (error: Error) => end('crash', error.stack ?? error.message));
  });
}

interface WatchOptions {
  slot: InputSlot;
  hangMs: number;
  maxProcessGrowthBytes: number;
  end(kind: 'hang' | 'growth', message: string): void;
}

/**
 * Ends a thread that is at one input for too long, or with which the process grows too far. The time is that of the process, which
 * waits for the thread and does nothing else.
 */
function watchOver({ slot, hangMs, maxProcessGrowthBytes, end }: WatchOptions): NodeJS.Timeout {
  const firstBytes = process.memoryUsage.rss();
  let count = slot.count;
  let since = process.cpuUsage();
  return setInterval(() => {
    if (slot.count !== count || count === 0) {
      count = slot.count;
      since = process.cpuUsage();
    }
    const { user, system } = process.cpuUsage(since);
    const growth = process.memoryUsage.rss() - firstBytes;
    if (growth > maxProcessGrowthBytes) {
      end('growth', `the process grew by ${growth} bytes, more than ${maxProcessGrowthBytes}`);
    } else if ((user + system) / 1000 > hangMs) {
      end('hang', `an input took more than ${hangMs} ms of processor time`);
    }
  }, 100);
}
