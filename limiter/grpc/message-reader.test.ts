import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { LongestRequest } from '../../process/grpc/unary-handler.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { ByteBudget } from './byte-budget.ts';
import { MessageReader, withPrefix } from './message-reader.ts';

const budgetBytes = 1_000_000;

function reader(
  options: {
    maxMessageBytes?: number;
    longest?: LongestRequest;
    budget?: ByteBudget;
    onMessage?: () => void;
  } = {},
) {
  const messages: Buffer[] = [];
  const budget = options.budget ?? new ByteBudget(budgetBytes);
  const made = new MessageReader({
    maxMessageBytes: options.maxMessageBytes ?? 100_000,
    longest: options.longest,
    budget,
    onMessage: (message) => {
      messages.push(Buffer.from(message));
      options.onMessage?.();
    },
  });
  return { made, messages, budget };
}

/** The bytes in pieces that end at the given places, each in memory that is overwritten after its turn. */
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
        const { made, messages, budget } = reader();
        const bytes = Buffer.concat(sent.map(withPrefix));
        for (const piece of cut(bytes, places)) expect(made.push(piece)).toBe(undefined);
        expect(messages).toEqual(sent.map((item) => Buffer.from(item)));
        expect([made.isBetweenMessages, budget.leftBytes]).toEqual([true, budgetBytes]);
      }),
      { numRuns: caseCount(200) },
    );
  });

  it('refuses what is too long for its method as soon as its length is known', () => {
    const asked: number[] = [];
    const refusal = { code: 3 as const, message: 'too long' };
    const { made, messages, budget } = reader({
      longest: {
        maxBytes: 6000,
        refuse: (bytes) => {
          asked.push(bytes);
          return refusal;
        },
      },
    });
    expect(made.push(withPrefix(new Uint8Array(6000)))).toBe(undefined);
    expect(made.push(Uint8Array.of(0, 0, 0, 0x17))).toBe(undefined);
    expect(made.push(Uint8Array.of(0x71))).toEqual(refusal);
    expect([asked, messages.length, budget.leftBytes]).toEqual([[6001], 1, budgetBytes]);
  });

  it('refuses what does not begin as a message, however it is cut', () => {
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
            if (status !== undefined) got = [status.code, status.message];
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
      budget: new ByteBudget(0),
      onMessage: (message) => buffers.push(message.buffer),
    });
    made.push(bytes);
    expect(buffers).toEqual([bytes.buffer]);
  });

  it('takes room for what came, not for what was announced', () => {
    const { made, budget } = reader();
    const bytes = withPrefix(new Uint8Array(100_000));
    made.push(bytes.subarray(0, 105));
    expect(budget.leftBytes).toBe(budgetBytes);
    // Twice what is there, and the first 4096 are free.
    made.push(bytes.subarray(105, 5_005));
    expect(budget.leftBytes).toBe(budgetBytes - (10_000 - 4_096));
    made.release();
    expect(budget.leftBytes).toBe(budgetBytes);
  });

  it('has given back what a message took when it hands it over', () => {
    const left: number[] = [];
    const { made, budget, messages } = reader({ onMessage: () => left.push(budget.leftBytes) });
    const bytes = withPrefix(new Uint8Array(50_000));
    for (const piece of cut(bytes, [20_000, 40_000])) made.push(piece);
    expect(messages).toEqual([Buffer.alloc(50_000)]);
    expect(left).toEqual([budgetBytes]);
  });

  it('refuses a message for which there is no room left', () => {
    const { made, budget } = reader({ budget: new ByteBudget(5_000) });
    const bytes = withPrefix(new Uint8Array(20_000));
    expect(made.push(bytes.subarray(0, 4_505))).toBe(undefined);
    expect(made.push(bytes.subarray(4_505, 12_000))).toEqual({
      code: 8,
      message: 'too many bytes of unfinished requests',
    });
    made.release();
    expect(budget.leftBytes).toBe(5_000);
  });

  it('gives nothing more once it is released, not even of the piece under way', () => {
    const { made, messages } = reader({ onMessage: () => made.release() });
    const twice = Buffer.concat([withPrefix(Uint8Array.of(1)), withPrefix(Uint8Array.of(2))]);
    expect(made.push(twice)).toBe(undefined);
    expect(made.push(withPrefix(Uint8Array.of(3)))).toBe(undefined);
    expect(messages).toEqual([Buffer.of(1)]);
  });
});
