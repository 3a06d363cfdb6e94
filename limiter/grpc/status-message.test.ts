import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeStatusMessage } from './call.ts';

/** Text from whole characters, pairs of surrogates, and lone surrogates. */
const anyText = fc.string({
  unit: fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    fc.constantFrom('\ud800', '\udc00', '%', '\n'),
  ),
});

describe('encodeStatusMessage', () => {
  it.each([
    ['', ''],
    ['plain text ~', 'plain text ~'],
    ['100 %', '100 %25'],
    ['a\r\nb\u007f', 'a%0D%0Ab%7F'],
    ['naïve ✓', 'na%C3%AFve %E2%9C%93'],
    ['a\ud800b', 'a%EF%BF%BDb'],
  ])('writes %j as %j', (text, encoded) => {
    expect(encodeStatusMessage(text)).toBe(encoded);
  });

  it('can be read back, whatever the text', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(decodeURIComponent(encodeStatusMessage(text))).toBe(text.toWellFormed());
      }),
    );
  });

  it('needs printable ASCII alone', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(encodeStatusMessage(text)).toMatch(/^([ -$&-~]|%[0-9A-F]{2})*$/);
      }),
    );
  });

  it('is bounded', () => {
    expect(encodeStatusMessage('x'.repeat(100_000))).toBe(`${'x'.repeat(1024)}...`);
    expect(encodeStatusMessage('✓'.repeat(100_000)).length).toBe(1024 * 9 + 3);
  });
});
