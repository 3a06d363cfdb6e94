import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import {
  RateLimitRequestSchema,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { GrpcCode, type GrpcStatus, Right, type UnaryReply } from '../../process/grpc/handlers.ts';
import { bareResponse } from '../../test/support/plain-service.ts';
import { tooLargeRequests } from '../../test/support/too-large-requests.ts';
import { Code, type RateLimitRequest, ServiceError } from '../decide/messages.ts';
import { defaultRequestLimits, RequestTooLarge } from '../decide/request-bounds.ts';
import type { RateLimitResponse } from '../decide/response-message.ts';
import { type Caller, callAbandoned } from '../stores/operation.ts';
import { StoreError } from '../stores/store-error.ts';
import { ExcessResponses, type TooLargeOptions } from './over-without-limit.ts';
import type { Decided, RateLimitService } from './rate-limit-service.ts';
import { createShouldRateLimit, createWholeDecisions, readRequest } from './should-rate-limit.ts';

interface Recorded {
  sent: Uint8Array[];
  failed: GrpcStatus[];
  faults: unknown[];
  tooLarge?: string[];
  repaired?: number[];
  long?: number[];
}

const bounds = defaultRequestLimits;

function call(
  bytes: Uint8Array,
  decide: (request: RateLimitRequest, reply: UnaryReply, decided: Decided<UnaryReply>) => void,
  terms: Partial<TooLargeOptions> = {},
): Recorded {
  const recorded: Recorded = { sent: [], failed: [], faults: [] };
  const reply: UnaryReply = {
    abandoned: false,
    send: (message) => recorded.sent.push(message),
    fail: (status) => recorded.failed.push(status),
  };
  createShouldRateLimit({
    service: { decide } as Pick<RateLimitService, 'decide'>,
    bounds,
    tooLarge: tooLargeRequests({
      onTooLarge: ({ setting }) => {
        recorded.tooLarge = [setting];
      },
      ...terms,
    }),
    onLongTexts: (texts) => {
      recorded.long = [texts];
    },
    onInvalidUtf8Values: (values) => {
      recorded.repaired = [values];
    },
    onFault: (error) => recorded.faults.push(error),
  })(bytes, reply);
  return recorded;
}

const requestBytes = toBinary(
  RateLimitRequestSchema,
  create(RateLimitRequestSchema, { domain: 'd', descriptors: [{ entries: [{ key: 'k', value: 'v' }] }] }),
);

describe('createShouldRateLimit', () => {
  it('reads the request and writes the answer', () => {
    const requests: RateLimitRequest[] = [];
    const { sent, failed, faults } = call(requestBytes, (request, reply, decided) => {
      requests.push(request);
      const answer = {
        overallCode: Code.OVER_LIMIT,
        statuses: [],
        responseHeadersToAdd: [{ key: 'a', value: 'b' }],
        requestHeadersToAdd: [],
        dynamicMetadata: undefined,
      };
      decided.answer(answer, reply, []);
    });
    expect(requests).toEqual([
      {
        domain: 'd',
        descriptors: [
          {
            entries: [{ key: 'k', value: 'v' }],
            known: expect.anything(),
            limit: undefined,
            hitsAddend: undefined,
            isNegativeHits: false,
          },
        ],
        hitsAddend: 0,
      },
    ]);
    expect(sent.map((bytes) => fromBinary(RateLimitResponseSchema, bytes))).toMatchObject([
      { overallCode: 2, responseHeadersToAdd: [{ key: 'a', value: 'b' }] },
    ]);
    expect([failed, faults]).toEqual([[], []]);
  });

  it('answers DEADLINE_EXCEEDED for a request that was not sent because its caller gave up', () => {
    const { sent, failed, faults } = call(requestBytes, (_, reply, decided) =>
      decided.reject(callAbandoned, reply),
    );
    expect(failed).toEqual([{ code: GrpcCode.DEADLINE_EXCEEDED, message: 'context deadline exceeded' }]);
    expect([sent, faults]).toEqual([[], []]);
  });

  it('hands on whether its caller still waits', () => {
    const seen: boolean[] = [];
    const reply = { abandoned: false, send: () => {}, fail: () => {} };
    createShouldRateLimit({
      service: {
        decide: (_, decision) => {
          seen.push(decision.abandoned);
          reply.abandoned = true;
          seen.push(decision.abandoned);
        },
      },
      bounds,
      tooLarge: tooLargeRequests(),
      onLongTexts: () => {},
      onInvalidUtf8Values: () => {},
      onFault: () => {},
    })(requestBytes, reply);
    expect(seen).toEqual([false, true]);
  });

  it.each([
    ['a request that cannot be decided', new ServiceError('rate limit domain must not be empty')],
    [
      'a store that could not count',
      new StoreError('rate limit domain must not be empty', { transient: true }),
    ],
  ])('answers UNKNOWN with its words for %s', (_, error) => {
    expect(call(requestBytes, (__, reply, decided) => decided.reject(error, reply))).toEqual({
      sent: [],
      failed: [{ code: 2, message: 'rate limit domain must not be empty' }],
      faults: [],
    });
  });

  it('answers INTERNAL for bytes that are no request', () => {
    const undecided = (): void => expect.unreachable();
    expect(call(Uint8Array.of(0x0a, 5, 97), undecided)).toEqual({
      sent: [],
      failed: [{ code: 13, message: 'cannot decode the request: the message ends early, at byte 3' }],
      faults: [],
    });
  });

  describe('for a request beyond its bounds', () => {
    const error = new RequestTooLarge('REQUEST_MAX_DESCRIPTORS', 'why', 2);
    const beyond = (terms?: Partial<TooLargeOptions>) =>
      call(requestBytes, (_, reply, decided) => decided.reject(error, reply), terms);
    const over = { code: Code.OVER_LIMIT, limitRemaining: 0 };
    const answers = ({ sent }: Recorded) => sent.map((bytes) => fromBinary(RateLimitResponseSchema, bytes));

    it('answers OVER_LIMIT with a status a descriptor and without a limit', () => {
      const recorded = beyond();
      expect(answers(recorded)).toMatchObject([
        {
          overallCode: Code.OVER_LIMIT,
          statuses: [over, over],
          responseHeadersToAdd: [{ key: 'Retry-After', value: '1' }],
        },
      ]);
      expect(answers(recorded)[0]?.statuses[0]?.currentLimit).toBeUndefined();
      expect(recorded).toMatchObject({ failed: [], faults: [], tooLarge: ['REQUEST_MAX_DESCRIPTORS'] });
    });

    it('answers OK with SHADOW_MODE, and counts that', () => {
      let shadows = 0;
      const recorded = beyond({ shadowMode: true, onGlobalShadow: () => void shadows++ });
      expect(answers(recorded)).toMatchObject([
        { overallCode: Code.OK, statuses: [over, over], responseHeadersToAdd: [] },
      ]);
      expect([shadows, recorded.tooLarge]).toEqual([1, ['REQUEST_MAX_DESCRIPTORS']]);
    });

    it('answers INVALID_ARGUMENT if that is set, with SHADOW_MODE as well', () => {
      expect(beyond({ answer: 'error', shadowMode: true })).toMatchObject({
        sent: [],
        failed: [{ code: GrpcCode.INVALID_ARGUMENT, message: 'why' }],
        tooLarge: ['REQUEST_MAX_DESCRIPTORS'],
      });
    });

    it('decodes nothing of too many bytes', () => {
      const undecided = (): void => expect.unreachable();
      expect(answers(call(new Uint8Array(262_145), undecided))).toMatchObject([
        { overallCode: Code.OVER_LIMIT, statuses: [] },
      ]);
    });

    it('shows the service what was left out', () => {
      const requests: RateLimitRequest[] = [];
      const descriptors = '1200'.repeat(257);
      call(Buffer.from(`0a0164${descriptors}`, 'hex'), (request) => void requests.push(request));
      expect(requests[0]).toMatchObject({ domain: 'd', leftOut: { descriptors: 1, maxEntries: 64 } });
    });
  });

  it('counts texts that stand for themselves no more', () => {
    const domain = 'd'.repeat(20_000);
    const bytes = toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, { domain }));
    expect(call(bytes, () => {})).toMatchObject({ long: [1], failed: [] });
  });

  it('answers a longer message than allowed before it is whole', () => {
    const tooLarge: RequestTooLarge[] = [];
    const { longest } = createShouldRateLimit({
      service: { decide: () => expect.unreachable() },
      bounds,
      tooLarge: tooLargeRequests({ onTooLarge: (error) => tooLarge.push(error) }),
      onLongTexts: () => {},
      onInvalidUtf8Values: () => {},
      onFault: () => {},
    });
    const message = 'a request may have 262144 bytes (REQUEST_MAX_BYTES), this one has 300000';
    expect(longest?.maxBytes).toBe(262_144);
    const answer = longest?.reject(300_000) as Uint8Array;
    expect(fromBinary(RateLimitResponseSchema, answer)).toMatchObject({
      overallCode: Code.OVER_LIMIT,
      statuses: [],
    });
    expect(tooLarge.map((error) => [error.setting, error.message])).toEqual([['REQUEST_MAX_BYTES', message]]);
  });

  it('counts values that are no UTF-8 with their bad bytes replaced, each time they come', () => {
    const bytes = Buffer.from('0a01641210' + '0a060a016b1201ff' + '0a060a016b1201fe', 'hex');
    for (let time = 0; time < 2; time += 1) {
      const requests: RateLimitRequest[] = [];
      const { failed, repaired } = call(bytes, (request) => requests.push(request));
      const entry = { key: 'k', value: '\ufffd' };
      expect(requests[0]?.descriptors[0]?.entries).toEqual([entry, entry]);
      expect([failed, repaired]).toEqual([[], [2]]);
    }
  });

  it('answers INTERNAL without details for a fault of ours, and reports it', () => {
    const fault = new TypeError('secret');
    expect(call(requestBytes, (_, reply, decided) => decided.reject(fault, reply))).toEqual({
      sent: [],
      failed: [{ code: 13, message: 'internal error' }],
      faults: [fault],
    });
  });

  it('answers INTERNAL when an answer cannot be written', () => {
    const { sent, failed, faults } = call(requestBytes, (_, reply, decided) =>
      decided.answer({} as never, reply, []),
    );
    expect(sent).toEqual([]);
    expect(failed).toEqual([{ code: 13, message: 'internal error' }]);
    expect(faults).toHaveLength(1);
  });
});

