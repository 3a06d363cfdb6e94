/** Turns the figures of several runs into medians, ratios to the yardsticks and a table, and compares them with earlier ratios. */
import { floorOf, type TargetName, targetTitles } from './bench-targets.ts';

export interface Figures {
  target: TargetName;
  load: string;
  /** The number of the run, from 0. */
  run: number;
  perSecond: number;
  cpuUs: number;
  p50Ms: number;
  p99Ms: number;
  p999Ms: number;
  failed: number;
  /** The fraction of calls that arrived alone in their turn of the event loop. Only floors count it. */
  alone: number | undefined;
  /** The number of scripts that Redis ran for each call. */
  scripts: number;
  /** The fraction of calls that a lease answered. */
  leased: number;
}

export interface MedianFigures extends Omit<Figures, 'run'> {
  /**
   * CPU time per answer as a ratio to the echo, to the floor, and to the same limiter of another checkout, under the same load in the
   * same run. Each is the median of all runs. Undefined if it was not measured.
   */
  toEcho: number | undefined;
  toFloor: number | undefined;
  toBeside: number | undefined;
  /** The ratio of the median latency to the median latency of the floor. */
  p50ToFloor: number | undefined;
}

/** CPU time per answer as a ratio to a yardstick, by load, target and yardstick. */
export type Ratios = Record<string, Partial<Record<TargetName, Partial<Record<'echo' | 'floor', number>>>>>;

/** The largest allowed excess over a committed ratio. */
export const allowedGrowth = 0.25;

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

/** Returns one element for each load and target, in the order of their first run. `failed` is the sum of all runs. */
export function mediansOf(runs: readonly Figures[]): MedianFigures[] {
  return [...Map.groupBy(runs, ({ load, target }) => `${load}\n${target}`).values()].map((same) => {
    const of = (pick: (figures: Figures) => number): number => median(same.map(pick));
    const { target, load } = same[0] as Figures;
    const to = (other: string, pick = ({ cpuUs }: Figures): number => cpuUs): number | undefined => {
      const ratios = same.flatMap((figures) => {
        const others = runs.find(
          ({ target, load, run }) => target === other && load === figures.load && run === figures.run,
        );
        return others === undefined ? [] : pick(figures) / pick(others);
      });
      return ratios.length === 0 ? undefined : median(ratios);
    };
    return {
      target,
      load,
      perSecond: of((figures) => figures.perSecond),
      cpuUs: of((figures) => figures.cpuUs),
      toEcho: to('echo'),
      toFloor: to(floorOf(target)),
      toBeside: to(`${target}-beside`),
      p50ToFloor: to(floorOf(target), ({ p50Ms }) => p50Ms),
      alone: same[0]?.alone === undefined ? undefined : of(({ alone = Number.NaN }) => alone),
      p50Ms: of((figures) => figures.p50Ms),
      p99Ms: of((figures) => figures.p99Ms),
      p999Ms: of((figures) => figures.p999Ms),
      scripts: of(({ scripts }) => scripts),
      leased: of(({ leased }) => leased),
      failed: same.reduce((sum, { failed }) => sum + failed, 0),
    };
  });
}

/** The load under which other rules are compared with a fixed window. The names of their loads begin with this name. */
export const fixedWindowLoad = '8 connections x 50 streams';

/** Loads that write each call separately, as proxies do. */
export const callByCallLoads = [
  `${fixedWindowLoad}, one write a call`,
  '4 connections x 1 stream',
  '5,000/s, each alone',
  '5,000/s, 8 at once',
] as const;

/** The largest allowed ratios of a limiter's CPU time and median latency to those of its floor. */
const maxToFloor = [
  { target: 'memory', what: 'CPU', max: 1.4, of: ({ toFloor }: MedianFigures) => toFloor },
  { target: 'redis', what: 'CPU', max: 1.5, of: ({ toFloor }: MedianFigures) => toFloor },
  { target: 'redis', what: 'p50', max: 1.3, of: ({ p50ToFloor }: MedianFigures) => p50ToFloor },
] as const;

/** Returns a line for each ratio that was measured. */
export function floorLines(rows: readonly MedianFigures[]): string[] {
  return maxToFloor.flatMap(({ target, what, max, of }) => {
    const measured = callByCallLoads.flatMap((load) => {
      const ratio = rows.filter((row) => row.target === target && row.load === load).map(of)[0];
      return ratio === undefined ? [] : `${ratio.toFixed(2)} (${load})`;
    });
    const all = measured.join(', ');
    return all === '' ? [] : `${targetTitles[target]}, ${what} to its floor, target ${max}: ${all}`;
  });
}

/** The largest allowed ratios of the CPU time of other limits to the CPU time of a fixed window. */
const maxToFixedWindow = { 'sliding window': 1.25, 'token bucket': 1.25, 'three limits on a key': 1.7 };

/** Describes the limits that exceed these ratios. */
export function costlyLimits(toFixedWindow: Record<string, number>): string[] {
  return Object.entries(toFixedWindow).flatMap(([what, ratio]) => {
    const max = Object.entries(maxToFixedWindow).find(([limits]) => what.endsWith(limits))?.[1];
    if (max === undefined || ratio <= max) return [];
    return `${what}: ${ratio.toFixed(2)} of the CPU of a fixed window, at most ${max} is allowed`;
  });
}

