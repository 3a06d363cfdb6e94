/**
 * The tests that the gate tries a second time. Machines are shared and pause, so that a test may measure too long a time or
 * wait in vain. A minute of the wall clock may end between two requests, and the counters of its window with it. Any other
 * failure is a defect, even if it happens only once.
 */

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

/** Marks the error of who waited until the time was up. */
export function outOfTime(error: unknown): unknown {
  return error instanceof Error ? Object.assign(error, { outOfTime: true }) : error;
}

/**
 * Whether a test may fail once. property-cases.ts counts the `cases` of properties, and compares the clock with its
 * minute.
 */
export function mayFailOnce(
  test: { file: string; cases: number | undefined; outlastedMinute: boolean | undefined },
  failure: Failure | undefined,
): boolean {
  if (test.cases !== undefined || failure === undefined) return false;
  if (test.file.endsWith('.timing.test.ts') || test.outlastedMinute === true) return true;
  if (failure.outOfTime === true || failure.cause?.message === 'Matcher did not succeed in time.')
    return true;
  return /^(?:Test|Hook) timed out in \d+ms/.test(failure.message);
}
