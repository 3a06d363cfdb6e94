import { describe, expect, it } from 'vitest';
import { HpackDecoder } from './decoder.ts';
import { HpackError } from './tables.ts';

const open = (options: { maxTableBytes?: number; maxListBytes?: number } = {}): HpackDecoder =>
  new HpackDecoder({ maxTableBytes: 4096, maxListBytes: 100_000, ...options });

function decode(decoder: HpackDecoder, block: Buffer | string): string[] {
  const bytes = typeof block === 'string' ? Buffer.from(block.replaceAll(' ', ''), 'hex') : block;
  const fields: string[] = [];
  expect(decoder.decode(bytes, 0, bytes.length, fields)).toBe(true);
  return fields;
}

/** A literal that enters the table: `a` and a value of that many bytes. */
const literal = (valueBytes: number): Buffer =>
  Buffer.concat([
    Buffer.from([0x40, 1, 0x61, 0x7f, ((valueBytes - 127) & 0x7f) | 0x80, (valueBytes - 127) >> 7]),
    Buffer.alloc(valueBytes, 'v'),
  ]);

describe('rejects with an HpackError', () => {
  it.each([
    ['80', 'the index of a field is 0'],
    ['be', 'the index 62 is above 61, the last entry of the table'],
    ['400161 0162 bf', 'the index 63 is above 62, the last entry of the table'],
    ['7e 0161', 'the index 62 is above 61, the last entry of the table'],
    ['0f2f 0161', 'the index 62 is above 61, the last entry of the table'],
    ['ff', 'the block ends inside a field'],
    ['ff80', 'the block ends inside a field'],
    ['ffffffffff7f', 'an integer takes more than five bytes'],
    ['ff8080808000', 'an integer takes more than five bytes'],
    ['40', 'the block ends inside a field'],
    ['400161', 'the block ends inside a field'],
    ['400261', 'the block ends inside a field'],
    ['00017f 7f80ffff7f', 'the block ends inside a field'],
    ['82 20', 'a table size update stands behind a field'],
    ['20 20 20', 'the block begins with more than two table size updates'],
    ['3fe21f', 'the table size 4097 is above the announced 4096'],
    ['00 0161 81 00', 'the Huffman code at byte 4 ends with more or other padding than seven ones'],
    ['00 0161 82 1fff', 'the Huffman code at byte 4 ends with more or other padding than seven ones'],
    ['00 0161 84 ffffffff', 'the Huffman code at byte 4 holds the symbol EOS'],
    ['00 0161 84 fffffffc', 'the Huffman code at byte 4 holds the symbol EOS'],
  ])('%s', (hex, message) => {
    expect(() => decode(open(), hex)).toThrow(new HpackError(message));
  });
});

it('reads from start to end of the bytes it was given, and no further', () => {
  const bytes = Buffer.from('ff82ff', 'hex');
  const fields = ['already', 'there'];
  expect(open().decode(bytes, 1, 2, fields)).toBe(true);
  expect(fields).toEqual(['already', 'there', ':method', 'GET']);
  expect(() => open().decode(bytes, 2, 2, fields)).not.toThrow();
});

describe('the list of fields', () => {
  it('may be as long as its bound, which counts 32 bytes a field', () => {
    const exact = open({ maxListBytes: 42 + 38 });
    expect(decode(exact, '82 84')).toEqual([':method', 'GET', ':path', '/']);
    const less = open({ maxListBytes: 42 + 38 - 1 });
    const fields: string[] = [];
    expect(less.decode(Buffer.from('8284', 'hex'), 0, 2, fields)).toBe(false);
    expect(fields).toEqual([':method', 'GET']);
  });

  it('is cut if it is too long, and the table is right afterward', () => {
    const decoder = open({ maxListBytes: 300 });
    const fields: string[] = [];
    const block = Buffer.concat([literal(300), Buffer.from('400162 0163'.replace(' ', ''), 'hex')]);
    expect(decoder.decode(block, 0, block.length, fields)).toBe(false);
    expect(fields).toEqual([]);
    expect(decode(decoder, 'be')).toEqual(['b', 'c']);
    expect(decoder.tableBytes).toBe(333 + 34);
  });

  it('does not grow beyond its bound by a bomb of references', () => {
    const decoder = open({ maxListBytes: 16_384 });
    decode(decoder, literal(4000));
    const bomb = Buffer.alloc(65_536, 0xbe);
    const fields: string[] = [];
    expect(decoder.decode(bomb, 0, bomb.length, fields)).toBe(false);
    expect(fields).toHaveLength(2 * Math.floor(16_384 / 4033));
  });
});

