import { describe, expect, it } from 'vitest';
import { allCases } from './all-cases.ts';
import { faultFlags, faultPaces } from './fault-options.ts';

const flags = faultFlags(allCases);
const read = (...args: string[]) => flags.parse(args);

describe('the command line of npm run faults', () => {
  it('runs all cases, or the named ones', () => {
    expect(read()).toEqual({ cases: allCases, seed: undefined, write: false });
    expect(read('mode-deny', 'leases')?.cases.map(({ name }) => name)).toEqual(['leases', 'mode-deny']);
    expect(read('--write')?.write).toBe(true);
    expect(read('--help')).toBeUndefined();
    expect(flags.help).toContain('  redis-killed: Redis is killed');
  });

  it.each([
    [['redis-kiled'], /^there is no case redis-kiled; there are redis-killed, /],
    [['--seed', '1.5'], /^--seed is a whole number from 1 to 2147483647, not "1.5"$/],
    [['--write', '--seed', '1'], /^--write takes all cases, and no --seed/],
    [['--write', 'leases'], /^--write takes all cases/],
  ])('rejects %j', (args, message) => {
    expect(() => read(...args)).toThrow(message);
  });
});

describe('the pace of faults', () => {
  const paces = (seed: number | undefined) => Array.from({ length: 50 }, faultPaces(seed));

  it('is that of the document without a seed', () => {
    expect(new Set(paces(undefined).map(({ outageMs }) => outageMs))).toEqual(new Set([2000]));
  });

  it('follows from the seed, and leaves time for the breaker to open', () => {
    expect(paces(3)).toEqual(paces(3));
    expect(paces(3)).not.toEqual(paces(4));
    for (const { outageMs, quietMs } of paces(3)) {
      expect(outageMs).toBeGreaterThanOrEqual(1200);
      expect(quietMs).toBeGreaterThanOrEqual(900);
    }
  });
});
