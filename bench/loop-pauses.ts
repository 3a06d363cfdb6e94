/**
 * Measures how late the event loop runs a timer of 5 ms, in a process that loads this file first (`node --import`), or in this
 * file as an idle process. At each SIGUSR2, it writes the figures since the last one to the file in BENCH_PAUSES.
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
