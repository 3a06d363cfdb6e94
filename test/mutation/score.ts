/** What mutants report the tests. Pure. */

export interface MutantReport {
  /** `limiter/decide/plan.ts:12:3`. */
  place: string;
  /** What stands there instead. */
  change: string;
  /** A mutant that makes the tests wait for ever is killed; one that no test runs survives. */
  is: 'killed' | 'survived';
}

/** The survivors, and the share that was killed. */
export function scoreLines(kind: string, reports: readonly MutantReport[]): string[] {
  const survivors = reports.filter(({ is }) => is === 'survived');
  const killed = reports.length - survivors.length;
  const share = reports.length === 0 ? 0 : (100 * killed) / reports.length;
  return [
    ...survivors.map(
      ({ place, change }) => `survived: ${place}  ${change.replaceAll(/\s+/g, ' ').slice(0, 100)}`,
    ),
    `${kind}: ${killed} of ${reports.length} mutants killed, ${share.toFixed(1)}%`,
  ];
}
