import { describe, expect, it } from 'vitest';

import {
  callByCallLoads,
  costlyLimits,
  type Figures,
  fixedWindowLoad,
  floorLines,
  leaseLines,
  median,
  mediansOf,
  ratiosOf,
  ratiosToFixedWindow,
  regressions,
  tableOf,
} from './bench-figures.ts';

const figures = (target: Figures['target'], cpuUs: number, load = '4 x 1', run = 0): Figures => ({
  target,
  load,
  run,
  perSecond: 1_000,
  cpuUs,
  p50Ms: 1,
  p99Ms: 2,
  p999Ms: 3,
  failed: 1,
  alone: target.startsWith('floor') ? run / 4 : undefined,
  scripts: 0,
  leased: 0,
});

describe('figures of a benchmark', () => {
  it('have a median: the middle one, or the mean of the two in the middle', () => {
    expect(median([9, 1, 5])).toBe(5);
    expect(median([9, 1, 5, 6])).toBe(5.5);
  });

  it("are medians of all runs, with the median of each run's own ratios to echo, floor and the one beside", () => {
    const load = callByCallLoads[1];
    // The machine becomes slower from run to run, so the ratio of the medians would be 15 / 20.
    const runs = [
      [10, 5],
      [20, 15],
      [80, 40],
    ].flatMap(([echo, memory], run) => [
      figures('echo', echo as number, load, run),
      figures('floor', (memory as number) / 2, load, run),
      figures('memory', memory as number, load, run),
      figures('memory-beside', (memory as number) / 4, load, run),
      figures('memory', 7, '8 x 50', run),
    ]);
    const medians = mediansOf(runs);
    const shown = medians.map(({ target, load, cpuUs, toEcho, toFloor, toBeside, alone, failed }) => [
      ...[target, load, cpuUs, toEcho, toFloor, toBeside, alone, failed],
    ]);
    expect(shown).toEqual([
      ['echo', load, 20, 1, 4, undefined, undefined, 3],
      ['floor', load, 7.5, 0.25, 1, undefined, 0.25, 3],
      ['memory', load, 15, 0.5, 2, 4, undefined, 3],
      ['memory-beside', load, 3.75, 0.125, 0.5, undefined, undefined, 3],
      ['memory', '8 x 50', 7, undefined, undefined, undefined, undefined, 3],
    ]);
    expect(ratiosOf(medians)).toEqual({ [load]: { memory: { echo: 0.5, floor: 2 } } });
    expect(ratiosOf(mediansOf(runs.map((run) => ({ ...run, load: 'gathered' }))))).toEqual({
      gathered: { memory: { echo: 0.5 } },
    });
  });

  it('with Redis are held against the floor with Redis, and so is the time of the median answer', () => {
    const load = callByCallLoads[1];
    const runs = [
      figures('floor', 1, load),
      figures('floor-redis', 4, load),
      { ...figures('redis', 6, load), p50Ms: 1.2 },
    ];
    expect(floorLines(mediansOf(runs))).toEqual([
      `weir, Redis, CPU to its floor, target 1.5: 1.50 (${load})`,
      `weir, Redis, p50 to its floor, target 1.3: 1.20 (${load})`,
    ]);
  });

  it('of other limits are held against a fixed window of the same run', () => {
    const of = (limits: string, cpus: number[]) =>
      cpus.map((cpu, run) => figures('memory', cpu, `${fixedWindowLoad}${limits}`, run));
    const ratios = ratiosToFixedWindow([
      ...of('', [10, 20, 30]),
      ...of(', sliding window', [11, 26, 33]),
      ...of(', three limits on a key', [18, 36, 54]),
    ]);
    expect(ratios).toEqual({
      'weir, memory, sliding window': 1.1,
      'weir, memory, three limits on a key': 1.8,
    });
    expect(costlyLimits(ratios)).toEqual([
      'weir, memory, three limits on a key: 1.80 of the CPU of a fixed window, at most 1.7 is allowed',
    ]);
  });

  it('of leases are held against memory and Redis of the same run', () => {
    const alone = callByCallLoads[2];
    const runs = [0, 1, 2].flatMap((run) => [
      figures('memory', 10, callByCallLoads[0], run),
      figures('redis', 20, callByCallLoads[0], run),
      figures('leases', 17, callByCallLoads[0], run),
      figures('memory', 40 + run, alone, run),
      { ...figures('redis', 80 + run, alone, run), scripts: 0.8 },
      { ...figures('leases', 44 + run, alone, run), scripts: 0.22, leased: 0.75 },
    ]);
    expect(leaseLines(runs)).toEqual([
      {
        line: `leases, ${alone}: share s of calls that they answer: 0.75, target at least 0.6`,
        holds: true,
      },
      {
        line: `leases, ${alone}: CPU to s x memory + (1 - s) x Redis: 0.88, target at most 1.1`,
        holds: true,
      },
      {
        line: `leases, ${alone}: scripts at Redis to (1 - s) x those without: 1.10, target at most 1.1`,
        holds: true,
      },
      { line: `leases, ${callByCallLoads[0]}: CPU to memory's: 1.70, target at most 1.3`, holds: false },
    ]);
    expect(leaseLines(runs.filter(({ target }) => target !== 'redis'))).toEqual([]);
  });

  it('are printed as a table', () => {
    expect(
      tableOf(mediansOf([figures('echo', 20), figures('memory', 10)]))
        .split('\n')
        .at(-1),
    ).toBe('| weir, memory | 4 x 1 | 1000 | 10.0 | - | 0.50 | - | 1.00 | - | 2.00 | 3.00 | 1 |');
  });

  it('are worse from 25% above the ratio that is committed, or when they are missing', () => {
    const committed = { '4 x 1': { memory: { echo: 0.4, floor: 2 }, redis: { echo: 0.8, floor: 2 } } };
    const redis = { echo: 0.8, floor: 2.5 };
    expect(regressions({ '4 x 1': { memory: { echo: 0.5, floor: 2 }, redis } }, committed)).toEqual([]);
    expect(regressions({ '4 x 1': { memory: { echo: 0.51, floor: 2.6 } } }, committed)).toEqual([
      "weir, memory, 4 x 1: 0.51 of the echo's CPU, 27% above 0.40",
      "weir, memory, 4 x 1: 2.60 of the floor's CPU, 30% above 2.00",
      'weir, Redis, 4 x 1: not measured beside the echo',
      'weir, Redis, 4 x 1: not measured beside the floor',
    ]);
  });
});
