import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  RateLimitConfigSchema,
  type RateLimitDescriptorSchema,
} from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { anyFlags } from '../../test/support/rule-arbitraries.ts';
import { limit, rule, source, validateSources } from '../../test/support/rule-builder.ts';
import { Algorithm } from '../algorithms/registry.ts';
import {
  type Calendar,
  hitsUnits,
  type JsonObject,
  type JsonValue,
  type Limit,
  maxRequests,
  type Rule,
  Unit,
  unitFromText,
  unitText,
} from '../model.ts';
import type { FieldProblem } from '../rule-error.ts';
import { decodeResource, encodeResource, rateLimitConfigTypeUrl } from './resource.ts';

const text = fc.oneof(
  fc.constantFrom('', 'k', '__proto__', 'constructor', '*', '\ufeff', '\0', '\ud83d\ude00', 'é'.repeat(100)),
  fc.string({ unit: 'grapheme' }),
);
const { metadata } = fc.letrec<{ value: JsonValue; metadata: JsonObject }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.oneof(
      text,
      fc.boolean(),
      fc.constant(null),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.constantFrom(1, 0),
    ),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('metadata'),
  ),
  metadata: fc
    .array(fc.tuple(fc.oneof(text, fc.constantFrom('1', '10', '2')), tie('value')), { maxLength: 4 })
    .map((entries) => Object.fromEntries(entries)),
}));

const limited = fc
  .record({
    unit: fc.constantFrom('SECOND', 'MINUTE', 'HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR'),
    requestsPerUnit: fc.oneof(fc.constantFrom(0, 2 ** 32 - 1, 2 ** 32, maxRequests), fc.nat()),
    hitsUnit: fc.constantFrom(...hitsUnits),
    warnAt: fc.subarray([1, 50, 100]),
    unitMultiplier: fc.constantFrom(1, 2, 65_535),
    algorithm: fc.constantFrom<Algorithm>(...Object.values(Algorithm)),
    burst: fc.constantFrom(undefined, 0, 2 ** 32 - 1, maxRequests),
    unlimited: fc.constant(false),
    name: text,
    replaces: fc.array(text, { maxLength: 3 }),
  })
  .map(limit);
const calendar: fc.Arbitrary<Calendar> = fc.oneof(
  fc.record({
    unit: fc.constant('month' as const),
    timezone: fc.constantFrom('UTC', 'Europe/Zurich'),
    startsOn: fc.integer({ min: 1, max: 31 }),
  }),
  fc.record({
    unit: fc.constantFrom('day' as const, 'week' as const, 'year' as const),
    timezone: fc.constant('Asia/Kathmandu'),
    startsOn: fc.constant(1),
  }),
);
const rateLimit: fc.Arbitrary<Limit> = fc.oneof(
  limited,
  fc.tuple(limited, calendar).map(([one, own]) => ({ ...one, calendar: own, unit: unitFromText(own.unit)! })),
  limited.map((one) => ({ ...one, unit: Unit.UNKNOWN, unlimited: true })),
);

const { rules } = fc.letrec<{ rules: Rule[] }>((tie) => ({
  rules: fc.array(
    fc.record({
      key: text,
      value: text,
      limits: fc.oneof(
        fc.array(rateLimit, { maxLength: 1 }),
        fc.array(rateLimit, { minLength: 2, maxLength: 8 }),
      ),
      ...anyFlags,
      lease: fc.constantFrom(undefined, 0, 1, 20_000, 1_000_000),
      reserve: fc.option(
        fc.record({
          ttlSeconds: fc.constantFrom(1, 70_001, 86_400),
          estimate: fc.constantFrom(undefined, 0, 2 ** 32, maxRequests),
          onExpiry: fc.constantFrom('release' as const, 'charge' as const),
        }),
        { nil: undefined },
      ),
      assign: fc.constantFrom(undefined, 'exact', 'refilling'),
      metadata: fc.option(metadata, { nil: undefined }),
      descriptors: fc.oneof({ maxDepth: 3 }, fc.constant<Rule[]>([]), tie('rules')),
    }),
    { maxLength: 3 },
  ),
}));
const zurich: Calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 };
const sources = fc.record({ name: text, domain: text, descriptors: rules });

