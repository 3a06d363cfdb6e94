import { describe, expect, it } from 'vitest';
import { booleanValue, floatValue, integerValue, plainType } from './scalars.ts';

describe('plainType', () => {
  const words: Record<ReturnType<typeof plainType>, string> = {
    null: ' ~ null Null NULL',
    bool: 'y Y yes Yes YES n N no No NO true True TRUE false False FALSE on On ON off Off OFF',
    int: '0 5 -5 +5 010 0x1F -0x5 0b11 0B11 0o17 0O17 0X1 1_000 5_ 1__0 0_7 0x_1F 9223372036854775807 -9223372036854775808',
    huge: '9223372036854775808 18446744073709551615',
    float:
      '1.5 -1.5 .5 +.5 1. 1e3 1.e5 1E-3 08 1_0.5 .5_0 .inf -.INF +.Inf .nan 18446744073709551616 +9223372036854775808',
    string:
      'x nULL tRUE yEs 1.2.3 1:30 0o 0b 0x - + . = << .e5 ._5 .5__0 1e999 0xg _1 2001-01-01 10.0.0.1 ~x',
  };
  const cases = Object.entries(words).flatMap(([type, texts]) =>
    texts.split(' ').map((text) => [text, type]),
  );
  it.each(cases)('takes %j for %s', (text, type) => {
    expect(plainType(text as string)).toBe(type);
  });
});

describe('integerValue', () => {
  it.each([
    ['010', 8n],
    ['0o17', 15n],
    ['-0x1F', -31n],
    ['+0b11', 3n],
    ['1_000', 1000n],
    ['0', 0n],
    ['18446744073709551615', 2n ** 64n - 1n],
  ])('reads %s', (text, value) => {
    expect(integerValue(text)).toBe(value);
  });

  it('rejects a value that is no integer', () => {
    expect(() => integerValue('1.5')).toThrow(new RangeError('not an integer: 1.5'));
  });
});

describe('floatValue', () => {
  it.each([
    ['1.50', 1.5],
    ['08', 8],
    ['1_0.5', 10.5],
    ['-.inf', -Infinity],
    ['.NaN', Number.NaN],
  ])('reads %s', (text, value) => {
    expect(floatValue(text)).toBe(value);
  });
});

describe('booleanValue', () => {
  it.each([
    ['On', true],
    ['n', false],
  ])('reads %s', (text, value) => {
    expect(booleanValue(text)).toBe(value);
  });
});
