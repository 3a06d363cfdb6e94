import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { LongestRequest } from '../../process/grpc/handlers.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { bufferedBytes, MessageReader, withPrefix } from './message-reader.ts';

function reader(
  options: { maxMessageBytes?: number; longest?: LongestRequest; onMessage?: () => void } = {},
) {
  const messages: Buffer[] = [];
  const held = { bytes: 0 };
  const made = new MessageReader({
    maxMessageBytes: options.maxMessageBytes ?? 100_000,
    longest: options.longest,
    hold: (bytes) => {
      held.bytes += bytes;
    },
    onMessage: (message) => {
      messages.push(Buffer.from(message));
      options.onMessage?.();
    },
  });
  return { made, messages, held };
}

/** Cuts the bytes at the given places. The memory of each piece is overwritten after its turn. */
function* cut(bytes: Uint8Array, places: readonly number[]): Generator<Uint8Array> {
  const ends = [...new Set([...places.map((place) => place % (bytes.length + 1)), bytes.length])];
  let start = 0;
  for (const end of ends.sort((a, b) => a - b)) {
    const piece = Uint8Array.from(bytes.subarray(start, end));
    start = end;
    yield piece;
    piece.fill(0xee);
  }
}

describe('MessageReader', () => {
  it('gives the same messages however the bytes are cut', () => {
    const message = fc.oneof(
      fc.uint8Array({ maxLength: 20 }),
      fc.uint8Array({ minLength: 4_000, maxLength: 20_000 }),
    );
    fc.assert(
      fc.property(fc.array(message, { maxLength: 5 }), fc.array(fc.nat()), (sent, places) => {
        const { made, messages, held } = reader();
        const bytes = Buffer.concat(sent.map(withPrefix));
        for (const piece of cut(bytes, places)) expect(made.push(piece)).toBe(undefined);
        expect(messages).toEqual(sent.map((item) => Buffer.from(item)));
        expect([made.isBetweenMessages, held.bytes]).toEqual([true, 0]);
      }),
      { numRuns: caseCount(200) },
    );
  });

  it('rejects what is too long for its method as soon as its length is known', () => {
    const asked: number[] = [];
    const refusal = { code: 3 as const, message: 'too long' };
    const { made, messages, held } = reader({
      longest: {
        maxBytes: 6000,
        reject: (bytes) => {
          asked.push(bytes);
          return refusal;
        },
      },
    });
    expect(made.push(withPrefix(new Uint8Array(6000)))).toBe(undefined);
    expect(made.push(Uint8Array.of(0, 0, 0, 0x17))).toBe(undefined);
    expect(made.push(Uint8Array.of(0x71))).toEqual(refusal);
    expect([asked, messages.length, held.bytes]).toEqual([[6001], 1, 0]);
  });

  it('rejects what does not begin as a message, however it is cut', () => {
    const want = [
      { bytes: [0, 0, 1, 0x86, 0xa1], refusal: [8, 'received message larger than max (100001 vs. 100000)'] },
      {
        bytes: [0, 0xff, 0xff, 0xff, 0xff],
        refusal: [8, 'received message larger than max (4294967295 vs. 100000)'],
      },
      { bytes: [1, 0, 0, 0, 0], refusal: [13, 'compressed flag set with identity or empty encoding'] },
      { bytes: [2, 0, 0, 0, 3], refusal: [13, 'received unexpected payload format 2'] },
    ];
    for (const { bytes, refusal } of want) {
      fc.assert(
        fc.property(fc.array(fc.nat()), (places) => {
          const { made, messages } = reader();
          let got: unknown;
          const all = Buffer.concat([withPrefix(Uint8Array.of(7)), Uint8Array.from(bytes)]);
          for (const piece of cut(all, places)) {
            const status = made.push(piece);
            if (status !== undefined)
              got = status instanceof Uint8Array ? status : [status.code, status.message];
          }
          expect(got).toEqual(refusal);
          expect(messages).toEqual([Buffer.of(7)]);
        }),
      );
    }
  });

  it('gives a message that lies in one piece without a copy', () => {
    const bytes = withPrefix(Uint8Array.of(1, 2, 3));
    const buffers: unknown[] = [];
    const made = new MessageReader({
      maxMessageBytes: 10,
      hold: () => expect.fail('it holds nothing'),
      onMessage: (message) => buffers.push(message.buffer),
    });
    made.push(bytes);
    expect(buffers).toEqual([bytes.buffer]);
  });

  it('takes room for what came, not for what was announced', () => {
    const { made, held } = reader();
    const bytes = withPrefix(new Uint8Array(100_000));
    const besideBytes = bufferedBytes(new Uint8Array(0));
    made.push(bytes.subarray(0, 6));
    expect(held.bytes).toBe(besideBytes + 64);
    made.push(bytes.subarray(6, 105));
    expect(held.bytes).toBe(besideBytes + 200);
    made.push(bytes.subarray(105, 205));
    expect(held.bytes).toBe(besideBytes + 200);
    made.push(bytes.subarray(205, 80_000));
    expect(held.bytes).toBe(besideBytes + 100_000);
    made.release();
    expect(held.bytes).toBe(0);
  });

  it('has given back what a message took when it hands it over', () => {
    const seen: number[] = [];
    const { made, held, messages } = reader({ onMessage: () => seen.push(held.bytes) });
    const bytes = withPrefix(new Uint8Array(50_000));
    for (const piece of cut(bytes, [20_000, 40_000])) made.push(piece);
    expect(messages).toEqual([Buffer.alloc(50_000)]);
    expect(seen).toEqual([0]);
  });

  it('gives nothing more once it is released, not even of the piece under way', () => {
    const { made, messages } = reader({ onMessage: () => made.release() });
    const twice = Buffer.concat([withPrefix(Uint8Array.of(1)), withPrefix(Uint8Array.of(2))]);
    expect(made.push(twice)).toBe(undefined);
    expect(made.push(withPrefix(Uint8Array.of(3)))).toBe(undefined);
    expect(messages).toEqual([Buffer.of(1)]);
  });
});
