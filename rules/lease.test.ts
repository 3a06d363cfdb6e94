import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../test/support/property-cases.ts';
import { leaseFromText, leaseText, maxLease, wholeLimit } from './lease.ts';

describe('the share of a lease', () => {
  it.each([
    ['2%', 20_000],
    ['0.5%', 5_000],
    ['0.0001%', 1],
    ['33.3333%', 333_333],
    ['100%', wholeLimit],
    ['100.0%', wholeLimit],
    ['0', 0],
    ['0%', 0],
  ])('is read in millionths: %s', (text, lease) => {
    expect(leaseFromText(text)).toBe(lease);
  });

  it.each([
    '',
    '%',
    '2',
    '0.02',
    '-1%',
    '+1%',
    '100.1%',
    '101%',
    '0.00001%',
    '1e1%',
    ' 2%',
    '2 %',
    'half',
    '0x1%',
  ])("is not '%s'", (text) => {
    expect(leaseFromText(text)).toBeUndefined();
  });

  it('is written so that it is read again', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: wholeLimit }), (lease) => {
        expect(leaseFromText(leaseText(lease))).toBe(lease);
      }),
      { numRuns: caseCount(300) },
    );
  });

  it('is taken of a limit without rounding up, and as nothing below 2 hits', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: wholeLimit }),
        fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
        (lease, limit) => {
          const exact = (BigInt(lease) * BigInt(limit)) / BigInt(wholeLimit);
          expect(maxLease(lease, limit)).toBe(exact < 2n ? 0 : Number(exact));
        },
      ),
      { numRuns: caseCount(300) },
    );
    // 0.29 * 100 is less than 29 in floating point.
    expect(maxLease(290_000, 100)).toBe(29);
  });
});
