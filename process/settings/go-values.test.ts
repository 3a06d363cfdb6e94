import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatGoDuration, parseGoDuration, parseGoFloat, parseGoInteger } from './go-values.ts';

function table<T>(name: string, parse: (text: string) => T | undefined, cases: [string, T | undefined][]) {
  describe(name, () => {
    for (const [text, value] of cases) {
      it(`${value === undefined ? 'rejects' : 'reads'} ${JSON.stringify(text)}`, () => {
        expect(parse(text)).toBe(value);
      });
    }
  });
}

table('parseGoInteger', parseGoInteger, [
  ['0', 0],
  ['-0', 0],
  ['8081', 8081],
  ['-5', -5],
  ['+5', 5],
  ['0x1F', 31],
  ['0X1f', 31],
  ['0o17', 15],
  ['017', 15],
  ['0b101', 5],
  ['-0b11', -3],
  ['1_000', 1000],
  ['0x_ff', 255],
  ['', undefined],
  [' 1', undefined],
  ['1 ', undefined],
  ['08', undefined],
  ['1.0', undefined],
  ['1e3', undefined],
  ['1__0', undefined],
  ['1_', undefined],
  ['0x', undefined],
  ['0b2', undefined],
  ['ten', undefined],
]);

table('parseGoFloat', parseGoFloat, [
  ['0.8', 0.8],
  ['1', 1],
  ['.5', 0.5],
  ['1.', 1],
  ['8e-1', 0.8],
  ['-0.5', -0.5],
  ['', undefined],
  ['.', undefined],
  ['NaN', undefined],
  ['Inf', undefined],
  ['0,8', undefined],
  ['80%', undefined],
]);

table('parseGoDuration', parseGoDuration, [
  ['0', 0],
  ['-0', 0],
  ['-0s', 0],
  ['10s', 10_000],
  ['1h30m', 5_400_000],
  ['150us', 0.15],
  ['150µs', 0.15],
  ['150μs', 0.15],
  ['5ns', 5e-6],
  ['1.5s', 1500],
  ['.5m', 30_000],
  ['1.h', 3_600_000],
  ['-3s', -3000],
  ['+3s', 3000],
  ['1m1m', 120_000],
  ['', undefined],
  ['10', undefined],
  ['00', undefined],
  ['10 s', undefined],
  ['s', undefined],
  ['.s', undefined],
  ['1d', undefined],
  ['1s2', undefined],
  ['1S', undefined],
  ['--1s', undefined],
  ['1h-30m', undefined],
]);

describe('formatGoDuration', () => {
  it('writes what parseGoDuration reads back', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 100_000_000 }), (ms) => {
        expect(parseGoDuration(formatGoDuration(ms))).toBe(ms);
      }),
    );
  });

  const cases: [ms: number, text: string][] = [
    [0, '0s'],
    [10_000, '10s'],
    [5_400_000, '1h30m'],
    [86_400_000, '24h'],
    [10, '10ms'],
    [61_000, '1m1s'],
  ];
  for (const [ms, text] of cases) {
    it(`writes ${ms} ms as ${text}`, () => expect(formatGoDuration(ms)).toBe(text));
  }
});
