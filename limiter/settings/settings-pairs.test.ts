import { describe, expect, it } from 'vitest';
import { headerPairs, metadataPairs, type Pairs, tagPairs } from './settings-pairs.ts';

describe('headerPairs', () => {
  const { schema, format } = headerPairs();
  const cases: [text: string, pairs: Pairs][] = [
    ['', []],
    ['Authorization:Bearer x', [['authorization', 'Bearer x']]],
    [
      'a:1,B-c.d_e:',
      [
        ['a', '1'],
        ['b-c.d_e', ''],
      ],
    ],
    ['a:1,A:2', [['a', '2']]],
  ];
  it.each(cases)('reads "%s"', (text, pairs) => {
    expect(schema.parse(text)).toEqual(pairs);
    expect(schema.parse(format(pairs))).toEqual(pairs);
  });

  it.each([
    ['a', 'part 1 has not exactly one colon'],
    ['a:1,', 'part 2 has not exactly one colon'],
    ['a:1,b:http://x', 'part 2 has not exactly one colon'],
    [':x', 'part 1 has a name with other characters than letters, digits and _.-'],
    ['a: x, b:y', 'part 2 has a name with other characters than letters, digits and _.-'],
    ['a:\u00e4', 'part 1 has a value with characters other than ASCII'],
  ])('rejects "%s" without showing it', (text, problem) => {
    expect(schema.safeParse(text).error?.issues.map(({ message }) => message)).toEqual([
      `name:value,name2:value2; ${problem}`,
    ]);
  });
});

describe('tagPairs', () => {
  const { schema, format } = tagPairs();
  const cases: [text: string, pairs: Pairs][] = [
    ['', []],
    ['env:prod', [['env', 'prod']]],
    ['a:1,:2,b:', [['a', '1']]],
    [
      'a:1,A:x y,a:3',
      [
        ['a', '3'],
        ['A', 'x y'],
      ],
    ],
  ];
  it.each(cases)('reads "%s"', (text, pairs) => {
    expect(schema.parse(text)).toEqual(pairs);
    expect(schema.parse(format(pairs))).toEqual(pairs);
  });

  it.each([
    ['a', 'part 1 has not exactly one colon'],
    ['a:1,b:http://x', 'part 2 has not exactly one colon'],
    ['a b:1', 'part 1 has a name with other characters than letters, digits and _./-'],
  ])('rejects "%s"', (text, problem) => {
    expect(schema.safeParse(text).error?.issues.map(({ message }) => message)).toEqual([
      `name:value,name2:value2, with one colon in each; ${problem}`,
    ]);
  });
});

describe('metadataPairs', () => {
  const { schema, format } = metadataPairs();
  const cases: [text: string, pairs: Pairs, formatted?: string][] = [
    ['', []],
    ['a=1, b =x=y', [['a', '1'] as const, [' b ', 'x=y'] as const]],
    ['a,b=,=c', [['b', ''] as const, ['', 'c'] as const], 'b=,=c'],
  ];
  it.each(cases)('reads "%s"', (text, pairs, formatted = text) => {
    expect(schema.parse(text)).toEqual(pairs);
    expect(format(pairs)).toBe(formatted);
  });
});
