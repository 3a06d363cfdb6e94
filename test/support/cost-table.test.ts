import { describe, expect, it } from 'vitest';
import { costTable, type FileCost } from './cost-table.ts';

const file = (project: string, path: string, startedAt: number, endedAt: number, cpuSeconds?: number) =>
  ({ project, path, startedAt, endedAt, cpuSeconds }) satisfies FileCost;

describe('the table of what a run took', () => {
  it('sums up projects, and has the slowest files and those with the most CPU', () => {
    const files = [
      file('unit', 'a.test.ts', 0, 1, 0.5),
      file('unit', 'b.test.ts', 0.5, 3, 2.25),
      file('timing', 'c.timing.test.ts', 3, 4),
    ];
    expect(costTable(files, { budgets: { unit: 3, timing: 0.5 } })).toEqual([
      '  wall s    CPU s  vitest project',
      '     3.0      2.8  unit (2 files, budget 3 s)',
      '     1.0      0.0  timing (1 files, budget 0.5 s)  WARNING: above its budget',
      '     4.0      2.8  all (3 files)',
      '',
      '  wall s    CPU s  the 3 slowest files',
      '     2.5      2.3  unit  b.test.ts',
      '     1.0      0.5  unit  a.test.ts',
      '     1.0        ?  timing  c.timing.test.ts',
      '',
      '  wall s    CPU s  the 3 files with the most CPU',
      '     2.5      2.3  unit  b.test.ts',
      '     1.0      0.5  unit  a.test.ts',
      '     1.0        ?  timing  c.timing.test.ts',
    ]);
  });

  it('ends after 30 files, and knows no budget of other projects', () => {
    const lines = costTable(Array.from({ length: 40 }, (_, i) => file('own', `${i}.test.ts`, 0, i, i)));
    expect(lines).toHaveLength(67);
    expect(lines[1]).toBe('    39.0    780.0  own (40 files)');
  });

  it('has a line for API servers, and adds the shared ones to the sum', () => {
    const files = [{ ...file('tests', 'a.test.ts', 0, 9, 30), apiServerCpuSeconds: 12 }];
    const shared = { servers: 4, suites: 38, cpuSeconds: 100 };
    expect(costTable(files, { budgets: {}, shared }).slice(1, 5)).toEqual([
      '     9.0     30.0  tests (1 files)',
      '            100.0  API servers, shared: 4 for 38 suites',
      '             12.0  API servers of their own in 1 files, counted there, too',
      '     9.0    130.0  all (1 files)',
    ]);
  });
});
