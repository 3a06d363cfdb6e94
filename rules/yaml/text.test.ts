import { describe, expect, it } from 'vitest';
import { decodeYaml } from './text.ts';

describe('decodeYaml', () => {
  it.each([
    ['an octet that starts nothing', [0x61, 0x80], 'invalid leading UTF-8 octet', 1],
    ['an octet that UTF-8 never has', [0xff, 0x61], 'invalid leading UTF-8 octet', 0],
    ['an overlong form', [0x61, 0xc0, 0x80], 'invalid leading UTF-8 octet', 1],
    ['a character cut short', [0xc3, 0xa9, 0xe2, 0x82, 0x61], 'invalid trailing UTF-8 octet', 1],
    ['a text cut short', [0x61, 0xe2, 0x82], 'incomplete UTF-8 octet sequence', 1],
    ['half a surrogate pair', [0x61, 0xed, 0xa0, 0x80], 'invalid trailing UTF-8 octet', 1],
    [
      'an octet behind many good ones',
      [...Buffer.from('é😀'.repeat(500)), 0x80, 0x61],
      'invalid leading UTF-8 octet',
      1500,
    ],
  ])('rejects %s', (_, octets, text, offset) => {
    expect(decodeYaml(Uint8Array.from(octets))).toEqual({ text, offset, hasLine: false });
  });

  it('rejects half a character in a string', () => {
    expect(decodeYaml('é\ud800x')).toEqual({ text: 'invalid Unicode character', offset: 1, hasLine: false });
  });

  it('rejects half a character in UTF-16', () => {
    expect(decodeYaml(Uint8Array.from([0xff, 0xfe, 0x61, 0, 0, 0xd8]))).toEqual({
      text: 'invalid UTF-16 surrogate',
      offset: 1,
      hasLine: false,
    });
  });
});
