import { describe, expect, it } from 'vitest';
import { parseDescriptor } from './ask-command.ts';

describe('parseDescriptor', () => {
  it('reads pairs in their order', () => {
    expect(parseDescriptor('b=1,a=2')).toEqual({
      entries: [
        { key: 'b', value: '1' },
        { key: 'a', value: '2' },
      ],
    });
  });

  it('takes an empty value', () => {
    expect(parseDescriptor('a=')).toEqual({ entries: [{ key: 'a', value: '' }] });
  });

  it('ends a key at the first equals sign', () => {
    expect(parseDescriptor('path=/s?q=1')).toEqual({ entries: [{ key: 'path', value: '/s?q=1' }] });
  });

  it.each([['a'], ['a=b,'], ['=b'], ['']])('refuses "%s"', (text) => {
    expect(() => parseDescriptor(text)).toThrow(`invalid value "${text}" for --descriptors`);
  });
});
