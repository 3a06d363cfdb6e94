import { describe, expect, it } from 'vitest';
import { readDescriptor, readRequest } from './request.ts';

const pairs = (text: string) =>
  readRequest(text.split(' '), 'ask').descriptors.map((entries) =>
    entries.map(({ key, value }) => [key, value]),
  );

describe('a request', () => {
  it.each<[string, string[][][]]>([
    ['d', []],
    [
      'd b=1 a=2',
      [
        [
          ['b', '1'],
          ['a', '2'],
        ],
      ],
    ],
    [
      'd a=1 + b=2 c=3 + d=',
      [
        [['a', '1']],
        [
          ['b', '2'],
          ['c', '3'],
        ],
        [['d', '']],
      ],
    ],
    [
      'd path=/s?q=1,2 "a"=+',
      [
        [
          ['path', '/s?q=1,2'],
          ['"a"', '+'],
        ],
      ],
    ],
  ])('is read from %j', (text, expected) => {
    expect(pairs(text)).toEqual(expected);
  });

  it.each([
    ['', 'ask needs a domain'],
    ['d a', '"a" is not of the form key=value'],
    ['d =b', '"=b" is not of the form key=value'],
    ['d +', 'a + separates two descriptors'],
    ['d + a=b', 'a + separates two descriptors'],
    ['d a=b +', 'a + separates two descriptors'],
    ['d a=b + + c=d', 'a + separates two descriptors'],
  ])('is none in %j', (text, problem) => {
    expect(() => pairs(text)).toThrow(problem);
  });

  it('may have to be of one descriptor', () => {
    expect(readDescriptor(['d', 'a=b'], 'why')).toEqual({ domain: 'd', entries: [{ key: 'a', value: 'b' }] });
    expect(readDescriptor(['d'], 'why')).toEqual({ domain: 'd', entries: [] });
    expect(() => readDescriptor(['d', 'a=b', '+', 'c=d'], 'why')).toThrow(
      'why takes one descriptor, without a +',
    );
  });
});
