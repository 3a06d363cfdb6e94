import { expect, it } from 'vitest';
import { baggageValues } from './trace-headers.ts';

it.each([
  ['a=1,b=2', [['a', '1']]],
  [
    ' a = 1%202 ;p=q , c=3;x',
    [
      ['a', '1 2'],
      ['c', '3'],
    ],
  ],
  ['a=%zz', [['a', '%zz']]],
  ['a=b=c', [['a', 'b=c']]],
  ['a,=1,b', []],
  ['', []],
  [`a=${'x'.repeat(9_000)}`, []],
])('baggageValues of %s', (header, want) => {
  expect(baggageValues(header, new Set(['a', 'c']))).toEqual(want);
});

it('nothing is read if it is not needed', () => {
  expect(baggageValues('a=1', new Set())).toEqual([]);
});