/** A request with a refund, and with a limit of its own. */
const demanding = toBinary(
  RateLimitRequestSchema,
  create(RateLimitRequestSchema, {
    domain: 'd',
    descriptors: [
      { entries: [{ key: 'k', value: '\u{1f600}' }] },
      { entries: [{ key: 'k', value: 'v' }], isNegativeHits: true },
      { entries: [{ key: 'k', value: 'v' }], limit: { requestsPerUnit: 1, unit: 2 } },
    ],
  }),
);

/** The outcome of a call with everything that a reply may have. */
function traced(
  bytes: Uint8Array,
  outcome: RateLimitResponse | Error | 'none',
  {
    isWhole = false,
    rejection,
    ...terms
  }: { isWhole?: boolean; rejection?: GrpcStatus } & Partial<TooLargeOptions> = {},
) {
  const seen: unknown[] = [];
  const reply = {
    abandoned: false,
    span: {
      ...{ traceId: '', spanId: '', end: () => {} },
      set: (name: string, value: unknown) => void seen.push(`${name}=${value}`),
    },
    caller: {
      ...{ rejected: undefined, name: 'c', hasDomain: () => true },
      rejection: (domain: string | undefined, rights: number) => {
        seen.push(`rights ${rights} in ${domain}`);
        return rejection;
      },
    },
    send: (message: Uint8Array) => void seen.push(fromBinary(RateLimitResponseSchema, message).overallCode),
    fail: ({ code, message }: GrpcStatus) => void seen.push(`${code} ${message}`),
    noteTooLarge: (reason: string) => void seen.push(`too large: ${reason}`),
    answer: ({ overallCode }: RateLimitResponse, plans: readonly unknown[]) =>
      void seen.push(`whole ${overallCode} ${plans.length}`),
    answerTooLarge: ({ overallCode }: RateLimitResponse, reason: string) =>
      void seen.push(`whole ${overallCode} too large: ${reason}`),
  };
  const options = {
    service: {
      decide: <Asker extends Caller>(_: RateLimitRequest, asker: Asker, decided: Decided<Asker>) => {
        expect(decided.response).toBe(isWhole ? bareResponse : undefined);
        if (outcome instanceof Error) decided.reject(outcome, asker);
        else if (outcome !== 'none') decided.answer(outcome, asker, [{ kind: 'unmatched' } as never]);
      },
    },
    bounds,
    tooLarge: tooLargeRequests({ onTooLarge: () => void seen.push('counted'), ...terms }),
    onLongTexts: () => void seen.push('long texts'),
    onInvalidUtf8Values: () => void seen.push('repaired values'),
    onFault: () => void seen.push('fault'),
  };
  if (isWhole) createWholeDecisions(options, bareResponse)(bytes, reply);
  else createShouldRateLimit(options)(bytes, reply);
  return seen;
}

