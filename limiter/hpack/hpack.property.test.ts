import fc from 'fast-check';
import { expect, it } from 'vitest';
import { MalformedBlock, NaiveHpackDecoder } from '../../test/support/naive-hpack-decoder.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { HpackDecoder } from './decoder.ts';
import { HpackEncoder, Indexing, maxEncodedBytes } from './encoder.ts';
import { HpackError, staticNames, staticValues } from './tables.ts';

const octets = fc.uint8Array({ maxLength: 40 }).map((bytes) => String.fromCharCode(...bytes));
const text = fc.oneof(
  octets,
  fc.string({ maxLength: 12 }).map((value) => value.replace(/[^\0-\xff]/g, '?')),
  fc.integer({ min: 100, max: 5000 }).map((length) => 'abc;'.repeat(length / 4)),
);
// Few names and values, so that they come again.
const field = fc.oneof(
  fc.tuple(
    fc.constantFrom('a', 'grpc-status', 'x-long-name-of-a-field', 'te'),
    fc.constantFrom('0', '1', 'trailers'),
  ),
  fc
    .integer({ min: 1, max: 61 })
    .map((index) => [staticNames[index]!, staticValues[index]!] as [string, string]),
  fc.tuple(fc.constantFrom(':path', 'authorization', 'a'), text),
  fc.tuple(text, text),
);
const block = fc.array(field, { maxLength: 12 }).map((fields) => fields.flat());
const tableBytes = fc.oneof(fc.constantFrom(0, 31, 32, 100, 4096), fc.nat(8192));
const step = fc.oneof({ weight: 3, arbitrary: block }, { weight: 1, arbitrary: tableBytes });

const policies = {
  all: () => Indexing.INCREMENTAL,
  none: () => Indexing.NONE,
  mixed: (name: string) => [Indexing.INCREMENTAL, Indexing.NONE, Indexing.NEVER][name.length % 3]!,
};

function encoded(encoder: HpackEncoder, fields: readonly string[]): Buffer {
  const room = maxEncodedBytes(fields);
  const target = Buffer.alloc(room + 8, 0xee);
  const end = encoder.encode(fields, target, 3);
  expect(end - 3).toBeLessThanOrEqual(room);
  expect(target.toString('hex', 0, 3) + target.toString('hex', end)).toMatch(/^(ee)*$/);
  return target.subarray(3, end);
}

function decoded(decoder: HpackDecoder, bytes: Uint8Array): string[] {
  const fields: string[] = [];
  expect(decoder.decode(bytes, 0, bytes.length, fields)).toBe(true);
  return fields;
}

it('reads back what it wrote, whatever the blocks and the sizes of the table', () => {
  const options = fc.record({
    maxTableBytes: tableBytes,
    indexing: fc.constantFrom(...Object.values(policies)),
    huffman: fc.boolean(),
  });
  fc.assert(
    fc.property(options, fc.array(step, { maxLength: 12 }), (encoderOptions, steps) => {
      const encoder = new HpackEncoder(encoderOptions);
      const decoder = new HpackDecoder({ maxTableBytes: 8192, maxListBytes: 1_000_000 });
      const naive = new NaiveHpackDecoder({ maxTableBytes: 8192 });
      let bound = Math.min(encoderOptions.maxTableBytes, 4096);
      for (const item of steps) {
        if (typeof item === 'number') {
          encoder.setPeerTableBytes(item);
          bound = Math.min(item, encoderOptions.maxTableBytes);
          continue;
        }
        const bytes = encoded(encoder, item);
        expect(decoded(decoder, bytes)).toEqual(item);
        expect(naive.decode(bytes).flat()).toEqual(item);
        expect(decoder.tableBytes).toBe(encoder.tableBytes);
        expect(encoder.tableBytes).toBeLessThanOrEqual(bound);
      }
    }),
    { numRuns: caseCount(125) },
  );
});

interface Edit {
  at: number;
  remove: number;
  insert: Uint8Array;
}

function edited(bytes: Uint8Array, edits: readonly Edit[]): Buffer {
  let result = Buffer.from(bytes);
  for (const { at, remove, insert } of edits) {
    const from = at % (result.length + 1);
    result = Buffer.concat([result.subarray(0, from), insert, result.subarray(from + remove)]);
  }
  return result;
}

