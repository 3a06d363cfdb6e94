import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RateLimitDescriptor } from '../../gen/envoy/extensions/common/ratelimit/v3/ratelimit_pb.ts';
import {
  RateLimitRequestSchema,
  type RateLimitResponse_RateLimit_Unit,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import type { RateLimitUnit } from '../../gen/envoy/type/v3/ratelimit_unit_pb.ts';
import type { JsonObject } from '../../rules/model.ts';
import { fromBinaryRepaired } from '../../test/support/grpc-message.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import type { Code, Descriptor, RateLimitRequest } from './messages.ts';
import type { RateLimitResponse } from './response-message.ts';
import {
  DecodeError,
  decodeRateLimitRequest,
  encodeRateLimitRequest,
  encodeRateLimitResponse,
} from './wire-codec.ts';

const uint32 = fc.oneof(fc.constantFrom(0, 1, 127, 128, 16_383, 16_384, 0xffff_ffff), fc.nat());
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.string({ unit: 'grapheme-ascii', maxLength: 80 }),
  fc.constantFrom(
    '',
    '\uFEFFdomain',
    'a'.repeat(36),
    'a'.repeat(37),
    'a'.repeat(48),
    'a'.repeat(49),
    'é'.repeat(40),
    '𝒳'.repeat(300),
    'lone \ud800 surrogate',
  ),
);
/** Numbers of 64 bits: length, low and high words all affect how they are read. */
const uint64 = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  fc.constantFrom(
    0n,
    1n,
    2n ** 31n,
    2n ** 32n - 1n,
    2n ** 32n,
    2n ** 53n - 1n,
    2n ** 53n,
    2n ** 63n - 1n,
    2n ** 63n,
    2n ** 64n - 1n,
  ),
);
const generatedRequest: fc.Arbitrary<MessageInitShape<typeof RateLimitRequestSchema>> = fc.record(
  {
    domain: text,
    descriptors: fc.array(
      fc.record(
        {
          entries: fc.array(fc.record({ key: text, value: text }), { maxLength: 4 }),
          limit: fc.record({
            requestsPerUnit: uint32,
            unit: fc.integer({ min: -2, max: 9 }).map((unit) => unit as RateLimitUnit),
            unitMultiplier: fc.option(uint32, { nil: undefined }),
          }),
          hitsAddend: uint64,
          isNegativeHits: fc.boolean(),
        },
        { requiredKeys: [] },
      ),
      { maxLength: 4 },
    ),
    hitsAddend: uint32,
  },
  { requiredKeys: [] },
);

/** Returns the request that the generated codec reads, in the types of this project. */
function generatedDecode(
  bytes: Uint8Array,
  decode: typeof fromBinary = fromBinary,
): RateLimitRequest | undefined {
  try {
    const { domain, descriptors, hitsAddend } = decode(RateLimitRequestSchema, bytes);
    return { domain, descriptors: descriptors.map(fromGenerated), hitsAddend };
  } catch {
    return undefined;
  }
}

function fromGenerated(descriptor: RateLimitDescriptor): Descriptor {
  const { limit, hitsAddend } = descriptor;
  return {
    entries: descriptor.entries.map(({ key, value }) => ({ key, value })),
    limit: limit && {
      requestsPerUnit: limit.requestsPerUnit,
      unit: limit.unit,
      ...(limit.unitMultiplier === undefined ? {} : { unitMultiplier: limit.unitMultiplier }),
    },
    hitsAddend: hitsAddend === undefined ? undefined : saturated(hitsAddend),
    isNegativeHits: descriptor.isNegativeHits,
  };
}

function saturated(value: bigint): number {
  if (value > 2n ** 63n - 1n) return Number.POSITIVE_INFINITY;
  return value > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(value);
}

function withoutKnown(request: RateLimitRequest): RateLimitRequest {
  return {
    ...request,
    descriptors: request.descriptors.map((descriptor) => ({ ...descriptor, known: undefined })),
  };
}

/** Decodes twice: known entries are found instead of read. */
function handDecode(bytes: Uint8Array): RateLimitRequest | undefined {
  try {
    const first = withoutKnown(decodeRateLimitRequest(bytes));
    const again = decodeRateLimitRequest(bytes);
    for (const { known, entries } of again.descriptors) {
      if (known !== undefined) expect(known.entries).toBe(entries);
    }
    expect(withoutKnown(again)).toEqual(first);
    return first;
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    return undefined;
  }
}

const encodedRequest = generatedRequest.map((init) =>
  toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, init)),
);

