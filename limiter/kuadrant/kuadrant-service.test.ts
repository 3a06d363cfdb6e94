import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { RateLimitDescriptor_RateLimitOverrideSchema } from '../../gen/envoy/extensions/common/ratelimit/v3/ratelimit_pb.ts';
import {
  RateLimitRequestSchema,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import {
  CommitRequestSchema,
  CommitResponseSchema,
  ReserveRequestSchema,
  ReserveResponseSchema,
} from '../../gen/kuadrant/service/ratelimit/v1/ratelimit_pb.ts';
import { GrpcCode, type GrpcStatus, Right, type UnaryReply } from '../../process/grpc/handlers.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { ScriptedBudgets, budgetScope as scope } from '../../test/support/scripted-budgets.ts';
import { tooLargeRequests } from '../../test/support/too-large-requests.ts';
import { Code } from '../decide/messages.ts';
import { defaultRequestLimits, RequestTooLarge } from '../decide/request-bounds.ts';
import type { UnaryMethod } from '../grpc/unary-call.ts';
import { ExcessResponses, type TooLargeOptions } from '../service/over-without-limit.ts';
import { createKuadrantMethods } from './kuadrant-service.ts';

const max = BigInt(Number.MAX_SAFE_INTEGER);
const over = 2;
const domain = 'llm';
const descriptors = [{ entries: [{ key: 'team', value: 'a' }] }];

let budgets: ScriptedBudgets;
let needed: number[];
let tooLarge: string[];
let shadowed: number;
beforeEach(() => {
  budgets = new ScriptedBudgets();
  needed = [];
  tooLarge = [];
  terms = {};
  shadowed = 0;
});

type Answer = { bytes: Uint8Array; status: undefined } | { bytes: undefined; status: GrpcStatus };

let terms: Partial<TooLargeOptions>;

const servicePath = '/kuadrant.service.ratelimit.v1.RateLimitService/';

function methodOf(name: string, shadowMode = false): UnaryMethod {
  const methods = createKuadrantMethods({
    budgets,
    excess: new ExcessResponses({ shadowMode, onGlobalShadow: () => (shadowed += 1) }),
    maxTtlMs: 86_400_000,
    bounds: { ...defaultRequestLimits, maxDescriptors: 2 },
    tooLarge: tooLargeRequests({ onTooLarge: (error) => tooLarge.push(error.setting), ...terms }),
    onLongTexts: () => {},
    onInvalidUtf8Values: () => {},
    onFault: (error) => expect.fail(String(error)),
  });
  return methods.get(servicePath + name)!;
}

function call(
  method: string,
  bytes: Uint8Array,
  { shadowMode = false, ...more }: Partial<UnaryReply> & { shadowMode?: boolean } = {},
): Answer {
  const answers: Answer[] = [];
  methodOf(method, shadowMode).handler(bytes, {
    abandoned: false,
    send: (message) => answers.push({ bytes: message, status: undefined }),
    fail: (status) => answers.push({ bytes: undefined, status }),
    ...more,
  });
  expect(answers).toHaveLength(1);
  return answers[0]!;
}

function rls(
  method: 'CheckRateLimit' | 'Report',
  request: MessageInitShape<typeof RateLimitRequestSchema>,
  shadowMode = false,
) {
  const bytes = toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, request));
  const answer = call(method, bytes, { shadowMode });
  return answer.status ?? fromBinary(RateLimitResponseSchema, answer.bytes).overallCode;
}

function reserve(request: MessageInitShape<typeof ReserveRequestSchema>) {
  const answer = call('Reserve', toBinary(ReserveRequestSchema, create(ReserveRequestSchema, request)));
  if (answer.status !== undefined) return answer.status;
  const { code, reservationId } = fromBinary(ReserveResponseSchema, answer.bytes);
  return { code, reservationId };
}

function commit(request: MessageInitShape<typeof CommitRequestSchema>) {
  const answer = call('Commit', toBinary(CommitRequestSchema, create(CommitRequestSchema, request)));
  return answer.status ?? fromBinary(CommitResponseSchema, answer.bytes).reservationReleased;
}

