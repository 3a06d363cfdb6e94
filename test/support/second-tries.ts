/**
 * The tests that the gate tries a second time. Machines are shared and pause, so that a test may measure too long a time or
 * wait in vain. A minute of the wall clock may end between two requests, and the counters of its window with it. Any other
 * failure is a defect, even if it happens only once.
 */

/** Faults, attacks and long tests that happen by chance. What they find is a counterexample: only an error that is itself about time is excused. */
export const faultsProject = 'faults';

/** A longer test meets the end of a minute often, and has to allow for it. */
const longestInOneMinuteMs = 30_000;

/** Whether a minute of the wall clock ended during a test, while most runs of that test lie within one. */
export function outlastedMinute(startedAtMs: number, endedAtMs: number): boolean {
  const minute = 60_000;
  return (
    Math.floor(startedAtMs / minute) !== Math.floor(endedAtMs / minute) &&
    endedAtMs - startedAtMs < longestInOneMinuteMs
  );
}

/** What an error of one try says about it. */
export interface Failure {
  message: string;
  cause?: { message?: string } | undefined;
  outOfTime?: unknown;
}

/** Marks an error that is about time: a wait was in vain, or something took too long. */
export function outOfTime(error: unknown): unknown {
  return error instanceof Error ? Object.assign(error, { outOfTime: true }) : error;
}

/** Compares times that were measured, or what was done in a time. Its failure is about time. */
export function compareTimes(assertion: () => void): void {
  try {
    assertion();
  } catch (error) {
    throw outOfTime(error);
  }
}

export interface TriedTest {
  /** Of vitest.config.ts. */
  project: string | undefined;
  file: string;
  cases: number | undefined;
  outlastedMinute: boolean | undefined;
}

/**
 * Whether a test may fail once. property-cases.ts counts the `cases` of properties, and compares the clock with its
 * minute.
 */
export function mayFailOnce(test: TriedTest, failure: Failure | undefined): boolean {
  if (test.cases !== undefined || failure === undefined) return false;
  const measuresTime = test.file.endsWith('.timing.test.ts');
  if (test.project !== faultsProject && (measuresTime || test.outlastedMinute === true)) return true;
  if (failure.outOfTime === true || failure.cause?.message === 'Matcher did not succeed in time.')
    return true;
  return /^(?:Test|Hook) timed out in \d+ms/.test(failure.message);
}
