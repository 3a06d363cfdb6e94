/**
 * Loaded into a process before its program (`node --import`), or run alone as an idle process: how late the event loop
 * serves a timer of 5 ms. At each SIGUSR2 the figures since the one before go into the file that BENCH_PAUSES names.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

/** The output, in ms beyond the timer's own interval. */
export interface LoopPauses {
  p99Ms: number;
  largestMs: number;
}

const resolutionMs = 5;
const file = process.env['BENCH_PAUSES'];

if (file !== undefined && isMainThread) {
  const delays = monitorEventLoopDelay({ resolution: resolutionMs });
  delays.enable();
  const beyond = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - resolutionMs);
  process.on('SIGUSR2', () => {
    const pauses: LoopPauses = { p99Ms: beyond(delays.percentile(99)), largestMs: beyond(delays.max) };
    delays.reset();
    // Anyone who waits for the file finds it whole.
    writeFileSync(`${file}.new`, JSON.stringify(pauses));
    renameSync(`${file}.new`, file);
  });
}

if (import.meta.main) {
  console.log('idle');
  setInterval(() => {}, 60_000);
  process.on('SIGTERM', () => process.exit(0));
}
