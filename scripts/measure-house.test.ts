import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  type HouseLimits,
  houseRows,
  missingServers,
  sourceLines,
  tableOf,
  walkRows,
} from './measure-house.ts';

const limits: HouseLimits = {
  start: { files: 3, lines: 90 },
  lines: { afterRedesigns: 90, end: 100 },
  filesInAFolder: { min: 2, max: 3 },
  medianLines: { min: 10, max: 30 },
  linesOfAFile: 50,
  smallFiles: { lines: 5, percent: 25 },
  request: { files: 2, functions: 3 },
  ruleChange: { files: 2 },
  fewFilesIn: ['limiter', 'cli/*'],
  walks: { request: { files: 2, functions: 3 }, ruleChange: { files: 2, functions: 9 } },
};

const passed = (lines: Record<string, number>): string[] =>
  houseRows(new Map(Object.entries(lines)), limits)
    .filter(({ isWithin }) => !isWithin)
    .map(({ what }) => what);

describe('the rows of the house', () => {
  it('are within limits that are just met', () => {
    expect(passed({ 'rules/a.ts': 50, 'rules/b.ts': 5, 'rules/c.ts': 20, 'limiter/main.ts': 15 })).toEqual(
      [],
    );
  });

  it('say which of the two targets for lines is missed', () => {
    expect(passed({ 'rules/a.ts': 50, 'rules/b.ts': 30, 'rules/c.ts': 20 })).toEqual([
      'lines after the redesigns',
    ]);
    expect(passed({ 'rules/a.ts': 50, 'rules/b.ts': 30, 'rules/c.ts': 21 })).toEqual([
      'lines after the redesigns',
      'lines in the end',
    ]);
  });

  it.each([
    ['lines of the median file', { 'rules/a.ts': 31, 'rules/b.ts': 31 }],
    ['lines of the longest file', { 'rules/a.ts': 51, 'rules/b.ts': 10, 'rules/c.ts': 10 }],
    ['files of 5 lines or fewer', { 'rules/a.ts': 5, 'rules/b.ts': 10, 'rules/c.ts': 10 }],
    ['folders with fewer than 2 files', { 'rules/a.ts': 10, 'cli/a.ts': 10, 'cli/b.ts': 10 }],
    [
      'folders with more than 3 files',
      { 'rules/a.ts': 10, 'rules/b.ts': 10, 'rules/c.ts': 10, 'rules/d.ts': 10 },
    ],
  ])('say that %s misses its target', (what, lines) => {
    expect(passed(lines)).toEqual([what]);
  });

  it('let commands have few files', () => {
    expect(passed({ 'cli/ask/a.ts': 10, 'limiter/main.ts': 10 })).toEqual([]);
  });

  it('count files and functions of walks', () => {
    const walk = (files: number, functions: number) => ({ files, functions, byFile: {} });
    const within = (rows: ReturnType<typeof walkRows>) => rows.map(({ isWithin }) => isWithin);
    expect(within(walkRows(walk(2, 3), walk(2, 900), limits))).toEqual([true, true, true, true]);
    expect(within(walkRows(walk(3, 4), walk(3, 900), limits))).toEqual([false, false, false, true]);
  });

  it('are printed with what misses its target', () => {
    const table = tableOf(houseRows(new Map([['rules/a.ts', 101]]), limits));
    expect(table).toMatch(/^lines after the redesigns +101 \(90 at the start\) +90 <- missed$/m);
    expect(table).toMatch(/^lines in the end +101 +100 <- missed$/m);
    expect(table).toMatch(/^source files +1 \(3 at the start\)$/m);
  });

  it('have a target for each measure in house.json', () => {
    const targets = JSON.parse(
      readFileSync(new URL('../house.json', import.meta.url), 'utf8'),
    ) as HouseLimits;
    const { request, ruleChange } = targets.walks;
    const rows = [
      ...houseRows(new Map([['rules/a.ts', 101]]), targets),
      ...walkRows(request, ruleChange, targets),
    ];
    expect(tableOf(rows)).not.toContain('undefined');
  });
});

it('the walks need four servers, each of which is named if it is missing', () => {
  const nowhere = { WEIR_REDIS_SERVER: '/no/redis', WEIR_KUBE_APISERVER: '/no/api', WEIR_ETCD: '/no/etcd' };
  expect(missingServers({ ...nowhere, WEIR_KUBECTL: process.execPath })).toEqual([
    'WEIR_REDIS_SERVER names no executable file: /no/redis',
    'WEIR_ETCD names no executable file: /no/etcd',
    'WEIR_KUBE_APISERVER names no executable file: /no/api',
  ]);
});

describe('the lines of the sources', () => {
  it('count neither tests nor what is generated', () => {
    const paths = [...sourceLines().keys()];
    expect(paths).toContain('limiter/main.ts');
    expect(paths.filter((path) => /\.test\.ts$|^gen\//.test(path))).toEqual([]);
  });
});