const answerOf = (overallCode: Code): RateLimitResponse => ({
  ...{
    overallCode,
    statuses: [],
    responseHeadersToAdd: [],
    requestHeadersToAdd: [],
    dynamicMetadata: undefined,
  },
});
const asked = ['rights 7 in d', 'weir.domain=d', 'weir.descriptors=3'];

describe('a call with a caller and a span', () => {
  it.each([
    [Code.OK, 'OK', 1],
    [Code.OVER_LIMIT, 'OVER_LIMIT', 2],
  ])('is traced with the code %i of its answer, whole or not', (code, text, sent) => {
    expect(traced(demanding, answerOf(code))).toEqual([...asked, `weir.overall_code=${text}`, sent]);
    const whole = [...asked, `weir.overall_code=${text}`, `whole ${sent} 1`];
    expect(traced(demanding, answerOf(code), { isWhole: true })).toEqual(whole);
  });

  it.each([
    [requestBytes, Right.ASK],
    [demanding, Right.ASK | Right.REFUND | Right.OVERRIDE],
  ])('needs the rights of its descriptors, and is not decided without them', (bytes, rights) => {
    const rejection = { code: GrpcCode.PERMISSION_DENIED, message: 'no' };
    const seen = [`rights ${rights} in d`, '7 no'];
    for (const isWhole of [false, true])
      expect(traced(bytes, answerOf(Code.OK), { rejection, isWhole })).toEqual(seen);
  });

  it.each<[string, Error, string[], string[]]>([
    ['a store', new StoreError('away', { transient: true }), ['2 away'], ['14 away']],
    ['a store for good', new StoreError('never', { transient: false }), ['2 never'], ['14 never']],
    ['rules that are not loaded', new ServiceError('none', { transient: true }), ['2 none'], ['14 none']],
    ['a wrong request', new ServiceError('wrong'), ['2 wrong'], ['2 wrong']],
    ['a fault', new TypeError('secret'), ['fault', '13 internal error'], ['fault', '13 internal error']],
    [
      'a request beyond its bounds',
      new RequestTooLarge('REQUEST_MAX_DESCRIPTORS', 'why', 2),
      ['counted', 'too large: why', 'weir.overall_code=OVER_LIMIT', '2'],
      ['counted', 'weir.overall_code=OVER_LIMIT', 'whole 2 too large: why'],
    ],
  ])('says why %s rejects it, as its API does', (_, error, short, whole) => {
    expect(traced(demanding, error).map(String)).toEqual([...asked, ...short]);
    expect(traced(demanding, error, { isWhole: true })).toEqual([...asked, ...whole]);
  });

  it('fails by an error for a request beyond its bounds if that is set', () => {
    const error = new RequestTooLarge('REQUEST_MAX_DESCRIPTORS', 'why', 2);
    const terms = { answer: 'error' } as const;
    expect(traced(demanding, error, terms)).toEqual([...asked, 'counted', 'too large: why', '3 why']);
    expect(traced(demanding, error, { ...terms, isWhole: true })).toEqual([...asked, 'counted', '3 why']);
  });

  it('is rejected before its caller is asked if its bytes are no request', () => {
    const text = '13 cannot decode the request: the message ends early, at byte 3';
    for (const isWhole of [false, true])
      expect(traced(Uint8Array.of(0x0a, 5, 97), 'none', { isWhole })).toEqual([text]);
  });
});