describe('Reserve', () => {
  it('gives the id of what it holds, which nothing repeats', () => {
    const asked = reserve({ domain, descriptors, amount: max, ttl: { seconds: 30n, nanos: 500_000_001 } });
    expect(asked).toEqual({ code: 1, reservationId: 'ours' });
    expect(budgets.asked).toMatchObject([
      {
        ...{ domain, amount: Number.MAX_SAFE_INTEGER, ttlMs: 30_501, id: undefined, recalled: false },
        descriptors: [{ entries: [{ key: 'team', value: 'a' }] }],
      },
    ]);
  });

  it('takes 0 as 0, and 60 seconds without a ttl', () => {
    reserve({ domain, descriptors });
    reserve({ domain, descriptors, ttl: {} });
    expect(budgets.asked).toMatchObject([
      { amount: 0, ttlMs: 60_000 },
      { amount: 0, ttlMs: 60_000 },
    ]);
  });

  it('takes the hits of a descriptor as its amount, as its commit does', () => {
    const own = [{ ...descriptors[0]!, hitsAddend: 600n }, descriptors[0]!];
    reserve({ domain, descriptors: own, amount: 5n });
    commit({ domain, descriptors: own, actualAmount: 4n, reservationId: 'ours' });
    const amounts = [600, undefined];
    expect(budgets.asked).toMatchObject([
      { amount: 5, amounts },
      { actual: 4, amounts },
    ]);
  });

  it('rejects hits of a descriptor that are negative, or beside a limit', () => {
    const own = { ...descriptors[0]!, hitsAddend: 1n };
    const code = GrpcCode.INVALID_ARGUMENT;
    for (const ask of [reserve, commit]) {
      expect(ask({ domain, descriptors: [{ ...own, isNegativeHits: true }] })).toEqual({
        ...{ code, message: 'the hits_addend of a descriptor is its amount, and must not be negative' },
      });
      expect(ask({ domain, descriptors: [{ ...own, limit: { requestsPerUnit: 5 } }] })).toEqual({
        ...{ code, message: 'a descriptor with its own limit must not have a hits_addend' },
      });
    }
    expect(budgets.asked).toEqual([]);
  });

  it('cuts a ttl to the longest that there is, and holds for a second at least', () => {
    reserve({ domain, descriptors, ttl: { seconds: 315_576_000_000n } });
    reserve({ domain, descriptors, ttl: { nanos: 500_000_000 } });
    expect(budgets.asked).toMatchObject([{ ttlMs: 86_400_000 }, { ttlMs: 1_000 }]);
  });

  it('rejects without an id', () => {
    budgets.reserving = { allowed: false };
    expect(reserve({ domain, descriptors, amount: 1n })).toEqual({ code: over, reservationId: '' });
    budgets.reserving = { failure: 'full', message: 'too many' };
    expect(reserve({ domain, descriptors, amount: 1n })).toEqual({ code: over, reservationId: '' });
  });

  it('lets pass what nothing limits, and its commit without id as well', () => {
    budgets.reserving = { failure: 'no-domain', message: 'no such domain' };
    expect(reserve({ domain, descriptors, amount: 1n })).toEqual({ code: 1, reservationId: '' });
    budgets.settling = { failure: 'no-domain', message: 'no such domain' };
    expect(commit({ domain, descriptors, actualAmount: 5n })).toBe(false);
  });

  it.each([
    [2n ** 53n, 'amount must be at most 9007199254740991'],
    [2n ** 64n - 1n, 'amount must be at most 9007199254740991'],
  ])('rejects the amount %s', (amount, message) => {
    expect(reserve({ domain, descriptors, amount })).toEqual({ code: GrpcCode.INVALID_ARGUMENT, message });
  });

  it.each([{ seconds: -1n }, { nanos: -1 }])('rejects a negative ttl', (ttl) => {
    const message = 'ttl must not be negative';
    expect(reserve({ domain, descriptors, ttl })).toEqual({ code: GrpcCode.INVALID_ARGUMENT, message });
  });

  it.each([
    ['invalid', GrpcCode.INVALID_ARGUMENT],
    ['unsupported', GrpcCode.UNIMPLEMENTED],
    ['unavailable', GrpcCode.UNAVAILABLE],
  ] as const)('fails where it is %s', (failure, code) => {
    budgets.reserving = { failure, message: 'why' };
    expect(reserve({ domain, descriptors })).toEqual({ code, message: 'why' });
  });

  it('reads fields in any order, with others between them', () => {
    const parts = [
      toBinary(ReserveRequestSchema, create(ReserveRequestSchema, { ttl: { seconds: 7n }, amount: 300n })),
      Uint8Array.of(0x7a, 2, 1, 2, 0x80, 1, 5),
      toBinary(ReserveRequestSchema, create(ReserveRequestSchema, { domain, descriptors })),
    ];
    call('Reserve', Buffer.concat(parts));
    expect(budgets.asked).toMatchObject([{ domain, amount: 300, ttlMs: 7000, descriptors: [{}] }]);
  });

  describe('beyond the bounds', () => {
    const many = Array(3).fill(descriptors[0]);
    const crowded = { entries: Array.from({ length: 70 }, () => ({ key: 'k', value: 'v' })) };
    const error = new RequestTooLarge('REQUEST_MAX_ENTRIES', 'why', 2);

    it('checks are over limit, or OK with SHADOW_MODE', () => {
      budgets.status = (_question, _asker, done) =>
        done({ failure: 'invalid', message: 'why', tooLarge: error });
      expect(rls('CheckRateLimit', { domain, descriptors: many })).toBe(Code.OVER_LIMIT);
      expect(
        rls('CheckRateLimit', { domain, descriptors: [{ entries: [{ value: 'v'.repeat(300_000) }] }] }),
      ).toBe(Code.OVER_LIMIT);
      terms = { shadowMode: true };
      expect(rls('CheckRateLimit', { domain, descriptors: many })).toBe(Code.OK);
      terms = { answer: 'error' };
      expect(rls('CheckRateLimit', { domain, descriptors: many })).toMatchObject({
        code: GrpcCode.INVALID_ARGUMENT,
      });
    });

    it('reports count what is within them, and say then that not all was', () => {
      const asked: unknown[] = [];
      budgets.commit = (question, _asker, done) => {
        asked.push([question.descriptors.length, question.leftOut?.crowded.get(0)?.entries]);
        if (question.leftOut !== undefined) done({ failure: 'invalid', message: 'why', tooLarge: error });
        else done({ outcome: 'settled', charged: 1, amount: 0, scopes: [] });
      };
      const invalid = { code: GrpcCode.INVALID_ARGUMENT };
      expect(rls('Report', { domain, descriptors: many })).toMatchObject(invalid);
      expect(rls('Report', { domain, descriptors: [crowded, descriptors[0]!] })).toMatchObject(invalid);
      expect(asked).toEqual([
        [2, undefined],
        [1, 70],
        [1, undefined],
      ]);
      expect(tooLarge).toEqual(['REQUEST_MAX_DESCRIPTORS', 'REQUEST_MAX_ENTRIES']);
      terms = { shadowMode: true };
      expect(rls('Report', { domain, descriptors: many })).toBe(Code.OK);
    });
  });

  it('rejects invalid messages, and those that are too large', () => {
    for (const bytes of [Uint8Array.of(0x18), Uint8Array.of(0x22, 9, 1), Uint8Array.of(0x12, 5, 10)])
      expect(call('Reserve', bytes).status?.code).toBe(GrpcCode.INTERNAL);
    const many = reserve({ domain, descriptors: Array(3).fill(descriptors[0]) });
    expect([many, tooLarge]).toMatchObject([
      { code: GrpcCode.INVALID_ARGUMENT },
      ['REQUEST_MAX_DESCRIPTORS'],
    ]);
    expect(call('Commit', new Uint8Array(300_000)).status?.message).toContain('REQUEST_MAX_BYTES');
    expect(budgets.asked).toEqual([]);
  });
});

