import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { timeoutMsOf } from './request-handler.ts';

const unitNs = {
  H: 3_600_000_000_000n,
  M: 60_000_000_000n,
  S: 1_000_000_000n,
  m: 1_000_000n,
  u: 1_000n,
  n: 1n,
};

describe('timeoutMsOf', () => {
  it.each([
    ['1H', 3_600_000],
    ['2M', 120_000],
    ['3S', 3_000],
    ['20m', 20],
    ['1500u', 1.5],
    ['0n', 0],
    ['00000020m', 20],
    ['99999999H', 359_999_996_400_000],
  ])('reads %s', (text, ms) => {
    expect(timeoutMsOf(text)).toBe(ms);
  });

  it.each([
    '',
    'm',
    '5',
    '5s',
    '5h',
    '-1m',
    '+1m',
    '1.5S',
    ' 1m',
    '1m ',
    '1 m',
    '123456789m',
    '0x1m',
    '１m',
    'soon',
  ])('rejects %j', (text) => {
    expect(timeoutMsOf(text)).toBe(undefined);
  });

  it('reads every number of up to eight digits with every unit', () => {
    const unit = fc.constantFrom(...(Object.keys(unitNs) as (keyof typeof unitNs)[]));
    fc.assert(
      fc.property(fc.nat(99_999_999), unit, (value, letter) => {
        const wantMs = Number(BigInt(value) * unitNs[letter]) / 1e6;
        const errorMs = Math.abs((timeoutMsOf(`${value}${letter}`) ?? Number.NaN) - wantMs);
        expect(errorMs).toBeLessThanOrEqual(wantMs * 1e-12);
      }),
    );
  });

  it('takes nothing else', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(timeoutMsOf(text) !== undefined).toBe(/^[0-9]{1,8}[HMSmun]$/.test(text));
      }),
    );
  });
});
