/**
 * The setup of all tests: how many cases properties run, from which seed, and which tests are tried again. They share it
 * by the environment: PROPERTY_TIMES, PROPERTY_SEED, PROPERTY_PATH (of one case), which `npm run properties` sets.
 */
import fc from 'fast-check';
import { afterEach, beforeEach, type RunnerTestCase, type TestError, TestRunner } from 'vitest';
import { endGuard, guardAgainstHangs } from './hang-guard.ts';
import { gateTimes } from './property-times.ts';
import { mayFailOnce, outlastedMinute } from './second-tries.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** Cases of properties, and inputs of fuzzers, that the test ran. */
    cases?: number;
    /** Whether a minute of the wall clock ended during the try that failed (second-tries.ts). */
    outlastedMinute?: boolean;
  }
}

/** What fast-check runs of a property that says nothing. */
const defaultCases = 100;

/**
 * How many times the cases that a property names are run: half of them unless `npm run properties` says more. Chosen: the defects of
 * test/mutants are found by so many, and each night runs twenty times the whole number.
 */
export const propertyTimes = Number(process.env['PROPERTY_TIMES'] ?? gateTimes);

/** The seed of every property and fuzz test of this run. */
export const propertySeed = Number(process.env['PROPERTY_SEED'] ?? 1);

/** For `numRuns`: half as many in `npm test`, more when it is multiplied. */
export function caseCount(common: number): number {
  return Math.ceil(common * propertyTimes);
}

/** Makes the running test one that chance leads: its cases are summed up, and it is never tried again. */
export function countCases(count: number): void {
  const meta = TestRunner.getCurrentTest()?.meta;
  if (meta !== undefined) meta.cases = (meta.cases ?? 0) + count;
}

const path = process.env['PROPERTY_PATH'];

fc.configureGlobal({
  numRuns: caseCount(defaultCases),
  seed: propertySeed,
  ...(path !== undefined && { path, endOnFailure: true }),
  beforeEach: () => countCases(1),
});
guardAgainstHangs(propertyTimes / gateTimes);
afterEach(({ task }) => endGuard(task as RunnerTestCase));

/** Where tests are tried again (vitest.config.ts), not each of them is. */
beforeEach(({ task }) => {
  const startedAtMs = Date.now();
  const condition = (failure: TestError): boolean => {
    task.meta.outlastedMinute = outlastedMinute(startedAtMs, Date.now());
    const { cases } = task.meta;
    return mayFailOnce(
      {
        project: task.file.projectName,
        file: task.file.filepath,
        cases,
        outlastedMinute: task.meta.outlastedMinute,
      },
      failure,
    );
  };
  const tried = task as RunnerTestCase;
  const count = typeof tried.retry === 'object' ? tried.retry.count : tried.retry;
  if (count !== undefined) tried.retry = { count, condition };
});