describe('Commit', () => {
  it('charges what was used, 0 as well, and says whether a hold was there', () => {
    expect(commit({ domain, descriptors, reservationId: 'r', actualAmount: 480n })).toBe(true);
    expect(commit({ domain, descriptors, reservationId: 'r' })).toBe(true);
    expect(budgets.asked).toMatchObject(
      [480, 0].map((actual) => ({ domain, id: 'r', actual, unknown: 'charge' })),
    );
    for (const [outcome, released] of [
      ['repeated', true],
      ['late', false],
      ['unknown', false],
    ] as const) {
      budgets.settling = { outcome };
      expect(commit({ domain, descriptors, reservationId: 'r' })).toBe(released);
    }
  });

  it('is a report without an id', () => {
    commit({ domain, descriptors, actualAmount: 5n });
    expect(budgets.asked).toMatchObject([{ id: '', actual: 5, unknown: 'charge' }]);
  });

  it('rejects ids and amounts that are none', () => {
    const code = GrpcCode.INVALID_ARGUMENT;
    const message = 'reservation_id must be 1 to 255 visible ASCII characters, or empty';
    expect(commit({ domain, descriptors, reservationId: 'a b' })).toEqual({ code, message });
    expect(commit({ domain, descriptors, reservationId: 'r', actualAmount: 2n ** 63n })).toEqual({
      ...{ code, message: 'actual_amount must be at most 9007199254740991' },
    });
    expect(budgets.asked).toEqual([]);
  });
});