/** Records as they could stand in any message: known and unknown fields with right and wrong wire types, groups. */
const anyRecords: fc.Arbitrary<Uint8Array> = fc.letrec<{ records: Uint8Array; record: Uint8Array }>(
  (tie) => ({
    record: fc.oneof(
      { depthSize: 'small', maxDepth: 5 },
      fc.tuple(fieldTag(0), varintBytes()).map(joined),
      fc.tuple(fieldTag(5), fc.uint8Array({ minLength: 4, maxLength: 4 })).map(joined),
      fc.tuple(fieldTag(1), fc.uint8Array({ minLength: 8, maxLength: 8 })).map(joined),
      fc
        .tuple(
          fieldTag(2),
          text.map((value) => delimited(Buffer.from(value))),
        )
        .map(joined),
      fc.tuple(fieldTag(2), fc.uint8Array({ maxLength: 6 }).map(delimited)).map(joined),
      fc.tuple(fieldTag(2), tie('records').map(delimited)).map(joined),
      fc
        .tuple(fc.integer({ min: 1, max: 9 }), tie('records'), fc.integer({ min: 0, max: 20 }))
        .map(([field, inner, mismatch]) =>
          joined([varint((field << 3) | 3), inner, varint(((mismatch === 0 ? field + 1 : field) << 3) | 4)]),
        ),
    ),
    records: fc.array(tie('record'), { maxLength: 6 }).map(joined),
  }),
).records;

function fieldTag(wireType: number): fc.Arbitrary<Uint8Array> {
  return fc
    .oneof(
      { weight: 9, arbitrary: fc.integer({ min: 0, max: 6 }) },
      { weight: 1, arbitrary: fc.constantFrom(16, 2 ** 29 - 1) },
    )
    .map((field) => varint(field * 8 + wireType));
}

/** Varints of any length, also those that are longer than needed or allowed. */
function varintBytes(): fc.Arbitrary<Uint8Array> {
  return fc.oneof(
    uint64.map((value) => varint(value)),
    fc
      .tuple(fc.uint8Array({ maxLength: 11 }), fc.nat(127))
      .map(([head, last]) => Uint8Array.from([...head.map((byte) => byte | 0x80), last])),
  );
}

function varint(value: number | bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = BigInt(value);
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}

