/** Ticks that are finer than Node's timers, whose unit is a millisecond. A separate thread sleeps between ticks. */
import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

/**
 * Calls `onTick` at this interval in milliseconds, at least 0.05. Late ticks follow immediately. Resolves at the first tick, with a
 * function that stops them.
 */
export async function startTicks(everyMs: number, onTick: () => void): Promise<() => void> {
  const worker = new Worker(new URL(import.meta.url), { workerData: everyMs });
  await once(worker, 'message');
  worker.on('message', onTick);
  return () => {
    worker.off('message', onTick);
    void worker.terminate();
  };
}

if (!isMainThread && parentPort !== null) {
  const nothing = new Int32Array(new SharedArrayBuffer(4));
  for (let dueMs = performance.now(); ; dueMs += workerData as number) {
    const waitMs = dueMs - performance.now();
    if (waitMs > 0) Atomics.wait(nothing, 0, 0, waitMs);
    parentPort.postMessage(undefined);
  }
}
