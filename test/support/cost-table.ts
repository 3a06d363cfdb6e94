/** What a run of tests took: a line for each vitest project, with its budget, the slowest files, and those that use most of a processor. */

/** Seconds of wall time that the projects may take in the gate; more is a warning, for times are no reason to fail. */
export const projectBudgets: Readonly<Record<string, number>> = {
  unit: 80,
  isolated: 40,
  tests: 480,
  package: 60,
  faults: 130,
  timing: 40,
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
  /** The part of it that the suite's own API servers took. */
  apiServerCpuSeconds?: number | undefined;
}

/** The API servers that suites share, which belong to no file. */
export interface SharedApiServers {
  servers: number;
  suites: number;
  cpuSeconds: number;
}

const shown = 30;

/** The lines to print, without their ends. */
export function costTable(
  files: readonly FileCost[],
  { budgets = projectBudgets, shared }: { budgets?: typeof projectBudgets; shared?: SharedApiServers } = {},
): string[] {
  const max = (seconds: (file: FileCost) => number): FileCost[] =>
    [...files].sort((a, b) => seconds(b) - seconds(a)).slice(0, shown);
  const lineOf = (file: FileCost): string =>
    row(wallSeconds(file), file.cpuSeconds, `${file.project}  ${file.path}`);
  const slowest = max(wallSeconds);
  const costliest = max(({ cpuSeconds = 0 }) => cpuSeconds);
  return [
    heading('vitest project'),
    ...Array.from(
      Map.groupBy(files, ({ project }) => project),
      ([name, own]) => projectLine(name, own, budgets[name]),
    ),
    ...apiServerLines(files, shared),
    row(spanOf(files), cpuOf(files) + (shared?.cpuSeconds ?? 0), `all (${files.length} files)`),
    '',
    heading(`the ${slowest.length} slowest files`),
    ...slowest.map(lineOf),
    '',
    heading(`the ${costliest.length} files with the most CPU`),
    ...costliest.map(lineOf),
  ];
}

function projectLine(name: string, files: readonly FileCost[], budget: number | undefined): string {
  const wall = spanOf(files);
  const allowed = budget === undefined ? '' : `, budget ${budget} s`;
  const warning = budget !== undefined && wall > budget ? '  WARNING: above its budget' : '';
  return row(wall, cpuOf(files), `${name} (${files.length} files${allowed})${warning}`);
}

function apiServerLines(files: readonly FileCost[], shared: SharedApiServers | undefined): string[] {
  const own = files.filter(({ apiServerCpuSeconds = 0 }) => apiServerCpuSeconds > 0);
  const ownCpu = own.reduce((sum, { apiServerCpuSeconds = 0 }) => sum + apiServerCpuSeconds, 0);
  return [
    ...(shared === undefined || shared.servers === 0
      ? []
      : [row('', shared.cpuSeconds, `API servers, shared: ${shared.servers} for ${shared.suites} suites`)]),
    ...(own.length === 0
      ? []
      : [row('', ownCpu, `API servers of their own in ${own.length} files, counted there, too`)]),
  ];
}

/** From the first start to the last end, in seconds. */
function spanOf(files: readonly FileCost[]): number {
  return (
    Math.max(...files.map(({ endedAt }) => endedAt)) - Math.min(...files.map(({ startedAt }) => startedAt))
  );
}

function cpuOf(files: readonly FileCost[]): number {
  return files.reduce((sum, { cpuSeconds = 0 }) => sum + cpuSeconds, 0);
}

function wallSeconds({ startedAt, endedAt }: FileCost): number {
  return endedAt - startedAt;
}

function heading(what: string): string {
  return `  wall s    CPU s  ${what}`;
}

function row(wall: number | '', cpu: number | undefined, what: string): string {
  return `${(wall === '' ? '' : wall.toFixed(1)).padStart(8)} ${(cpu?.toFixed(1) ?? '?').padStart(8)}  ${what}`;
}
