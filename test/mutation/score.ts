/** What mutants report the tests. Pure. */

export interface MutantReport {
  /** `limiter/decide/plan.ts:12:3`. */
  place: string;
  /** What stands there instead. */
  change: string;
  /** A mutant that makes the tests wait for ever is killed; one that no test runs survives. */
  is: 'killed' | 'survived';
}

/** A mutant as it is printed. */
export function lineOf({ place, change }: Pick<MutantReport, 'place' | 'change'>): string {
  return `${place}  ${change.replaceAll(/\s+/g, ' ').slice(0, 100)}`;
}

/** The mutants that survived, as `lineOf` prints them, in the output of a run. The run may have been interrupted. */
export function survivorsIn(output: string): string[] {
  const lines = [...output.matchAll(/^(?:survived: (?<summed>.*)|\d+ left, (?<tested>.*): survived)$/gm)];
  return [...new Set(lines.map(({ groups }) => groups!['summed'] ?? groups!['tested']!))];
}

/** The survivors, and the share that was killed. */
export function scoreLines(kind: string, reports: readonly MutantReport[]): string[] {
  const survivors = reports.filter(({ is }) => is === 'survived');
  const killed = reports.length - survivors.length;
  return [
    ...survivors.map((report) => `survived: ${lineOf(report)}`),
    `${kind}: ${killed} of ${reports.length} mutants killed, ${shareKilled(reports).toFixed(1)}%`,
  ];
}

/** Why the least score, in percent, is not reached; undefined when it is. */
export function shortfall(kind: string, reports: readonly MutantReport[], min: number): string | undefined {
  if (shareKilled(reports) >= min) return undefined;
  if (reports.length === 0) return `${kind}: the sample has no mutants, so it has no score`;
  return `${kind}: ${shareKilled(reports).toFixed(1)}% is below the least score of ${min}%`;
}

/** In percent. Without mutants it is 0, so that an empty sample reaches no score. */
function shareKilled(reports: readonly MutantReport[]): number {
  if (reports.length === 0) return 0;
  return (100 * reports.filter(({ is }) => is === 'killed').length) / reports.length;
}
