import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseEntry, parseQuotedDescriptor } from './explain-command.ts';

describe('a descriptor', () => {
  it.each([
    ['a=b', [['a', 'b']]],
    [
      'a=b,c=d',
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    ],
    [
      'path=/search?q=1,b=',
      [
        ['path', '/search?q=1'],
        ['b', ''],
      ],
    ],
    [
      'path="/a,b",user=x',
      [
        ['path', '/a,b'],
        ['user', 'x'],
      ],
    ],
    [String.raw`a="say \"x\" \\ y"`, [['a', 'say "x" \\ y']]],
    ['"k=1,"=v', [['k=1,', 'v']]],
    ['a=b"c', [['a', 'b"c']]],
    ['a=""', [['a', '']]],
  ])('of %s', (text, expected) => {
    expect(parseQuotedDescriptor(text)).toEqual(expected.map(([key, value]) => ({ key, value })));
  });

  it.each([
    ['', '"" is not of the form key=value'],
    ['a', '"a" is not of the form key=value'],
    ['a,b=c', '"a" is not of the form key=value'],
    ['=b', '"=b" is not of the form key=value'],
    ['a=b,', '"" is not of the form key=value'],
    ['a="b', 'a quote is not closed, or \\ stands before something else than " and \\'],
    ['a="b"c', 'after a closing quote a comma must follow, not "c"'],
  ])('is none in %j', (text, problem) => {
    expect(() => parseQuotedDescriptor(text)).toThrow(
      `invalid value "${text}" for --descriptors: ${problem}`,
    );
  });

  it('may hold anything in quotes', () => {
    const text = fc.string({ minLength: 1 });
    const entries = fc.array(fc.record({ key: text, value: fc.string() }), { minLength: 1, maxLength: 4 });
    const quoted = (one: string) => `"${one.replace(/["\\]/g, '\\$&')}"`;
    fc.assert(
      fc.property(entries, (list) => {
        const written = list.map(({ key, value }) => `${quoted(key)}=${quoted(value)}`).join(',');
        expect(parseQuotedDescriptor(written)).toEqual(list);
      }),
    );
  });
});

describe('an entry', () => {
  it('is split at its first = alone', () => {
    expect(parseEntry('path=/a,"b"=c')).toEqual({ key: 'path', value: '/a,"b"=c' });
    expect(() => parseEntry('=a')).toThrow('invalid value "=a" for --entry: it is not of the form key=value');
  });
});
