import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { integer, list, pairs, text } from './settings-kinds.ts';

describe('list', () => {
  const numbers = list(integer({ min: 0, max: 9 }), { max: 3 });

  it.each([
    ['', []],
    ['  ', []],
    ['1', [1]],
    [' 1 ,2,  3', [1, 2, 3]],
    ['2,1,2', [2, 1]],
  ])('reads "%s"', (value, wanted) => {
    expect(numbers.schema.parse(value)).toEqual(wanted);
  });

  it.each([
    ['1,,2', 'item 2 is not'],
    ['1,', 'item 2 is not'],
    ['1,2,10', 'item 3 is not'],
    ['1,2,3,4', 'these are 4'],
  ])('rejects "%s"', (value, remark) => {
    expect(numbers.schema.safeParse(value).error?.issues).toMatchObject([
      {
        code: 'custom',
        message: `up to 3 items between commas, each a whole number from 0 to 9; ${remark}`,
      },
    ]);
  });

  it('rejects an empty item of any text', () => {
    expect(list(text(), { max: 3 }).schema.safeParse('a,,b').success).toBe(false);
  });

  it('reads what it formats', () => {
    const values = fc.uniqueArray(fc.nat(9), { maxLength: 3 });
    fc.assert(
      fc.property(values, (value) => {
        expect(numbers.schema.parse(numbers.format(value))).toEqual(value);
      }),
    );
  });
});

describe('pairs', () => {
  const kind = pairs({ name: text(), value: text(), max: 3 });

  it('groups the values of a name, and parts an item at its last =', () => {
    expect(kind.schema.parse('a = 1, b=c=2,a=3')).toEqual(
      new Map([
        ['a', ['1', '3']],
        ['b=c', ['2']],
      ]),
    );
    expect(kind.schema.parse('a=1,a=1')).toEqual(new Map([['a', ['1']]]));
  });

  it('rejects an item without =', () => {
    expect(kind.schema.safeParse('a=1,b').error?.issues[0]?.message).toBe(
      'up to 3 items between commas, each name=value, where the name is text, and the value is text; item 2 is not',
    );
  });

  it('reads what it formats', () => {
    const value = kind.schema.parse('a=1,b=2,a=3');
    expect(kind.format(value)).toBe('a=1,a=3,b=2');
    expect(kind.schema.parse(kind.format(value))).toEqual(value);
  });
});