describe('CheckRateLimit', () => {
  const quota = { ...scope, isQuota: true };
  it.each([
    ['something is left', [scope], 1],
    ['nothing matches', [], 1],
    ['nothing is left', [scope, { ...scope, left: 0 }], over],
    ['nothing is left of a rule in shadow mode', [{ ...scope, left: 0, isShadow: true }], 1],
    [
      'another quota has something left',
      [
        { ...quota, left: 0 },
        { ...quota, descriptor: 1 },
      ],
      1,
    ],
    ['no quota has', [0, 1].map((descriptor) => ({ ...quota, left: 0, descriptor })), over],
  ])('answers where %s', (_, standing, code) => {
    budgets.standing = standing;
    expect(rls('CheckRateLimit', { domain, descriptors: [...descriptors, ...descriptors] })).toBe(code);
  });

  it('answers OK where a descriptor without a limit is a quota', () => {
    budgets.standing = [{ ...quota, left: 0 }];
    expect(rls('CheckRateLimit', { domain, descriptors })).toBe(over);
    budgets.otherQuotaPasses = true;
    expect(rls('CheckRateLimit', { domain, descriptors })).toBe(1);
    budgets.standing = [{ ...scope, left: 0 }];
    expect(rls('CheckRateLimit', { domain, descriptors })).toBe(over);
  });

  it('passes with SHADOW_MODE, which counts what would be over limit', () => {
    const check = () => rls('CheckRateLimit', { domain, descriptors }, true);
    expect([check(), shadowed]).toEqual([1, 0]);
    budgets.standing = [{ ...scope, left: 0 }];
    expect([check(), shadowed]).toEqual([1, 1]);
  });

  it('lets a domain without rules pass, and fails if the store does', () => {
    budgets.standing = { failure: 'no-domain', message: '' };
    expect(rls('CheckRateLimit', { domain, descriptors })).toBe(1);
    budgets.standing = { failure: 'unavailable', message: 'away' };
    expect(rls('CheckRateLimit', { domain, descriptors })).toEqual({
      code: GrpcCode.UNAVAILABLE,
      message: 'away',
    });
  });
});

describe('Report', () => {
  it('charges each descriptor with its own hits, else those of the request, at least 1', () => {
    const own = { ...descriptors[0]!, hitsAddend: 0n };
    expect(rls('Report', { domain, descriptors: [descriptors[0]!, own], hitsAddend: 7 })).toBe(1);
    expect(rls('Report', { domain, descriptors })).toBe(1);
    expect(budgets.asked).toMatchObject([
      { id: '', actual: 7 },
      { id: '', actual: 0 },
      { id: '', actual: 1 },
    ]);
  });

  it('fails once if some could not be charged', () => {
    budgets.settling = { failure: 'unavailable', message: 'away' };
    const own = { ...descriptors[0]!, hitsAddend: 3n };
    const answer = rls('Report', { domain, descriptors: [descriptors[0]!, own] });
    expect(answer).toEqual({ code: GrpcCode.UNAVAILABLE, message: 'away' });
  });

  it('rejects hits that it cannot charge', () => {
    const code = GrpcCode.INVALID_ARGUMENT;
    const negative = { ...descriptors[0]!, isNegativeHits: true };
    expect(rls('Report', { domain, descriptors: [negative] })).toMatchObject({ code });
    expect(rls('Report', { domain })).toMatchObject({ code });
    expect(budgets.asked).toEqual([]);
  });
});

