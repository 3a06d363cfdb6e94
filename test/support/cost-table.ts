/** What a run of tests took: a line for each vitest project, with its budget, and the slowest files. */

/** Seconds of wall time that the projects may take in the gate; more is a warning, for times are no reason to fail. */
export const projectBudgets: Readonly<Record<string, number>> = {
  unit: 75,
  tests: 420,
  faults: 60,
  timing: 75,
};

/** Of one test file. */
export interface FileCost {
  project: string;
  path: string;
  /** Seconds since the run began. */
  startedAt: number;
  endedAt: number;
  /** Undefined where its setup failed. */
  cpuSeconds: number | undefined;
}

const slowest = 30;

/** The lines to print, without their ends. */
export function costTable(files: readonly FileCost[], budgets = projectBudgets): string[] {
  const bySeconds = [...files].sort((a, b) => wallSeconds(b) - wallSeconds(a)).slice(0, slowest);
  return [
    heading('vitest project'),
    ...Array.from(
      Map.groupBy(files, ({ project }) => project),
      ([name, own]) => projectLine(name, own, budgets[name]),
    ),
    '',
    heading(`the ${bySeconds.length} slowest files`),
    ...bySeconds.map((file) => row(wallSeconds(file), file.cpuSeconds, `${file.project}  ${file.path}`)),
  ];
}

function projectLine(name: string, files: readonly FileCost[], budget: number | undefined): string {
  const wall =
    Math.max(...files.map(({ endedAt }) => endedAt)) - Math.min(...files.map(({ startedAt }) => startedAt));
  const cpu = files.reduce((sum, { cpuSeconds = 0 }) => sum + cpuSeconds, 0);
  const allowed = budget === undefined ? '' : `, budget ${budget} s`;
  const warning = budget !== undefined && wall > budget ? '  WARNING: above its budget' : '';
  return row(wall, cpu, `${name} (${files.length} files${allowed})${warning}`);
}

function wallSeconds({ startedAt, endedAt }: FileCost): number {
  return endedAt - startedAt;
}

function heading(what: string): string {
  return `  wall s    CPU s  ${what}`;
}

function row(wall: number, cpu: number | undefined, what: string): string {
  return `${wall.toFixed(1).padStart(8)} ${(cpu?.toFixed(1) ?? '?').padStart(8)}  ${what}`;
}
