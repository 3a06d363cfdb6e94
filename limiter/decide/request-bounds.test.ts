import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RateLimitRequestSchema } from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { RequestBounds, type RequestLimits, RequestTooLarge, usualRequestLimits } from './request-bounds.ts';
import { DecodeError, decodeRateLimitRequest } from './wire-codec.ts';

const entries = (count: number) => Array.from({ length: count }, () => ({ key: 'k', value: 'v' }));
const descriptors = (count: number) => Array.from({ length: count }, () => ({ entries: entries(1) }));
const encoded = (init: MessageInitShape<typeof RateLimitRequestSchema>): Uint8Array =>
  toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, init));

function refusal(bytes: Uint8Array, limits: Partial<RequestLimits> = {}): string | undefined {
  try {
    new RequestBounds({ ...usualRequestLimits, ...limits }).check(bytes);
    return undefined;
  } catch (error) {
    if (error instanceof RequestTooLarge) return `${error.setting}: ${error.message}`;
    if (error instanceof DecodeError) return 'damaged';
    throw error;
  }
}

describe('RequestBounds', () => {
  it.each([
    ['descriptors', encoded({ descriptors: descriptors(256) })],
    ['entries', encoded({ descriptors: [{}, { entries: entries(64) }] })],
    ['a domain', encoded({ domain: 'd'.repeat(16_384) })],
    ['a value', encoded({ descriptors: [{ entries: [{ value: 'é'.repeat(8_192) }] }] })],
    ['bytes', encoded({ descriptors: entries(16).map(() => ({ entries: [{ key: 'k'.repeat(16_365) }] })) })],
  ])('takes as many %s as allowed', (_, bytes) => {
    expect(refusal(bytes)).toBeUndefined();
  });

  it.each([
    [
      'descriptors',
      encoded({ descriptors: descriptors(257) }),
      'REQUEST_MAX_DESCRIPTORS: a request may have 256 descriptors (REQUEST_MAX_DESCRIPTORS), this one has 257 or more',
    ],
    [
      'entries',
      encoded({ descriptors: [{}, { entries: entries(65) }] }),
      'REQUEST_MAX_ENTRIES: a descriptor may have 64 entries (REQUEST_MAX_ENTRIES), descriptor 1 has 65 or more',
    ],
    [
      'bytes of a domain',
      encoded({ domain: 'd'.repeat(16_385) }),
      'REQUEST_MAX_TEXT_BYTES: a domain, key or value may have 16384 bytes (REQUEST_MAX_TEXT_BYTES), one of this request has 16385',
    ],
    [
      'bytes of a key',
      encoded({ descriptors: [{ entries: [{ key: 'k'.repeat(20_000) }] }] }),
      'REQUEST_MAX_TEXT_BYTES: a domain, key or value may have 16384 bytes (REQUEST_MAX_TEXT_BYTES), one of this request has 20000',
    ],
    [
      'bytes of a value',
      encoded({ descriptors: [{ entries: [{ value: 'é'.repeat(8_193) }] }] }),
      'REQUEST_MAX_TEXT_BYTES: a domain, key or value may have 16384 bytes (REQUEST_MAX_TEXT_BYTES), one of this request has 16386',
    ],
    [
      'bytes',
      new Uint8Array(262_145),
      'REQUEST_MAX_BYTES: a request may have 262144 bytes (REQUEST_MAX_BYTES), this one has 262145',
    ],
  ])('refuses more %s, and says what came', (_, bytes, want) => {
    expect(refusal(bytes)).toBe(want);
  });

  it('ends at the first that is too many, whatever comes behind', () => {
    const empty = Buffer.from('1200'.repeat(257), 'hex');
    expect(refusal(Buffer.concat([empty, Buffer.alloc(1000, 0xff)]))).toMatch(/^REQUEST_MAX_DESCRIPTORS/);
  });

  const tight: RequestLimits = { maxDescriptors: 3, maxEntries: 2, maxTextBytes: 5, maxBytes: 200 };

  describe('for any bytes', () => {
    const text = fc.oneof(fc.constant('k'), fc.string({ unit: 'binary', maxLength: 4 }));
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
      // A string that is overwritten by a later one, or has bad bytes, is bounded as well.
      return {
        bytes: twice ? Buffer.concat([bytes, bytes]) : bytes,
        isPlain: !twice && changes.length === 0,
      };
    });

    it('allows what the decoder then finds within the bounds, and refuses all else', () => {
      fc.assert(
        fc.property(sent, ({ bytes, isPlain }) => {
          const decoded = outcome(bytes);
          const refused = refusal(bytes, tight);
          if (decoded === 'within') expect(refused === undefined || !isPlain).toBe(true);
          else if (decoded === 'beyond') expect(refused).toMatch(/^REQUEST_MAX_/);
        }),
        { numRuns: caseCount(2000) },
      );
    });

    it('says of short requests, which are read first, what it says of long ones', () => {
      fc.assert(
        fc.property(sent, ({ bytes }) => {
          const bounds = new RequestBounds({ ...tight, maxTextBytes: 150 });
          const passedFirst = told(() => {
            bounds.check(bytes);
            return decodeRateLimitRequest(bytes);
          });
          expect(told(() => bounds.decode(bytes))).toEqual(passedFirst);
        }),
        { numRuns: caseCount(2000) },
      );
    });
  });

  /** What comes of it, or the words of the refusal: which words damaged bytes get is not settled. */
  function told(run: () => unknown): unknown {
    try {
      return JSON.stringify(run(), (name, value: unknown) => (name === 'known' ? undefined : value));
    } catch (error) {
      if (error instanceof RequestTooLarge) return error.message;
      if (error instanceof DecodeError) return 'damaged';
      throw error;
    }
  }

  function outcome(bytes: Uint8Array): 'within' | 'beyond' | 'damaged' {
    try {
      const { domain, descriptors } = decodeRateLimitRequest(bytes);
      const texts = descriptors.flatMap((one) => one.entries.flatMap(({ key, value }) => [key, value]));
      const beyond =
        bytes.length > tight.maxBytes ||
        descriptors.length > tight.maxDescriptors ||
        descriptors.some((one) => one.entries.length > tight.maxEntries) ||
        // Values that were mended are longer than what came.
        [domain, ...texts].some(
          (part) => !part.includes('\ufffd') && Buffer.byteLength(part) > tight.maxTextBytes,
        );
      return beyond ? 'beyond' : 'within';
    } catch (error) {
      if (!(error instanceof DecodeError)) throw error;
      return 'damaged';
    }
  }
});