describe('bytes', () => {
  const text = fc.string({ unit: 'binary', maxLength: 20 }).map((one) => one.toWellFormed());
  const visible = fc.stringMatching(/^[!-~]{1,20}$/);
  const amount = fc.oneof(fc.bigInt({ min: 0n, max: max }), fc.bigInt({ min: 0n, max: 1000n }));
  const about = fc.record({
    domain: text,
    descriptors: fc.array(
      fc.record({ entries: fc.array(fc.record({ key: text, value: text }), { maxLength: 3 }) }),
      { minLength: 1, maxLength: 2 },
    ),
  });

  it('mean what the proto file says', () => {
    const seconds = fc.bigInt({ min: 1n, max: 86_400n });
    fc.assert(
      fc.property(about, amount, seconds, visible, (asked, many, ttl, id) => {
        budgets.asked.length = 0;
        reserve({ ...asked, amount: many, ttl: { seconds: ttl } });
        commit({ ...asked, actualAmount: many, reservationId: id });
        const question = { domain: asked.domain, descriptors: asked.descriptors };
        expect(budgets.asked).toMatchObject([
          { ...question, amount: Number(many), ttlMs: Number(ttl) * 1000 },
          { ...question, actual: Number(many), id },
        ]);
      }),
      { numRuns: caseCount(200) },
    );
  });

  it('are answered once, whatever they are', () => {
    const method = fc.constantFrom('CheckRateLimit', 'Report', 'Reserve', 'Commit');
    const whole = about.map((asked) => toBinary(ReserveRequestSchema, create(ReserveRequestSchema, asked)));
    const damaged = fc
      .tuple(whole, fc.nat(), fc.nat({ max: 255 }))
      .map(([bytes, at, value]) => bytes.with(at % Math.max(1, bytes.length), value));
    fc.assert(
      fc.property(method, fc.oneof(fc.uint8Array({ maxLength: 60 }), damaged), (name, bytes) => {
        call(name, bytes);
      }),
      { numRuns: caseCount(500) },
    );
  });
});

describe('beyond the rate of its caller', () => {
  const answerOf = (name: string, shadowMode: boolean): Uint8Array =>
    methodOf(name, shadowMode).handler.overLimit!();
  it.each([
    [false, over, [{ key: 'Retry-After', value: '1' }], 0],
    [true, 1, [], 2],
  ])('questions are over limit, with SHADOW_MODE %j', (shadowMode, code, headers, shadows) => {
    const checked = fromBinary(RateLimitResponseSchema, answerOf('CheckRateLimit', shadowMode));
    expect([checked.overallCode, checked.statuses]).toEqual([code, []]);
    expect(checked.responseHeadersToAdd.map(({ key, value }) => ({ key, value }))).toEqual(headers);
    const reserved = fromBinary(ReserveResponseSchema, answerOf('Reserve', shadowMode));
    expect([reserved.code, reserved.reservationId]).toEqual([code, '']);
    expect(shadowed).toBe(shadows);
  });

  it.each(['Report', 'Commit'])('a %s stays an error, as it is not counted', (name) => {
    expect(methodOf(name).handler.overLimit).toBeUndefined();
  });
});

it('asks for the rights of each method', () => {
  const caller = { rejected: undefined, name: 'a', hasDomain: () => true };
  const rejection = (_: string | undefined, rights: number) => void needed.push(rights);
  const limit = create(RateLimitDescriptor_RateLimitOverrideSchema, { requestsPerUnit: 5, unit: 1 });
  const bytes = toBinary(
    RateLimitRequestSchema,
    create(RateLimitRequestSchema, { domain, descriptors: [{ ...descriptors[0]!, limit }] }),
  );
  for (const method of ['CheckRateLimit', 'Report', 'Reserve', 'Commit'])
    call(method, bytes, { caller: { ...caller, rejection } });
  expect(needed).toEqual(
    [Right.ASK, Right.ASK, Right.RESERVE, Right.RESERVE].map((one) => one | Right.OVERRIDE),
  );
  const status = { code: GrpcCode.PERMISSION_DENIED, message: 'no' };
  expect(call('Reserve', bytes, { caller: { ...caller, rejection: () => status } }).status).toEqual(status);
});