/** The same object with its keys put in the other order. */
function reversed(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(reversed);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, reversed(member)]),
  );
}

function withReversedMetadata(one: Rule): Rule {
  const { metadata: object, descriptors } = one;
  return {
    ...one,
    metadata: object && (reversed(object) as JsonObject),
    descriptors: descriptors.map(withReversedMetadata),
  };
}

describe('a resource', () => {
  it('brings every source back as it was', () => {
    fc.assert(
      fc.property(sources, (one) => {
        expect(decodeResource(encodeResource(one))).toEqual(one);
      }),
    );
  });

  it('has the same bytes whatever the order of keys in metadata', () => {
    fc.assert(
      fc.property(sources, (one) => {
        const other = { ...one, descriptors: one.descriptors.map(withReversedMetadata) };
        expect(encodeResource(other)).toEqual(encodeResource(one));
      }),
    );
  });

  it('has the bytes of the public definition, and its own fields from 1000 up', () => {
    const one = source('d', [
      rule({
        key: 'k',
        value: 'v*',
        rateLimit: limit({ unit: 'Week', requestsPerUnit: 5, name: 'n', replaces: ['o'] }),
        shadowMode: true,
        detailedMetric: true,
        quotaMode: true,
        metadata: { b: 1, a: [null] },
        valueToMetric: true,
        shareThreshold: true,
        descriptors: [rule({ key: 'c' })],
      }),
    ]);
    const hex = [
      '0a06 642e79616d6c 1201 64 1a45', // name, domain, descriptors
      '0a01 6b 1202 762a', // key, value
      '1a0c 0807 1005 2201 6e 2a03 0a01 6f', // rate_limit: unit, requests_per_unit, name, replaces
      '2203 0a01 63 2801 3001 3801', // descriptors, shadow_mode, detailed_metric, quota_mode
      '421d 0a0b 0a01 61 1206 3204 0a02 0800', // metadata: a, a list of a null
      '0a0e 0a01 62 1209 11 000000000000f03f', // b, a number
      'c03e 01 c83e 01', // value_to_metric, share_threshold
    ];
    const window = { unitMultiplier: 300, algorithm: Algorithm.TOKEN_BUCKET, burst: 0 };
    const own = encodeResource(source('d', [rule({ key: 'k', rateLimit: limit(window) })], ''));
    expect(Buffer.from(own).subarray(-14).toString('hex')).toBe('0802100ac03eac02c83e02d03e00'.slice(-28));
    const leased = encodeResource(source('d', [rule({ key: 'k', lease: 20_000 })], ''));
    expect(Buffer.from(leased).subarray(-5).toString('hex')).toBe('da3e023225');
    expect(rateLimitConfigTypeUrl).toBe(`type.googleapis.com/${RateLimitConfigSchema.typeName}`);
    expect(Buffer.from(encodeResource(one)).toString('hex')).toBe(hex.join('').replaceAll(' ', ''));
  });

  const units: [written: string, unlimited: boolean, read: string][] = [
    ['minute', false, 'MINUTE'],
    ['DAY', false, 'DAY'],
    ['fortnight', false, 'UNKNOWN'],
    ['', true, ''],
    ['fortnight', true, ''],
  ];
  it.each(units)('has unit "%s" with unlimited %s for "%s"', (unit, unlimited, read) => {
    const one = source('d', [rule({ key: 'k', rateLimit: limit({ unit, unlimited }) })]);
    expect(decodeResource(encodeResource(one)).descriptors[0]!.limits.map(unitText)).toEqual([read]);
  });

  it('has an unknown unit by its number, which the validator rejects in the Go service’s words', () => {
    const message = fromBinary(
      RateLimitConfigSchema,
      encodeResource(source('d', [rule({ key: 'k', rateLimit: limit() })], 'r')),
    );
    const policy = message.descriptors[0]?.rateLimit;
    if (policy !== undefined) policy.unit = 9 as never;
    const one = decodeResource(toBinary(RateLimitConfigSchema, message));
    expect(validateSources([one], { mergeDomains: false }).map(({ text: words }) => words)).toEqual([
      "invalid rate limit unit '9'",
    ]);
  });

  it.each([
    [1, false, 'rate_limits must have 2 to 8 limits, found 1'],
    [9, false, 'rate_limits must have 2 to 8 limits, found 9'],
    [2, true, 'a rule has either rate_limit or rate_limits, found both'],
  ])('is reported to be wrong with %i limits in a list, beside another: %s', (count, beside, text) => {
    const limits = Array.from({ length: Math.max(2, count) }, () => limit());
    const message = fromBinary(
      RateLimitConfigSchema,
      encodeResource(source('d', [rule({ key: 'a', descriptors: [rule({ key: 'k', limits })] })])),
    );
    const descriptor = message.descriptors[0]!.descriptors[0]!;
    descriptor.rateLimits.length = count;
    if (beside) descriptor.rateLimit = descriptor.rateLimits[0]!;
    const bytes = toBinary(RateLimitConfigSchema, message);
    const problems: FieldProblem[] = [];
    const read = decodeResource(bytes, (problem) => problems.push(problem));
    const path = ['descriptors', 0, 'descriptors', 0, 'rate_limits'];
    expect(problems).toEqual([{ code: 'invalid-limits', text, path }]);
    expect(read.descriptors[0]?.descriptors[0]?.limits).toEqual([]);
    expect(() => decodeResource(bytes)).toThrow(`descriptors[0].descriptors[0].rate_limits: ${text}`);
  });

  it('is read without a lease that is no share, which is reported', () => {
    const message = create(RateLimitConfigSchema, { descriptors: [{ key: 'k', lease: '2' }] });
    const problems: FieldProblem[] = [];
    const read = decodeResource(toBinary(RateLimitConfigSchema, message), (one) => problems.push(one));
    const text = "lease must be a share of the limit such as 2% or 0.5%, of 100% at most, or 0, found '2'";
    expect(problems).toEqual([{ code: 'invalid-lease', text, path: ['descriptors', 0, 'lease'] }]);
    expect(read.descriptors[0]?.lease).toBeUndefined();
  });

  it('says the most of 32 bits if others could not read a number, and the unit of a calendar', () => {
    const own = limit({ unit: 'month', requestsPerUnit: 2 ** 40, calendar: zurich, warnAt: [50] });
    const one = source('d', [rule({ key: 'k', rateLimit: own })]);
    const message = fromBinary(RateLimitConfigSchema, encodeResource(one));
    expect(message.descriptors[0]?.rateLimit).toMatchObject({
      unit: Unit.MONTH,
      requestsPerUnit: 2 ** 32 - 1,
      largeRequestsPerUnit: 2n ** 40n,
    });
  });

  it.each<[MessageInitShape<typeof RateLimitDescriptorSchema>, Omit<FieldProblem, 'path'> & { at: string }]>([
    [
      { rateLimit: { unit: 5, largeRequestsPerUnit: 2n ** 53n } },
      {
        code: 'wrong-type',
        text: 'requests_per_unit can be at most 9007199254740991 (2^53 - 1), found 9007199254740992',
        at: 'rate_limit.requests_per_unit',
      },
    ],
    [
      { rateLimit: { unit: 4, calendar: { unit: 5, timezone: 'UTC', startsOn: 1 } } },
      {
        code: 'invalid-calendar',
        text: 'the unit of a calendar must be that of its limit',
        at: 'rate_limit.calendar.unit',
      },
    ],
    [
      { rateLimit: { unit: 5, calendar: { unit: 5, timezone: 'Mars/Base', startsOn: 1 } } },
      {
        code: 'invalid-calendar',
        text: "timezone must be a name of the IANA database, such as Europe/Zurich, found 'Mars/Base'",
        at: 'rate_limit.calendar.timezone',
      },
    ],
    [
      { rateLimit: { unit: 4, hitsUnit: 9 as never } },
      {
        code: 'invalid-hits-unit',
        text: "hits_unit must be requests, tokens, micro-dollars or bytes, found '9'",
        at: 'rate_limit.hits_unit',
      },
    ],
    [
      { rateLimit: { unlimited: true, algorithm: 7 as never } },
      {
        code: 'invalid-algorithm',
        text: "unknown algorithm '7': there are fixed_window, sliding_window and token_bucket",
        at: 'rate_limit.algorithm',
      },
    ],
    [
      { reserve: { ttlSeconds: 86_401 } },
      {
        code: 'invalid-reserve',
        text: "the ttl '86401s' is 86401 seconds, and a reservation lasts at most 86400 (24h)",
        at: 'reserve.ttl',
      },
    ],
    [
      { reserve: { ttlSeconds: 1, onExpiry: 2 as never } },
      {
        code: 'invalid-reserve',
        text: "on_expiry must be release or charge, found '2'",
        at: 'reserve.on_expiry',
      },
    ],
  ])('is reported to be wrong, case %#', (given, { at, ...problem }) => {
    const message = create(RateLimitConfigSchema, { descriptors: [{ key: 'k', ...given } as never] });
    const problems: FieldProblem[] = [];
    decodeResource(toBinary(RateLimitConfigSchema, message), (found) => problems.push(found));
    expect(problems).toEqual([{ ...problem, path: ['descriptors', 0, ...at.split('.')] }]);
  });

  it('is rejected with a field of another wire type, in which readers would differ', () => {
    const bytes = Buffer.from(encodeResource(source('d', [rule({ key: 'k' })])));
    const start = bytes.indexOf(0x12);
    bytes[start] = 0x13;
    expect(() => decodeResource(bytes)).toThrow('field 2 has wire type 3');
  });

  it('takes fields that it does not know', () => {
    const bytes = encodeResource(source('d', [rule({ key: 'k' })]));
    const unknown = new BinaryWriter().tag(5000, WireType.LengthDelimited).string('x').finish();
    expect(decodeResource(Buffer.concat([bytes, unknown]))).toEqual(decodeResource(bytes));
  });

  it('may nest as deeply as files of rules, and no deeper than can be read', () => {
    const nested = (levels: number) => {
      let inner = rule({ key: 'k' });
      for (let level = 1; level < levels; level++) inner = rule({ key: 'k', descriptors: [inner] });
      return source('d', [inner]);
    };
    expect(decodeResource(encodeResource(nested(400)))).toEqual(nested(400));
    expect(() => decodeResource(encodeResource(nested(1_500)))).toThrow('maximum recursion depth');
  });

  it.each([
    ['cut off', Buffer.from('0a05', 'hex')],
    ['no UTF-8', Buffer.from('0a01ff', 'hex')],
    ['of a wire type that there is not', Buffer.from('0f', 'hex')],
  ])('is rejected when its bytes are %s', (_, bytes) => {
    expect(() => decodeResource(bytes)).toThrow();
  });

  it('is rejected wherever it is cut inside a field', () => {
    const bytes = encodeResource(source('domain', [], 'name'));
    const whole = [0, 6, bytes.length];
    for (let end = 0; end < bytes.length; end++) {
      const cut = () => decodeResource(bytes.subarray(0, end));
      if (whole.includes(end)) expect(cut).not.toThrow();
      else expect(cut).toThrow();
    }
  });
});
