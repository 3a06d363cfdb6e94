import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MemcacheReplyReader } from './reply-reader.ts';

function read(...chunks: string[]): { seen: string[]; good: boolean } {
  const seen: string[] = [];
  const reader = new MemcacheReplyReader({
    onValue: (key, value) => seen.push(`${key}=${value}`),
    onLine: (line) => seen.push(line),
  });
  const good = chunks.every((chunk) => reader.push(Buffer.from(chunk)));
  return { seen, good };
}

describe('ReplyReader', () => {
  const text = `VALUE a 0 2\r\n17\r\nVALUE é 0 3 99\r\n5  \r\nVALUE long 0 70\r\n${'x'.repeat(70)}\r\nVALUE e 0 0\r\n\r\nEND\r\n3\r\nNOT_FOUND\r\n`;
  const seen = ['a=17', 'é=5  ', 'long=undefined', 'e=', 'END', '3', 'NOT_FOUND'];

  it('gives values and lines', () => {
    expect(read(text)).toEqual({ seen, good: true });
  });

  it('gives the same however the text is cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(Buffer.byteLength(text)), { maxLength: 20 }), (cuts) => {
        const bytes = Buffer.from(text);
        const given: string[] = [];
        const reader = new MemcacheReplyReader({
          onValue: (key, value) => given.push(`${key}=${value}`),
          onLine: (line) => given.push(line),
        });
        const places = [0, ...cuts.sort((a, b) => a - b), bytes.length];
        for (const [i, place] of places.slice(1).entries())
          expect(reader.push(Buffer.from(bytes.subarray(places[i], place)))).toBe(true);
        expect(given).toEqual(seen);
      }),
    );
  });

  it('takes every key that the protocol allows, Unicode blanks too', () => {
    const refused: string[] = [];
    for (let code = 0x21; code <= 0x10ffff; code += code < 0x3100 ? 1 : 97) {
      if (code === 0x7f || (code >= 0xd800 && code <= 0xdfff)) continue;
      const key = `a${String.fromCodePoint(code)}b`;
      const { seen: given, good } = read(`VALUE ${key} 0 1\r\n7\r\nEND\r\n`);
      if (!good || given.join() !== `${key}=7,END`) refused.push(code.toString(16));
    }
    expect(refused).toEqual([]);
  });

  it('does not take data for a reply', () => {
    expect(read('VALUE a 0 13\r\nEND\r\nSTORED\r\n\r\n').seen).toEqual(['a=END\r\nSTORED\r\n']);
  });

  it.each([
    ['a line without carriage return', 'END\n'],
    ['a value longer than it says', 'VALUE a 0 1\r\n17\r\n'],
    ['a value without length', 'VALUE a 0\r\n'],
    ['a line without end', 'x'.repeat(5000)],
  ])('rejects %s', (_, given) => {
    expect(read(given).good).toBe(false);
  });
});