function delimited(bytes: Uint8Array): Uint8Array {
  return joined([varint(bytes.length), bytes]);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

const damagedRequest = fc
  .tuple(encodedRequest, fc.array(fc.tuple(fc.nat(), fc.nat(3), fc.nat(255)), { minLength: 1, maxLength: 4 }))
  .map(([bytes, damages]) => damages.reduce(damage, bytes));

function damage(bytes: Uint8Array, [where, how, byte]: [number, number, number]): Uint8Array {
  const at = bytes.length === 0 ? 0 : where % bytes.length;
  if (how === 0) return bytes.slice(0, at);
  if (how === 1) return joined([bytes.subarray(0, at), Uint8Array.of(byte), bytes.subarray(at)]);
  if (how === 2) return joined([bytes.subarray(0, at), bytes.subarray(at + 1)]);
  return bytes.map((old, index) => (index === at ? byte : old));
}

describe('decodeRateLimitRequest', () => {
  it('reads what the generated codec wrote', () => {
    fc.assert(
      fc.property(encodedRequest, (bytes) => {
        const decoded = handDecode(bytes);
        expect(decoded).toBeDefined();
        expect(decoded).toEqual(generatedDecode(bytes));
      }),
      { numRuns: caseCount(500) },
    );
  });

  it.each([
    ['damaged messages', damagedRequest],
    ['records of any kind', anyRecords],
    ['descriptors of any kind', anyRecords.map((bytes) => joined([varint(0x12), delimited(bytes)]))],
    [
      'messages of any kind inside descriptors',
      fc
        .tuple(fc.integer({ min: 1, max: 3 }), anyRecords, anyRecords)
        .map(([field, ...parts]) =>
          joined([
            varint(0x12),
            delimited(joined(parts.flatMap((part) => [varint(field * 8 + 2), delimited(part)]))),
          ]),
        ),
    ],
    ['any bytes', fc.uint8Array({ maxLength: 40 })],
  ] satisfies [string, fc.Arbitrary<Uint8Array>][])('agrees with the generated codec on %s', (_, bytes) => {
    let accepted = 0;
    fc.assert(
      fc.property(bytes, (input) => {
        const decoded = handDecode(input);
        if (decoded !== undefined) accepted++;
        // Bad bytes of a value are replaced. Those of a key or a domain are rejected.
        const isRepaired = decoded?.invalidUtf8Values !== undefined;
        const { invalidUtf8Values: _, ...plain } = decoded ?? {};
        const expected = generatedDecode(input, isRepaired ? fromBinaryRepaired : fromBinary);
        if (isRepaired) expect(generatedDecode(input)).toBeUndefined();
        expect(decoded && plain).toEqual(expected);
      }),
      { numRuns: caseCount(1500) },
    );
    expect(accepted).toBeGreaterThan(0);
    expect(accepted).toBeLessThan(caseCount(1500));
  });

  it('agrees with the generated codec about groups nested around the bound', () => {
    for (const depth of [95, 96, 97, 98, 99, 100, 101]) {
      const groups = Uint8Array.from([...new Array(depth).fill(0x4b), ...new Array(depth).fill(0x4c)]);
      for (const bytes of [
        groups,
        joined([varint(0x12), delimited(groups)]),
        joined([varint(0x12), delimited(joined([varint(0x0a), delimited(groups)]))]),
      ]) {
        expect(handDecode(bytes), `depth ${depth}`).toEqual(generatedDecode(bytes));
      }
    }
  });

  it('merges a limit that comes twice, and keeps the last of other fields', () => {
    const limits = joined([
      varint(0x12),
      delimited(Uint8Array.of(8, 5)),
      varint(0x12),
      delimited(Uint8Array.of(16, 4)),
    ]);
    const bytes = joined([
      varint(0x0a),
      delimited(Buffer.from('a')),
      varint(0x12),
      delimited(limits),
      varint(0x0a),
      delimited(Buffer.from('b')),
    ]);
    const decoded = decodeRateLimitRequest(bytes);
    expect(decoded.domain).toBe('b');
    expect(decoded.descriptors[0]?.limit).toEqual({ requestsPerUnit: 5, unit: 4 });
  });

  it.each([
    ['0a05616263', 'the message ends early, at byte 5'],
    ['0a02c328', 'the string at byte 2 is not UTF-8'],
    ['00', 'the tag at byte 0 has field number 0 and wire type 0'],
    ['0f', 'the tag at byte 0 has field number 1 and wire type 7'],
    ['ffffffff1f', 'the tag at byte 0 does not fit in 32 bits'],
    ['4c', 'the group 9 ends before byte 1 but never began'],
    ['4b54', 'the group 9 is ended as 10 before byte 2'],
    ['18ffffffffffffffffffff01', 'the varint at byte 1 is longer than 10 bytes'],
    ['4b'.repeat(200), 'groups are nested deeper than 100'],
  ])('says of %s that %s', (hex, message) => {
    expect(() => decodeRateLimitRequest(Buffer.from(hex, 'hex'))).toThrow(new DecodeError(message));
  });

  it.each([
    ['a value', '1206' + '0a04' + '1202' + 'c328', '\ufffd('],
    ['a long value', `1230${'0a2e'}${'122c'}${'61'.repeat(42)}ff62`, `${'a'.repeat(42)}\ufffdb`],
    ['a half character', '1206' + '0a04' + '1202' + 'e6bc', '\ufffd'],
  ])('replaces the bad bytes of %s', (_, hex, want) => {
    const decoded = decodeRateLimitRequest(Buffer.from(hex, 'hex'));
    expect(decoded.descriptors[0]?.entries).toEqual([{ key: '', value: want }]);
    expect([decoded.invalidUtf8Values, decoded.descriptors[0]?.known]).toEqual([1, undefined]);
  });

  it('rejects bad bytes in a key', () => {
    expect(() => decodeRateLimitRequest(Buffer.from('12060a040a02c328', 'hex'))).toThrow(
      new DecodeError('the string at byte 6 is not UTF-8'),
    );
  });

  it('knows the entries of a descriptor again, whatever comes behind them', () => {
    const entry = [0x0a, 0x06, 0x0a, 0x01, 0x6b, 0x12, 0x01, 0x76];
    const decode = (...rest: number[]) =>
      decodeRateLimitRequest(Uint8Array.from([0x12, entry.length + rest.length, ...entry, ...rest]))
        .descriptors[0];
    const plain = decode();
    const negative = decode(0x20, 0x01);
    const longer = decode(0x20, 0x01, ...entry);
    expect(plain?.known).toBeDefined();
    expect([negative?.known, negative?.entries, negative?.isNegativeHits]).toEqual([
      plain?.known,
      [{ key: 'k', value: 'v' }],
      true,
    ]);
    expect([longer?.known, longer?.entries.length, plain?.entries.length]).toEqual([undefined, 2, 1]);
  });

  it('does not keep entries with the id of a reservation, which do not come again', () => {
    const entries = [{ key: 'reservation_id', value: 'a-1' }];
    const decoded = decodeRateLimitRequest(encodeRateLimitRequest('d', [entries], 1));
    expect(decoded.descriptors[0]).toMatchObject({ entries, known: undefined });
  });

  it('keeps nothing of the bytes it was given', () => {
    const bytes = Buffer.from('0a03616263', 'hex');
    const decoded = decodeRateLimitRequest(bytes);
    bytes.fill(0x7a);
    expect(decoded.domain).toBe('abc');
    const descriptor = Buffer.from('12080a060a016b120176', 'hex');
    decodeRateLimitRequest(descriptor);
    descriptor[6] = 0x6c;
    expect(decodeRateLimitRequest(descriptor).descriptors[0]?.entries).toEqual([{ key: 'l', value: 'v' }]);
  });
});

const json = fc.letrec<{ object: JsonObject; value: JsonObject[string] }>((tie) => ({
  object: fc.dictionary(text, tie('value'), { maxKeys: 4 }),
  value: fc.oneof(
    { depthSize: 'small', maxDepth: 4 },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true }),
    text,
    fc.array(tie('value'), { maxLength: 3 }),
    tie('object'),
  ),
})).object;
const headers = fc.array(fc.record({ key: text, value: text }), { maxLength: 4 });
const response: fc.Arbitrary<RateLimitResponse> = fc.record({
  overallCode: fc.constantFrom<Code>(0, 1, 2),
  statuses: fc.array(
    fc.record({
      code: fc.constantFrom<Code>(0, 1, 2),
      currentLimit: fc.option(fc.record({ name: text, requestsPerUnit: uint32, unit: fc.nat(7) }), {
        nil: undefined,
      }),
      limitRemaining: uint32,
      durationUntilResetSeconds: fc.option(fc.nat(366 * 86_400), { nil: undefined }),
    }),
    { maxLength: 6 },
  ),
  responseHeadersToAdd: headers,
  requestHeadersToAdd: headers,
  dynamicMetadata: fc.option(json, { nil: undefined }),
});

