/** Figures of several runs, made into medians, ratios to the echo, a table, and a comparison with earlier ratios. */
import { type TargetName, targetTitles, yardsticks } from './bench-targets.ts';

export interface Figures {
  target: TargetName;
  load: string;
  /** From 0. */
  run: number;
  perSecond: number;
  cpuUs: number;
  p50Ms: number;
  p99Ms: number;
  p999Ms: number;
  failed: number;
}

export interface MedianFigures extends Omit<Figures, 'run'> {
  /**
   * CPU an answer against the echo's under the same load in the same run, the median of all runs; undefined where the
   * echo was not measured.
   */
  toEcho: number | undefined;
}

/** CPU an answer, as a ratio to the echo's: load, target, ratio. */
export type Ratios = Record<string, Partial<Record<TargetName, number>>>;

/** How far above its committed ratio one may be. */
export const allowedGrowth = 0.25;

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

/** One for each load and target, in the order in which they first come; `failed` is the sum. */
export function mediansOf(runs: readonly Figures[]): MedianFigures[] {
  return [...Map.groupBy(runs, ({ load, target }) => `${load}\n${target}`).values()].map((same) => {
    const of = (pick: (figures: Figures) => number): number => median(same.map(pick));
    const { target, load } = same[0] as Figures;
    const ratios = same.flatMap((figures) => ratioToEcho(figures, runs) ?? []);
    return {
      target,
      load,
      perSecond: of((figures) => figures.perSecond),
      cpuUs: of((figures) => figures.cpuUs),
      toEcho: ratios.length === 0 ? undefined : median(ratios),
      p50Ms: of((figures) => figures.p50Ms),
      p99Ms: of((figures) => figures.p99Ms),
      p999Ms: of((figures) => figures.p999Ms),
      failed: same.reduce((sum, { failed }) => sum + failed, 0),
    };
  });
}

function ratioToEcho({ load, run, cpuUs }: Figures, all: readonly Figures[]): number | undefined {
  const echo = all.find(
    (figures) => figures.target === 'echo' && figures.load === load && figures.run === run,
  );
  return echo === undefined ? undefined : cpuUs / echo.cpuUs;
}

/** The load whose other rules are held against its usual one; their loads begin with this name. */
export const fixedWindowLoad = '8 connections x 50 streams';

/** How much more CPU than a fixed window other limits may take. */
const mostToFixedWindow = { 'sliding window': 1.25, 'token bucket': 1.25, 'three limits on a key': 1.7 };

/** Those that take more, in words. */
export function costlyLimits(toFixedWindow: Record<string, number>): string[] {
  return Object.entries(toFixedWindow).flatMap(([what, ratio]) => {
    const most = Object.entries(mostToFixedWindow).find(([limits]) => what.endsWith(limits))?.[1];
    if (most === undefined || ratio <= most) return [];
    return `${what}: ${ratio.toFixed(2)} of the CPU of a fixed window, at most ${most} is allowed`;
  });
}

/** CPU an answer under other limits against that of a fixed window, in the same run; medians. */
export function ratiosToFixedWindow(runs: readonly Figures[]): Record<string, number> {
  const others = runs.filter(({ load }) => load.startsWith(`${fixedWindowLoad}, `));
  const byName = Map.groupBy(
    others,
    ({ target, load }) => `${targetTitles[target]}, ${load.slice(fixedWindowLoad.length + 2)}`,
  );
  return Object.fromEntries(
    [...byName].map(([name, same]) => {
      const ratios = same.map(({ target, run, cpuUs }) => {
        const fixed = runs.find(
          (figures) => figures.target === target && figures.run === run && figures.load === fixedWindowLoad,
        );
        return cpuUs / (fixed?.cpuUs ?? Number.NaN);
      });
      return [name, median(ratios)];
    }),
  );
}

export function tableOf(rows: readonly MedianFigures[]): string {
  const head = [
    'server',
    'load',
    'answers/s',
    'CPU µs an answer',
    'to the echo',
    'p50 ms',
    'p99 ms',
    'p99.9 ms',
    'failed',
  ];
  const lines = rows.map((row) => [
    targetTitles[row.target],
    row.load,
    String(Math.round(row.perSecond)),
    row.cpuUs.toFixed(1),
    row.toEcho?.toFixed(2) ?? '-',
    row.p50Ms.toFixed(2),
    row.p99Ms.toFixed(2),
    row.p999Ms.toFixed(2),
    String(row.failed),
  ]);
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Those of the limiter without options. */
export function ratiosOf(rows: readonly MedianFigures[]): Ratios {
  const ratios: Ratios = {};
  for (const { load, target, toEcho } of rows) {
    if (target in yardsticks || target === 'callers' || toEcho === undefined) continue;
    ratios[load] = { ...ratios[load], [target]: Number(toEcho.toFixed(3)) };
  }
  return ratios;
}

/** What is worse than it was by more than is allowed, and what was not measured, in words; empty when all is well. */
export function regressions(now: Ratios, committed: Ratios): string[] {
  const problems: string[] = [];
  for (const [load, targets] of Object.entries(committed)) {
    for (const [target, before] of Object.entries(targets) as [TargetName, number][]) {
      const ratio = now[load]?.[target];
      const what = `${targetTitles[target]}, ${load}`;
      if (ratio === undefined) problems.push(`${what}: not measured`);
      else if (ratio > before * (1 + allowedGrowth)) {
        const growth = Math.round((ratio / before - 1) * 100);
        problems.push(
          `${what}: ${ratio.toFixed(2)} of the echo's CPU, ${growth} % above ${before.toFixed(2)}`,
        );
      }
    }
  }
  return problems;
}