describe('the table', () => {
  it('holds an entry that fills it, and is emptied by one that is larger', () => {
    const decoder = open();
    decode(decoder, literal(4096 - 33));
    expect(decoder.tableBytes).toBe(4096);
    decode(decoder, literal(4096 - 32));
    expect(decoder.tableBytes).toBe(0);
  });

  it('keeps entries that fill it together, and evicts the oldest for a byte more', () => {
    const decoder = open();
    decode(decoder, '4001610131');
    decode(decoder, literal(4096 - 34 - 33));
    expect(decoder.tableBytes).toBe(4096);
    expect(decode(decoder, 'bf')).toEqual(['a', '1']);
    const other = open();
    decode(other, '4001610131');
    decode(other, literal(4096 - 34 - 33 + 1));
    expect(other.tableBytes).toBe(4096 - 34 + 1);
  });

  it('evicts the oldest entries as the size is lowered', () => {
    const decoder = open();
    decode(decoder, '4001610131 4001620132 4001630133');
    expect(decode(decoder, '3f26 be bf')).toEqual(['c', '3', 'b', '2']);
    expect(() => decode(decoder, 'c0')).toThrow(HpackError);
  });

  it('is emptied by a size of 0 and works on after the next', () => {
    const decoder = open();
    decode(decoder, '4001610131');
    expect(decode(decoder, '20 3fe11f 4001620132 be')).toEqual(['b', '2', 'b', '2']);
    expect(decoder.tableBytes).toBe(34);
  });

  it('shares the strings of its entries', () => {
    const decoder = open();
    decode(decoder, literal(2000));
    // Forty megabytes, if each list had strings of its own.
    const before = process.memoryUsage().heapUsed;
    const lists: string[][] = [];
    const block = Buffer.of(0xbe);
    for (let count = 0; count < 20_000; count++) {
      const fields: string[] = [];
      decoder.decode(block, 0, 1, fields);
      lists.push(fields);
    }
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(20_000_000);
    expect(lists).toHaveLength(20_000);
  });

  it('may be larger than announced until the peer knows, and has to be lowered then', () => {
    const decoder = open({ maxTableBytes: 100 });
    decode(decoder, '4001610131 4001620132 4001630133 4001640134');
    expect(decoder.tableBytes).toBe(136);
    decoder.settingsAcknowledged();
    expect(() => decode(decoder, 'be')).toThrow(
      new HpackError('the block lacks a table size update from 4096 to at most 100'),
    );
    expect(decode(decoder, '3f45 bf')).toEqual(['c', '3']);
    expect(() => decode(decoder, '3f46')).toThrow(
      new HpackError('the table size 101 is above the announced 100'),
    );
  });
});

it('reads a field that is never indexed like one without indexing', () => {
  const decoder = open();
  expect(decode(decoder, '10 0161 0162')).toEqual(['a', 'b']);
  expect(decoder.tableBytes).toBe(0);
});

it('reads strings of any length, Huffman-coded too', () => {
  const value = Buffer.alloc(40_000, 0);
  const block = Buffer.concat([Buffer.from('000161 ffc1b702'.replace(' ', ''), 'hex'), value]);
  // Forty thousand zero bytes are sixty-four thousand times the symbol "0", whose code is five zeros.
  expect(decode(open(), block)).toEqual(['a', '0'.repeat(64_000)]);
});
