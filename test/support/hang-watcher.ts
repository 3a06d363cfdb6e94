/**
 * The thread that ends a process of tests when a case of a property does not return: while such a case computes, its own thread
 * notices nothing. Records first what it ends (hang-record.ts), and says so.
 */
import { writeSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { recordHang } from './hang-record.ts';

export interface WatchedProperty {
  number: number;
  /** From the root of the project. */
  file: string;
  /** With the names of its suites. */
  test: string;
  seed: string;
  /** Of processor time. */
  limitSeconds: number;
  /** The processor time of the process when the property began. */
  startMicros: number;
  /** Whether a case has failed. */
  hasFailed: boolean;
}

export type WatcherMessage = { begun: WatchedProperty } | { ended: number };

/** The property's own look between two cases comes first: it ends one test, and this one a process. */
const share = 1.2;
const lookEveryMs = 200;
/** `process.stderr` of a thread writes by the main thread, which is busy. */
const standardError = 2;

const running = new Map<number, WatchedProperty>();
let looks: NodeJS.Timeout | undefined;

parentPort?.on('message', (message: WatcherMessage) => {
  if ('begun' in message) running.set(message.begun.number, message.begun);
  else running.delete(message.ended);
  if (running.size > 0) looks ??= setInterval(look, lookEveryMs);
  else {
    clearInterval(looks);
    looks = undefined;
  }
});

function look(): void {
  const { user, system } = process.cpuUsage();
  for (const { startMicros, limitSeconds, file, test, seed, hasFailed } of running.values()) {
    if (user + system - startMicros <= share * limitSeconds * 1e6) continue;
    recordHang(workerData as string, { file, test, seed, limitSeconds, hasFailed });
    const text = `a case does not return: ${file} > ${test} took more than ${limitSeconds} s of processor time, seed ${seed}`;
    writeSync(standardError, `${text}: its process ends\n`);
    process.kill(process.pid, 'SIGKILL');
  }
}