function generatedEncode(message: RateLimitResponse): Uint8Array {
  const statuses = message.statuses.map(
    ({ durationUntilResetSeconds: seconds, currentLimit, ...status }) => ({
      ...status,
      ...(currentLimit && {
        currentLimit: { ...currentLimit, unit: currentLimit.unit as RateLimitResponse_RateLimit_Unit },
      }),
      ...(seconds !== undefined && { durationUntilReset: { seconds: BigInt(seconds) } }),
    }),
  );
  const { dynamicMetadata, ...rest } = message;
  const init = { ...rest, statuses, ...(dynamicMetadata && { dynamicMetadata }) };
  return toBinary(RateLimitResponseSchema, create(RateLimitResponseSchema, init));
}

describe('encodeRateLimitResponse', () => {
  it('writes the bytes of the generated codec', () => {
    fc.assert(
      fc.property(response, (message) => {
        expect(Buffer.from(encodeRateLimitResponse(message))).toEqual(Buffer.from(generatedEncode(message)));
      }),
      { numRuns: caseCount(1000) },
    );
  });

  it('leaves earlier messages alone, however large later ones are', () => {
    const named = (name: string): RateLimitResponse => ({
      overallCode: 1,
      statuses: [
        {
          code: 1,
          currentLimit: { name, requestsPerUnit: 1, unit: 1 },
          limitRemaining: 1,
          durationUntilResetSeconds: 1,
        },
      ],
      responseHeadersToAdd: [],
      requestHeadersToAdd: [],
      dynamicMetadata: undefined,
    });
    const messages = [1, 9_000, 40, 9_000, 9_000, 9_000, 100_000, 7].map((length) =>
      named('n'.repeat(length)),
    );
    const encoded = messages.map(encodeRateLimitResponse);
    for (const [index, bytes] of encoded.entries()) {
      expect(Buffer.from(bytes).equals(generatedEncode(messages[index]!)), `message ${index}`).toBe(true);
    }
  });
});

describe('encodeRateLimitRequest', () => {
  const hitsOfAny = fc.oneof(uint32, fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }));

  it('writes what the generated codec writes', () => {
    const entries = fc.array(fc.record({ key: text, value: text }), { maxLength: 4 });
    fc.assert(
      fc.property(text, fc.array(entries, { maxLength: 4 }), hitsOfAny, (domain, descriptors, hits) => {
        const isOfRequest = hits > 0 && hits <= 0xffff_ffff;
        const wanted = create(RateLimitRequestSchema, {
          domain,
          descriptors: descriptors.map((one) => ({
            entries: one,
            ...(!isOfRequest && { hitsAddend: BigInt(hits) }),
          })),
          hitsAddend: isOfRequest ? hits : 0,
        });
        const written = encodeRateLimitRequest(domain, descriptors, hits);
        expect(Buffer.from(written).toString('hex')).toBe(
          Buffer.from(toBinary(RateLimitRequestSchema, wanted)).toString('hex'),
        );
      }),
      { numRuns: caseCount(150) },
    );
  });
});
