/**
 * Measures the delay of a 5 ms timer, in a process that loads this file first (`node --import`), or in this file as an idle process. At
 * each SIGUSR2, it writes the figures since the previous signal to the file in BENCH_PAUSES.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

/** The delays, in ms beyond the timer's interval. */
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
    // Renames the complete file, so that a waiting process never reads a partly written one.
    writeFileSync(`${file}.new`, JSON.stringify(pauses));
    renameSync(`${file}.new`, file);
  });
}

if (import.meta.main) {
  console.log('idle');
  setInterval(() => {}, 60_000);
  process.on('SIGTERM', () => process.exit(0));
}