/** Returns the median ratio of the CPU time per answer under other limits to that under a fixed window in the same run. */
export function ratiosToFixedWindow(runs: readonly Figures[]): Record<string, number> {
  const others = runs.filter(({ load }) =>
    Object.keys(maxToFixedWindow).some((limits) => load === `${fixedWindowLoad}, ${limits}`),
  );
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
  const two = (value: number | undefined): string => value?.toFixed(2) ?? '-';
  const columns: [head: string, cell: (row: MedianFigures) => string][] = [
    ['server', ({ target }) => targetTitles[target]],
    ['load', ({ load }) => load],
    ['answers/s', ({ perSecond }) => String(Math.round(perSecond))],
    ['CPU µs an answer', ({ cpuUs }) => cpuUs.toFixed(1)],
    ['to its floor', ({ toFloor }) => two(toFloor)],
    ['to the echo', ({ toEcho }) => two(toEcho)],
    ['to the one beside', ({ toBeside }) => two(toBeside)],
    ['came alone', ({ alone }) => (alone === undefined ? '-' : `${(100 * alone).toFixed(0)}%`)],
    ['p50 ms', ({ p50Ms }) => two(p50Ms)],
    ['to its floor', ({ p50ToFloor }) => two(p50ToFloor)],
    ['p99 ms', ({ p99Ms }) => two(p99Ms)],
    ['p99.9 ms', ({ p999Ms }) => two(p999Ms)],
    ['failed', ({ failed }) => String(failed)],
  ];
  const shown = columns.filter(
    ([head]) => head !== 'to the one beside' || rows.some(({ toBeside }) => toBeside !== undefined),
  );
  const head = shown.map(([name]) => name);
  const lines = rows.map((row) => shown.map(([, cell]) => cell(row)));
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/**
 * Returns the ratios of this checkout's limiter. A floor that handles several calls in one write has little CPU time per call, so a floor
 * is a yardstick only for loads that write each call separately.
 */
export function ratiosOf(rows: readonly MedianFigures[]): Ratios {
  const ratios: Ratios = {};
  for (const { load, target, toEcho, toFloor } of rows) {
    if (!['memory', 'redis', 'leases'].includes(target) || toEcho === undefined) continue;
    const echo = Number(toEcho.toFixed(3));
    const floor =
      toFloor !== undefined && isCallByCall(load) ? { floor: Number(toFloor.toFixed(3)) } : undefined;
    ratios[load] = { ...ratios[load], [target]: { echo, ...floor } };
  }
  return ratios;
}

function isCallByCall(load: string): boolean {
  return callByCallLoads.some((name) => name === load);
}

/** Returns a sentence for each ratio that is too far above the committed ratio, or that was not measured. */
export function regressions(now: Ratios, committed: Ratios): string[] {
  const problems: string[] = [];
  for (const [load, targets] of Object.entries(committed)) {
    for (const [target, ratios] of Object.entries(targets)) {
      for (const [yardstick, before] of Object.entries(ratios)) {
        const ratio = now[load]?.[target as TargetName]?.[yardstick as 'echo' | 'floor'];
        const what = `${targetTitles[target as TargetName]}, ${load}`;
        if (ratio === undefined) problems.push(`${what}: not measured beside the ${yardstick}`);
        else if (ratio > before * (1 + allowedGrowth)) {
          const growth = Math.round((ratio / before - 1) * 100);
          problems.push(
            `${what}: ${ratio.toFixed(2)} of the ${yardstick}'s CPU, ${growth}% above ${before.toFixed(2)}`,
          );
        }
      }
    }
  }
  return problems;
}

const [burstLoad, , aloneLoad] = callByCallLoads;

/** The targets of leases, compared with memory and Redis in the same run. */
const leasesReach: readonly {
  what: string;
  load: string;
  min?: number;
  max?: number;
  of: (leases: Figures, memory: Figures, redis: Figures) => number;
}[] = [
  { what: 'share s of calls that they answer', load: aloneLoad, min: 0.6, of: ({ leased }) => leased },
  {
    what: 'CPU to s x memory + (1 - s) x Redis',
    load: aloneLoad,
    max: 1.1,
    of: ({ cpuUs, leased }, memory, redis) => cpuUs / (leased * memory.cpuUs + (1 - leased) * redis.cpuUs),
  },
  {
    what: 'scripts at Redis to (1 - s) x those without',
    load: aloneLoad,
    max: 1.1,
    of: ({ scripts, leased }, _, redis) => scripts / ((1 - leased) * redis.scripts),
  },
  { what: "CPU to memory's", load: burstLoad, max: 1.3, of: ({ cpuUs }, memory) => cpuUs / memory.cpuUs },
];

/**
 * Returns a line for each target that was measured, with the median of all runs and whether it holds. Ratios may exceed their target by
 * `allowedGrowth`.
 */
export function leaseLines(runs: readonly Figures[]): { line: string; holds: boolean }[] {
  return leasesReach.flatMap(({ what, load, min, max, of }) => {
    const values = runs.flatMap((leases) => {
      if (leases.target !== 'leases' || leases.load !== load) return [];
      const [memory, redis] = (['memory', 'redis'] as const).map((name) =>
        runs.find(({ target, run, load: other }) => target === name && run === leases.run && other === load),
      );
      return memory === undefined || redis === undefined ? [] : of(leases, memory, redis);
    });
    if (values.length === 0) return [];
    const value = median(values);
    const bound = min === undefined ? `at most ${max}` : `at least ${min}`;
    const holds = min === undefined ? value <= (max ?? 0) * (1 + allowedGrowth) : value >= min;
    return [{ line: `leases, ${load}: ${what}: ${value.toFixed(2)}, target ${bound}`, holds }];
  });
}