/** The result of a decoder for a block, or that it rejects the block. Any other error is a failure. */
function outcome(decode: () => string[], refusal: new (...args: never[]) => Error): string[] | 'refused' {
  try {
    return decode();
  } catch (error) {
    if (error instanceof refusal) return 'refused';
    throw error;
  }
}

function bothDecode(blocks: readonly Uint8Array[]): void {
  const decoder = new HpackDecoder({ maxTableBytes: 4096, maxListBytes: 1_000_000 });
  const naive = new NaiveHpackDecoder({ maxTableBytes: 4096 });
  const known = new Map<Uint8Array, { fields: string[]; changes: number }>();
  // Each again at once, and the first one after all.
  for (const bytes of [...blocks.flatMap((block) => [block, block]), ...blocks.slice(0, 1)]) {
    const { changes } = decoder;
    const actual = outcome(() => decoded(decoder, bytes), HpackError);
    expect(actual).toEqual(outcome(() => naive.decode(bytes).flat(), MalformedBlock));
    const before = known.get(bytes);
    if (before?.changes === changes) expect(actual).toEqual(before.fields);
    if (actual === 'refused') return;
    expect(decoder.tableBytes).toBe(naive.tableBytes);
    if (decoder.changes === changes) known.set(bytes, { fields: actual, changes });
  }
}

it('agrees with the naive decoder on random bytes', () => {
  fc.assert(fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 4 }), bothDecode), {
    numRuns: caseCount(1500),
  });
});

it('agrees with the naive decoder on damaged blocks', () => {
  const edit = fc.record({ at: fc.nat(200), remove: fc.nat(2), insert: fc.uint8Array({ maxLength: 2 }) });
  const damaged = fc.array(fc.tuple(block, fc.array(edit, { maxLength: 3 })), { maxLength: 4 });
  fc.assert(
    fc.property(damaged, fc.boolean(), (items, huffman) => {
      const encoder = new HpackEncoder({ maxTableBytes: 4096, indexing: policies.mixed, huffman });
      bothDecode(items.map(([fields, edits]) => edited(encoded(encoder, fields), edits)));
    }),
    { numRuns: caseCount(400) },
  );
});

it('agrees with the naive decoder on every Huffman code of up to two bytes', () => {
  const actualOf = (bytes: Uint8Array): string[] => {
    const fields: string[] = [];
    new HpackDecoder({ maxTableBytes: 4096, maxListBytes: 1000 }).decode(bytes, 0, bytes.length, fields);
    return fields;
  };
  const expectedOf = (bytes: Uint8Array): string[] =>
    new NaiveHpackDecoder({ maxTableBytes: 4096 }).decode(bytes).flat();
  for (let value = 0; value < 0x1_0000; value++) {
    const bytes = Uint8Array.of(0x00, 0x00, 0x82, value >>> 8, value & 0xff);
    const actual = outcome(() => actualOf(bytes), HpackError);
    const expected = outcome(() => expectedOf(bytes), MalformedBlock);
    if (String(actual) !== String(expected)) expect(actual, bytes.toString()).toEqual(expected);
  }
});

it('gives fields the same bytes as long as nothing has changed', () => {
  const steps = fc.array(
    fc.oneof({ weight: 3, arbitrary: fc.constantFrom(0, 1, 2) }, tableBytes.map(String)),
  );
  fc.assert(
    fc.property(fc.array(block, { minLength: 3, maxLength: 3 }), steps, (blocks, items) => {
      const encoder = new HpackEncoder({ maxTableBytes: 4096 });
      const known: { bytes: string; changes: number }[] = [];
      for (const item of items) {
        if (typeof item === 'string') {
          encoder.setPeerTableBytes(Number(item));
          continue;
        }
        const { changes } = encoder;
        const bytes = encoded(encoder, blocks[item]!).toString('hex');
        const before = known[item];
        if (before?.changes === changes) expect(bytes).toBe(before.bytes);
        if (encoder.changes === changes) known[item] = { bytes, changes };
      }
    }),
  );
});
