/**
 * Interrupts a property that takes ten times the processor time that is recorded for its file (property-times.ts), which is one that
 * hangs. Processor time, because a busy machine makes everything take longer, and properties are bounded by their cases. Between
 * two cases the property fails as interrupted; when a case does not return, hang-watcher.ts ends the process. `npm test` runs what was
 * interrupted again, alone, when all else has run.
 */
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { type RunnerTestCase, TestRunner } from 'vitest';
import { hangFile } from './hang-record.ts';
import type { WatchedProperty, WatcherMessage } from './hang-watcher.ts';
import { recordedSeconds } from './property-times.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** Seconds of processor time of the most expensive property of the test. */
    propertySeconds?: number;
  }
}

const allowedTimes = 10;

/** Marks the error of a property that was interrupted before it failed. */
export interface Interrupted {
  interrupted?: unknown;
}

/** For tests of the guard itself, which cannot wait for so long. */
const limitOfTest = process.env['PROPERTY_CPU_SECONDS'];

/** `times`: how many times the cases of `npm test` run. */
function limitSeconds(file: string, times: number): number {
  if (limitOfTest !== undefined) return Number(limitOfTest);
  return allowedTimes * recordedSeconds(file) * Math.max(1, times);
}

interface Guard {
  watcher: Worker | undefined;
  /** By the number of the property. */
  running: Map<number, RunnerTestCase | undefined>;
  last: number;
}

/** Where files share a process, each of them sets up fast-check, and all have the same one. */
const shared = globalThis as { hangGuard?: Guard };

/** `times`: how many times the cases of `npm test` properties run. */
export function guardAgainstHangs(times: number): void {
  if (shared.hangGuard !== undefined) return;
  const guard: Guard = { watcher: undefined, running: new Map(), last: 0 };
  shared.hangGuard = guard;
  fc.installGlobalPlugin(() => {
    const test = TestRunner.getCurrentTest() as RunnerTestCase | undefined;
    const file = test?.file.name ?? '';
    const limit = limitSeconds(file, times);
    const start = process.cpuUsage();
    const end = watch(guard, test, { file, limit, startMicros: start.user + start.system });
    let isInterrupted = false;
    return {
      decorateRun: (run) => (value) => {
        if (secondsSince(start) > limit) {
          isInterrupted = true;
          return new fc.PreconditionFailure(true);
        }
        const result = run(value);
        if (result instanceof Promise) void result.then(end.ifFailed, () => {});
        else end.ifFailed(result);
        return result;
      },
      onAllRunsComplete: ({ counterexample, numRuns, seed }) => {
        end();
        if (test !== undefined)
          test.meta.propertySeconds = Math.max(test.meta.propertySeconds ?? 0, secondsSince(start));
        if (isInterrupted && counterexample === null) throw interruption({ limit, numRuns, seed });
      },
    };
  });
}

/** The properties of a test that has ended are watched no longer, whatever became of them. */
export function endGuard(test: RunnerTestCase): void {
  const guard = shared.hangGuard;
  for (const [number, of] of guard?.running ?? []) if (of === test) end(guard!, number);
}

interface WatchEnd {
  (): void;
  /** A property with a counterexample is not tried again, even if it hangs while it shrinks. */
  ifFailed(result: unknown): void;
}

function watch(
  guard: Guard,
  test: RunnerTestCase | undefined,
  { file, limit, startMicros }: { file: string; limit: number; startMicros: number },
): WatchEnd {
  const recordFile = hangFile();
  if (recordFile === undefined) return Object.assign(() => {}, { ifFailed: () => {} });
  if (guard.watcher === undefined) {
    guard.watcher = new Worker(new URL('./hang-watcher.ts', import.meta.url), { workerData: recordFile });
    guard.watcher.unref();
  }
  const number = guard.last + 1;
  guard.last = number;
  guard.running.set(number, test);
  const property: WatchedProperty = {
    ...{ number, file, limitSeconds: limit, startMicros, hasFailed: false },
    test: test?.fullTestName ?? 'a property outside of tests',
    seed: process.env['PROPERTY_SEED'] ?? '1',
  };
  send(guard, { begun: property });
  const ifFailed = (result: unknown): void => {
    if (property.hasFailed || result === null || fc.PreconditionFailure.isFailure(result)) return;
    property.hasFailed = true;
    send(guard, { begun: property });
  };
  return Object.assign(() => end(guard, number), { ifFailed });
}

function end(guard: Guard, number: number): void {
  if (guard.running.delete(number)) send(guard, { ended: number });
}

function send({ watcher }: Guard, message: WatcherMessage): void {
  watcher?.postMessage(message);
}

function secondsSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e6;
}

function interruption({ limit, numRuns, seed }: { limit: number; numRuns: number; seed: number }): Error {
  const error = new Error(
    `interrupted after ${numRuns} cases, which took more than ${limit} s of processor time, seed ${seed}`,
  );
  return Object.assign(error, { interrupted: true } satisfies Interrupted);
}
