import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RateLimitRequestSchema } from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import type { RateLimitRequest } from './messages.ts';
import { defaultRequestLimits, type RequestLimits, RequestTooLarge } from './request-bounds.ts';
import { DecodeError, decodeRateLimitRequest, decodeWholeRequest } from './wire-codec.ts';

const entries = (count: number, more: { key: string; value: string }[] = []) => [
  ...Array.from({ length: count }, () => ({ key: 'k', value: 'v' })),
  ...more,
];
const descriptors = (count: number) => Array.from({ length: count }, () => ({ entries: entries(1) }));
const encoded = (init: MessageInitShape<typeof RateLimitRequestSchema>): Uint8Array =>
  toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, init));
const decoded = (bytes: Uint8Array, limits?: Partial<RequestLimits>) =>
  decodeRateLimitRequest(bytes, { ...defaultRequestLimits, ...limits });

function refusal(bytes: Uint8Array, limits?: Partial<RequestLimits>): string | undefined {
  try {
    decodeWholeRequest(bytes, { ...defaultRequestLimits, ...limits });
    return undefined;
  } catch (error) {
    if (!(error instanceof RequestTooLarge)) throw error;
    return `${error.setting}: ${error.message}`;
  }
}

describe('the limits of a request', () => {
  it.each([
    ['descriptors', encoded({ descriptors: descriptors(256) })],
    ['entries', encoded({ descriptors: [{}, { entries: entries(64) }] })],
    ['bytes', encoded({ descriptors: entries(16).map(() => ({ entries: [{ key: 'k'.repeat(16_365) }] })) })],
  ])('takes as many %s as allowed', (_, bytes) => {
    expect(refusal(bytes)).toBeUndefined();
    expect(decoded(bytes)).toEqual(decodeRateLimitRequest(bytes));
  });

  it.each([
    [
      'descriptors',
      encoded({ descriptors: descriptors(257) }),
      'REQUEST_MAX_DESCRIPTORS: a request may have 256 descriptors (REQUEST_MAX_DESCRIPTORS), this one has 257',
    ],
    [
      'entries',
      encoded({ descriptors: [{}, { entries: entries(65) }] }),
      'REQUEST_MAX_ENTRIES: a descriptor may have 64 entries (REQUEST_MAX_ENTRIES), descriptor 1 has 65',
    ],
    [
      'bytes',
      new Uint8Array(262_145),
      'REQUEST_MAX_BYTES: a request may have 262144 bytes (REQUEST_MAX_BYTES), this one has 262145',
    ],
  ])('says of more %s what came', (_, bytes, want) => {
    expect(refusal(bytes)).toBe(want);
  });

  it('reads as much as allowed of what has more, and says how much was left out', () => {
    const limited = { maxDescriptors: 2, maxEntries: 2 };
    const marker = { key: 'reservation_id', value: 'r' };
    const request = decoded(
      encoded({
        domain: 'd',
        descriptors: [{ entries: entries(1) }, { entries: entries(4, [marker]) }, {}, {}],
      }),
      limited,
    );
    expect(request.domain).toBe('d');
    expect(request.descriptors).toHaveLength(2);
    expect(request.leftOut).toEqual({
      descriptors: 2,
      crowded: new Map([[1, { entries: 5, unmarked: 4 }]]),
      maxEntries: 2,
    });
    // The next request contains nothing of it.
    expect(decoded(encoded({ descriptors: [{}] }), limited).leftOut).toBeUndefined();
  });

  it('reads long texts whole, and counts them', () => {
    const long = 'é'.repeat(10_000);
    const request = decoded(
      encoded({ domain: 'd', descriptors: [{ entries: [{ key: long, value: long }, ...entries(1)] }] }),
    );
    expect(request.descriptors[0]?.entries[0]).toEqual({ key: long, value: long });
    expect(request).toMatchObject({ longTexts: 2, domain: 'd' });
    expect(request.leftOut).toBeUndefined();
    expect(decoded(encoded({ domain: 'd'.repeat(16_385) })).longTexts).toBe(1);
    expect(decoded(encoded({ domain: 'd'.repeat(16_384) })).longTexts).toBeUndefined();
    // U+FFFD takes three bytes, and these count.
    const value = Buffer.concat([Buffer.from('129870', 'hex'), Buffer.alloc(14_360, 0xff)]);
    const entry = Buffer.concat([Buffer.from('0a9b70', 'hex'), value]);
    expect(decoded(Buffer.concat([Buffer.from('129e70', 'hex'), entry]))).toMatchObject({
      invalidUtf8Values: 1,
      longTexts: 1,
    });
  });

  describe('for any bytes', () => {
    const tight: RequestLimits = { maxDescriptors: 3, maxEntries: 2, maxTextBytes: 5, maxBytes: 400 };
    const text = fc.oneof(
      fc.constantFrom('k', 'settle', 'v'.repeat(40)),
      fc.string({ unit: 'binary', maxLength: 4 }),
    );
    const entry = fc.record({ key: text, value: text }, { requiredKeys: [] });
    const descriptor = fc.record(
      {
        entries: fc.array(entry, { maxLength: 4 }),
        limit: fc.record({ requestsPerUnit: fc.nat() }),
        hitsAddend: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      },
      { requiredKeys: [] },
    );
    const request = fc.record({ domain: text, descriptors: fc.array(descriptor, { maxLength: 5 }) });
    const damage = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 3 });
    const sent = fc.tuple(request, damage, fc.boolean()).map(([init, changes, twice]) => {
      const bytes = encoded(init);
      for (const [place, byte] of changes) if (bytes.length > 0) bytes[place % bytes.length] = byte;
      return {
        bytes: twice ? Buffer.concat([bytes, bytes]) : bytes,
        isPlain: changes.length === 0,
      };
    });

    it('reads what the decoder reads without bounds, cut to them, and counts the rest', () => {
      fc.assert(
        fc.property(sent, ({ bytes, isPlain }) => {
          fc.pre(bytes.length <= tight.maxBytes);
          const whole = read(() => decodeRateLimitRequest(bytes));
          const within = read(() => decodeRateLimitRequest(bytes, tight));
          if (whole === undefined || within === undefined) {
            if (isPlain) expect(within).toBe(whole);
            return;
          }
          const { descriptors: read3, leftOut } = within;
          expect(read3.length).toBeLessThanOrEqual(3);
          if (!isPlain) return;
          expect(within.domain).toBe(whole.domain);
          expect(read3.length + (leftOut?.descriptors ?? 0)).toBe(whole.descriptors.length);
          for (const [index, { entries: some }] of read3.entries()) {
            const all = whole.descriptors[index]!.entries;
            expect(all.slice(0, some.length)).toEqual(some);
            const crowded = leftOut?.crowded.get(index);
            expect(crowded?.entries ?? some.length).toBe(all.length);
            expect(crowded === undefined).toBe(all.length <= 2);
            if (crowded !== undefined)
              expect(crowded.unmarked).toBe(all.filter(({ key }) => key !== 'settle').length);
          }
        }),
        { numRuns: caseCount(2000) },
      );
    });
  });

  /** Returns undefined for damaged bytes. */
  function read(run: () => RateLimitRequest): RateLimitRequest | undefined {
    try {
      return run();
    } catch (error) {
      if (error instanceof DecodeError) return undefined;
      throw error;
    }
  }
});
