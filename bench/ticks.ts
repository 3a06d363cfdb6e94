/** Ticks finer than the timers of Node, whose unit is a millisecond: a thread of its own sleeps from one to the next. */
import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

/** Calls `onTick` every so many milliseconds, 0.05 at least, late ticks at once. Resolves at the first one, with what ends them. */
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