describe('readRequest', () => {
  function read(bytes: Uint8Array, rejection?: GrpcStatus) {
    const seen: unknown[] = [];
    const caller = {
      ...{ rejected: undefined, name: 'c', hasDomain: () => true },
      rejection: (domain: string | undefined, rights: number) => {
        seen.push(`rights ${rights} in ${domain}`);
        return rejection;
      },
    };
    const fail = ({ code, message }: GrpcStatus) => void seen.push(`${code} ${message}`);
    const request = readRequest(bytes, { abandoned: false, caller, fail }, Right.RESERVE, {
      bounds: { ...defaultRequestLimits, maxDescriptors: 3 },
      tooLarge: tooLargeRequests({ onTooLarge: () => void seen.push('counted') }),
      onLongTexts: () => {},
      onInvalidUtf8Values: () => {},
      onFault: () => {},
    });
    return [request?.descriptors.length, ...seen];
  }

  it('gives what the caller may ask, whole or not at all', () => {
    expect(read(demanding)).toEqual([3, `rights ${Right.RESERVE | Right.REFUND | Right.OVERRIDE} in d`]);
    expect(read(requestBytes, { code: 7, message: 'no' })).toEqual([
      ...[undefined, `rights ${Right.RESERVE} in d`, '7 no'],
    ]);
    expect(read(Uint8Array.of(1))[0]).toBeUndefined();
    const tooMany = read(Buffer.from(`0a0164${'1200'.repeat(4)}`, 'hex'));
    expect([tooMany[0], tooMany[1], String(tooMany[2]).slice(0, 2)]).toEqual([undefined, 'counted', '3 ']);
  });
});

