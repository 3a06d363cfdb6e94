import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { WatchLines } from './watch-stream.ts';

function valuesOf(bytes: Buffer, pieceBytes: number): unknown[] {
  const lines = new WatchLines();
  const values: unknown[] = [];
  for (let start = 0; start < bytes.length; start += pieceBytes) {
    values.push(...lines.push(bytes.subarray(start, start + pieceBytes)));
  }
  return values;
}

describe('WatchLines', () => {
  it('gives the same values however they are cut', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.integer({ min: 1, max: 40 }), (values, pieceBytes) => {
        const texts = values.map((value) => JSON.stringify(value));
        const bytes = Buffer.from(texts.map((text) => `${text}\n`).join(''));
        expect(valuesOf(bytes, pieceBytes)).toEqual(texts.map((text) => JSON.parse(text)));
      }),
    );
  });

  it('knows no other end of a line than the line feed', () => {
    expect(valuesOf(Buffer.from('"a\u2028b\u0085"\r\n\n'), 3)).toEqual(['a\u2028b\u0085']);
  });

  it('keeps what is not complete', () => {
    const lines = new WatchLines();
    expect([...lines.push(Buffer.from('1\n2'))]).toEqual([1]);
    expect([...lines.push(Buffer.from('3\n'))]).toEqual([23]);
  });

  it('refuses a line that is too long, and one that is not JSON', () => {
    const lines = new WatchLines(4);
    expect([...lines.push(Buffer.from('1234\n123'))]).toEqual([1234]);
    expect(() => [...lines.push(Buffer.from('45'))]).toThrow(
      new RangeError('a line holds more than 4 bytes'),
    );
    expect(() => [...new WatchLines().push(Buffer.from('<html>\n'))]).toThrow(SyntaxError);
  });
});
