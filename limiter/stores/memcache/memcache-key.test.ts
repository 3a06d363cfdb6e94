import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isLegalKey, keyHash, memcacheKey } from './memcache-key.ts';

describe('isLegalKey', () => {
  it.each([
    ['250 bytes', 'a'.repeat(250), true],
    ['251 bytes', 'a'.repeat(251), false],
    ['125 characters of two bytes', 'é'.repeat(125), true],
    ['126 characters of two bytes', 'é'.repeat(126), false],
    ['83 characters of three bytes', '€'.repeat(83), true],
    ['84 characters of three bytes', '€'.repeat(84), false],
    ['a blank', 'a b', false],
    ['a line end', 'a\r\nflush_all', false],
    ['a zero byte', 'a\0', false],
    ['DEL', 'a\x7f', false],
    ['no-break space, whose bytes are above', 'a\u00a0', true],
    ['an empty key', '', false],
  ])('%s', (_, key, legal) => {
    expect(isLegalKey(key)).toBe(legal);
  });

  it('judges by the bytes, as gomemcache does', () => {
    const byBytes = (key: string) => {
      const bytes = Buffer.from(key);
      return bytes.length > 0 && bytes.length <= 250 && bytes.every((byte) => byte > 0x20 && byte !== 0x7f);
    };
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 260 }), (key) => isLegalKey(key) === byBytes(key)),
    );
  });
});

describe('keyHash', () => {
  // The values are from Go's crc32.ChecksumIEEE.
  it.each([
    ['123456789', 0xcbf43926],
    ['', 0],
    ['The quick brown fox jumps over the lazy dog', 0x414fa339],
  ])('of %j is the CRC-32 of IEEE', (key, hash) => {
    expect(keyHash(key)).toBe(hash);
  });
});

describe('memcacheKey', () => {
  it.each([
    ['d_k_v_0', /^d_k_v_0$/],
    ['d_ua_Mozilla/5.0 (X11)_0', /^d_ua_Mozilla\/5\.0~[0-9a-f]{64}$/],
    ['a'.repeat(251), /^a{185}~[0-9a-f]{64}$/],
    ['é'.repeat(126), /^é{92}~[0-9a-f]{64}$/],
    [' ', /^~[0-9a-f]{64}$/],
  ])('of %j is %s', (key, expected) => {
    expect(memcacheKey(key)).toMatch(expected);
  });

  it('is a legal key of its own for every key', () => {
    const piece = fc.constantFrom('a', 'b', ' ', '\n', 'é', '€', '\u{1f600}', '~', 'x'.repeat(100));
    const key = fc.array(piece, { maxLength: 8 }).map((pieces) => `d_${pieces.join('')}_1700000000`);
    fc.assert(
      fc.property(fc.uniqueArray(key, { minLength: 2, maxLength: 30 }), (keys) => {
        const named = keys.map(memcacheKey);
        expect(named.every(isLegalKey)).toBe(true);
        expect(new Set(named).size).toBe(keys.length);
      }),
    );
  });
});
