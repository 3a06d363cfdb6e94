import { describe, expect, it } from 'vitest';

import {
  costlyLimits,
  type Figures,
  fixedWindowLoad,
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
});

describe('figures of a benchmark', () => {
  it('have a median: the middle one, or the mean of the two in the middle', () => {
    expect(median([9, 1, 5])).toBe(5);
    expect(median([9, 1, 5, 6])).toBe(5.5);
  });

  it("are medians of all runs, with the median of each run's own ratio to the echo", () => {
    // A machine that is slower from run to run: the ratio of the medians would be 15 / 20.
    const runs = [
      [10, 5],
      [20, 15],
      [80, 40],
    ].flatMap(([echo, memory], run) => [
      figures('echo', echo as number, '4 x 1', run),
      figures('memory', memory as number, '4 x 1', run),
      figures('memory', 7, '8 x 50', run),
    ]);
    const medians = mediansOf(runs);
    const shown = medians.map(({ target, load, cpuUs, toEcho, failed }) => [
      target,
      load,
      cpuUs,
      toEcho,
      failed,
    ]);
    expect(shown).toEqual([
      ['echo', '4 x 1', 20, 1, 3],
      ['memory', '4 x 1', 15, 0.5, 3],
      ['memory', '8 x 50', 7, undefined, 3],
    ]);
    expect(ratiosOf(medians)).toEqual({ '4 x 1': { memory: 0.5 } });
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

  it('are printed as a table', () => {
    expect(
      tableOf(mediansOf([figures('echo', 20), figures('memory', 10)]))
        .split('\n')
        .at(-1),
    ).toBe('| weir, memory | 4 x 1 | 1000 | 10.0 | 0.50 | 1.00 | 2.00 | 3.00 | 1 |');
  });

  it('are worse from 25 % above the ratio that is committed, or when they are missing', () => {
    const committed = { '4 x 1': { memory: 0.4, redis: 0.8 } };
    expect(regressions({ '4 x 1': { memory: 0.5, redis: 0.8 } }, committed)).toEqual([]);
    expect(regressions({ '4 x 1': { memory: 0.51 } }, committed)).toEqual([
      "weir, memory, 4 x 1: 0.51 of the echo's CPU, 27 % above 0.40",
      'weir, Redis, 4 x 1: not measured',
    ]);
  });
});
