import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { machineSlowness } from '../test/support/machine-slowness.ts';
import type { LoadFigures } from './load-rules.ts';

const script = fileURLToPath(new URL('load-rules.ts', import.meta.url));

describe('a load of 100,000 rules in one file', () => {
  let figures: LoadFigures[];
  beforeAll(async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [script, '--json', '100000']);
    figures = JSON.parse(stdout) as LoadFigures[];
  });

  const of = (name: keyof LoadFigures) => figures.map((figure) => figure[name]);

  it('loads them all', () => {
    expect(of('rules')).toEqual(new Array(5).fill(100_000));
  });

  // Times are the best of five: what else runs on the machine only lengthens them.
  it.each(['loadMs', 'reloadMs'] as const)('takes less than 2.5 s (%s)', (name) => {
    expect(Math.min(...of(name))).toBeLessThan(2_500 * machineSlowness());
  });

  it('needs less than 350 MB at its peak, also while others are in force', () => {
    expect(Math.max(...of('peakMb'), ...of('reloadPeakMb'))).toBeLessThan(350);
  });

  // Beyond what the machine does to an idle thread.
  it.each(['longestHoldMs', 'reloadLongestHoldMs'] as const)(
    'holds the answering thread for at most 20 ms (%s)',
    (name) => {
      const beyondIdleMs = figures.map((figure) => figure[name] - figure.idleLongestHoldMs);
      expect(Math.min(...beyondIdleMs)).toBeLessThanOrEqual(20 * machineSlowness());
    },
  );
});