describe('a call that reports usage', () => {
  const error = new RequestTooLarge('REQUEST_MAX_DESCRIPTORS', 'why', 2);

  it.each([
    ['over_limit', false, { code: 3, message: 'why' }, ['counted']],
    ['over_limit', true, undefined, ['counted', 'shadow']],
    ['error', true, { code: 3, message: 'why' }, ['counted']],
  ] as const)(
    'fails beyond its bounds with REQUEST_TOO_LARGE=%s, SHADOW_MODE=%s',
    (answer, shadowMode, status, events) => {
      const seen: string[] = [];
      const requests = tooLargeRequests({
        ...{ answer, shadowMode },
        onTooLarge: () => void seen.push('counted'),
        onGlobalShadow: () => void seen.push('shadow'),
      });
      expect([requests.unreported(error, undefined), seen]).toEqual([status, events]);
    },
  );
});

it.each([false, true])('answers what is beyond the rate of its caller, with SHADOW_MODE=%s', (shadowMode) => {
  let shadows = 0;
  const excess = new ExcessResponses({ shadowMode, onGlobalShadow: () => void shadows++ });
  const overallCode = shadowMode ? Code.OK : Code.OVER_LIMIT;
  expect(excess.code()).toBe(overallCode);
  const { responseHeadersToAdd, ...answer } = fromBinary(RateLimitResponseSchema, excess.message());
  expect(answer).toMatchObject({ overallCode, statuses: [] });
  const headers = responseHeadersToAdd.map(({ key, value }) => `${key}: ${value}`);
  expect(headers).toEqual(shadowMode ? [] : ['Retry-After: 1']);
  expect(shadows).toBe(shadowMode ? 2 : 0);
});
