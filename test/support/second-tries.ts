/**
 * What a run of the gate tries again, once: a test that measures time, or waited in vain, as its machines are shared and
 * pause. Whatever else fails once is a defect, and chance finds most of those once.
 */

/** What an error of one try tells of it. */
export interface Failure {
  message: string;
  cause?: { message?: string } | undefined;
  outOfTime?: unknown;
}

/** Marks the error of who waited until the time was up. */
export function outOfTime(error: unknown): unknown {
  return error instanceof Error ? Object.assign(error, { outOfTime: true }) : error;
}

/** Whether a test may fail once; `cases` is what property-cases.ts counts of those that chance leads. */
export function mayFailOnce(
  test: { file: string; cases: number | undefined },
  failure: Failure | undefined,
): boolean {
  if (test.cases !== undefined || failure === undefined) return false;
  if (test.file.endsWith('.timing.test.ts')) return true;
  if (failure.outOfTime === true || failure.cause?.message === 'Matcher did not succeed in time.')
    return true;
  return /^(?:Test|Hook) timed out in \d+ms/.test(failure.message);
}
