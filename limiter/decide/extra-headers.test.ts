import { fromBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { parseItem, parseList } from 'structured-headers';
import { describe, expect, it } from 'vitest';
import { RateLimitResponseSchema } from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import { Unit } from '../../rules/model.ts';
import { limitedPlan, type MatchedTraits } from '../../test/support/matched-rule.ts';
import { bareResponse } from '../../test/support/plain-service.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit as matchedLimit } from '../../test/support/rule-builder.ts';
import type { LimitedPlan, Plan } from './limit-plan.ts';
import { Code } from './messages.ts';
import { assembleResponse, type ResponseOptions } from './response.ts';
import type { DescriptorStatus } from './response-message.ts';
import { encodeRateLimitResponse } from './wire-codec.ts';

interface Answered {
  plan: LimitedPlan;
  remaining?: number;
  seconds?: number;
  over?: boolean;
  used?: number;
  /** The index of the limit that answers. */
  at?: number;
}

function answer(parts: readonly Answered[], options: Partial<ResponseOptions>) {
  const plans: Plan[] = parts.map(({ plan }) => plan);
  const statuses = parts.map(
    ({ plan, remaining = 4, seconds = 42, over = false, used = 6, at = 0 }): DescriptorStatus => ({
      code: over ? Code.OVER_LIMIT : Code.OK,
      currentLimit: plan.limits[at]!.currentLimit,
      limitRemaining: over ? 0 : remaining,
      durationUntilResetSeconds: seconds,
      plan: plan.limits[at]!,
      used,
    }),
  );
  const request = { domain: 'shop', descriptors: [], hitsAddend: 0 };
  const response = assembleResponse(
    { request, plans, statuses },
    { ...bareResponse, ...options },
    {
      onGlobalShadow: () => {},
    },
  );
  return fromBinary(RateLimitResponseSchema, encodeRateLimitResponse(response));
}

const headersOf = (parts: readonly Answered[], options: Partial<ResponseOptions>): [string, string][] =>
  answer(parts, options).responseHeadersToAdd.map(({ key, value }) => [key, value]);

const plan = (traits: MatchedTraits = {}): LimitedPlan =>
  limitedPlan({ path: 'shop.remote_address', ...traits });

describe('the headers of the IETF draft', () => {
  const ietf = { ietfUnit: 'requests' };

  it('report policy and standing of one limit', () => {
    expect(headersOf([{ plan: plan() }], ietf)).toEqual([
      ['RateLimit-Policy', '"1m";q=10;w=60'],
      ['RateLimit', '"1m";r=4;t=42'],
    ]);
  });

  it('name every limit of every descriptor, each once, and the place of each descriptor', () => {
    const several = plan({
      limits: [matchedLimit({ name: 'burst', unit: Unit.SECOND }), matchedLimit({ name: 'fair' })],
    });
    expect(
      headersOf([{ plan: several, at: 1 }, { plan: plan(), over: true }, { plan: plan() }], ietf),
    ).toEqual([
      ['RateLimit-Policy', '"burst";q=10;w=1, "fair";q=10;w=60, "1m";q=10;w=60, "1m-2";q=10;w=60'],
      ['RateLimit', '"fair";r=4;t=42, "1m";r=0;t=42, "1m-2";r=4;t=42'],
    ]);
  });

  it('show the unit of quotas if it is not the default, and the burst of a bucket', () => {
    const bucket = plan({ algorithm: Algorithm.TOKEN_BUCKET, burst: 50 });
    expect(headersOf([{ plan: bucket }], { ietfUnit: 'content-bytes' })[0]).toEqual([
      'RateLimit-Policy',
      '"1m";q=10;qu="content-bytes";w=60;weir-burst=50',
    ]);
  });

  it('show no name of a rule that hides itself', () => {
    const hidden = plan({ name: 'secret-plan', hideIdentity: true });
    expect(headersOf([{ plan: hidden }], ietf)[1]).toEqual(['RateLimit', '"1m";r=4;t=42']);
  });

  it('are lists of items that a parser of structured fields reads, whatever the names', () => {
    const limit = fc.record({
      name: fc.string({ unit: 'binary', maxLength: 40 }),
      requestsPerUnit: fc.oneof(fc.nat({ max: 9 }), fc.integer({ min: 0, max: 0xffff_ffff })),
      remaining: fc.oneof(fc.nat({ max: 99 }), fc.integer({ min: 0, max: 0xffff_ffff })),
      seconds: fc.nat({ max: 315_360_000 }),
    });
    fc.assert(
      fc.property(fc.array(limit, { minLength: 1, maxLength: 4 }), (limits) => {
        const parts = limits.map(({ name, requestsPerUnit, remaining, seconds }) => ({
          plan: plan({ name, requestsPerUnit }),
          remaining,
          seconds,
        }));
        const [policies, standing] = headersOf(parts, ietf).map(([, value]) => parseList(value));
        expect(policies!.map(([, traits]) => [traits.get('q'), traits.get('w')])).toEqual(
          limits.map(({ requestsPerUnit }) => [requestsPerUnit, 60]),
        );
        expect(standing!.map(([, traits]) => [traits.get('r'), traits.get('t')])).toEqual(
          limits.map(({ remaining, seconds }) => [remaining, seconds]),
        );
        const names = standing!.map(([name]) => name);
        expect(policies!.map(([name]) => name)).toEqual(names);
        expect(new Set(names).size).toBe(limits.length);
        for (const name of names) expect(typeof name).toBe('string');
      }),
      { numRuns: caseCount(300) },
    );
  });
});

describe('limits beyond 32 bits', () => {
  const max = Number.MAX_SAFE_INTEGER;
  const large = {
    plan: plan({ requestsPerUnit: max, hitsUnit: 'micro-dollars' }),
    remaining: max - 7,
    used: 7,
  };
  const names = { limit: 'L', remaining: 'R', reset: 'T' };

  it('are 2^32 - 1 in the fields of the protocol, and whole in headers and metadata', () => {
    const response = answer([large], {
      responseHeaders: names,
      requestHeaders: names,
      identityMetadata: true,
    });
    const [status] = response.statuses;
    expect([status!.currentLimit?.requestsPerUnit, status!.limitRemaining]).toEqual([
      0xffff_ffff, 0xffff_ffff,
    ]);
    for (const headers of [response.responseHeadersToAdd, response.requestHeadersToAdd])
      expect(headers.map(({ value }) => value)).toEqual([String(max), String(max - 7), '42']);
    const decidedBy = { limit: max, used: 7, hitsUnit: 'micro-dollars' };
    expect(response.dynamicMetadata).toMatchObject({ decidedBy });
    const below = answer([{ plan: plan({ requestsPerUnit: 2 ** 32 }), remaining: 2 ** 32 - 2 }], {});
    expect(below.statuses[0]!.limitRemaining).toBe(2 ** 32 - 2);
  });

  it('are as large as a structured field has room for if that is less', () => {
    const [policy, standing] = headersOf([large], { ietfUnit: 'requests' }).map(([, value]) => value);
    expect(policy).toBe('"1m";q=999999999999999;qu="micro-dollars";w=60');
    expect(standing).toBe('"1m";r=999999999999999;t=42');
    const both = headersOf([large, large], { ietfUnit: 'requests' });
    expect(both[1]![1]).toContain('"1m-2";r=999999999999999;t=42');
    expect(headersOf([large], { identityHeader: 'X' })[0]![1]).toContain(
      ';limit=999999999999999;hits-unit="micro-dollars";window="1m";',
    );
  });
});

describe('windows of a calendar', () => {
  const calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 } as const;
  const monthly = plan({ unit: Unit.MONTH, calendar, hitsUnit: 'tokens' });

  it('have a name and no length', () => {
    expect(headersOf([{ plan: monthly }], { ietfUnit: 'content-bytes' })).toEqual([
      ['RateLimit-Policy', '"month@Europe/Zurich@15";q=10;qu="tokens"'],
      ['RateLimit', '"month@Europe/Zurich@15";r=4;t=42'],
    ]);
  });

  it('are notified of the limit that decided', () => {
    const { dynamicMetadata } = answer([{ plan: monthly }], { identityMetadata: true });
    expect(dynamicMetadata).toMatchObject({
      decidedBy: { window: 'month@Europe/Zurich@15', hitsUnit: 'tokens' },
    });
  });
});

describe('the limit that decided', () => {
  const metadata = { identityMetadata: true };
  const header = { identityHeader: 'X-RateLimit-Rule' };

  it('is named in the dynamic metadata: the limit that was exceeded, else the nearest', () => {
    const near = plan({ name: 'near', path: 'shop.b' });
    expect(
      answer([{ plan: plan() }, { plan: near, remaining: 1, used: 9 }], metadata).dynamicMetadata,
    ).toEqual({
      decidedBy: {
        domain: 'shop',
        rule: 'shop.b',
        name: 'near',
        used: 9,
        limit: 10,
        window: '1m',
        algorithm: 'fixed_window',
      },
    });
    const refusing = answer(
      [
        { plan: plan(), over: true, used: 11 },
        { plan: near, remaining: 0 },
      ],
      metadata,
    );
    expect(refusing.dynamicMetadata).toMatchObject({ decidedBy: { rule: 'shop.remote_address', used: 11 } });
  });

  it('appears beside what RESPONSE_DYNAMIC_METADATA reports', () => {
    const both = answer([{ plan: plan() }], { ...metadata, dynamicMetadata: true });
    expect(both.dynamicMetadata).toMatchObject({ domain: 'shop', descriptors: [], decidedBy: { used: 6 } });
  });

  it('is named in a header that a parser of structured fields reads, whatever its place', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', minLength: 1 }),
        fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
        (path, used) => {
          const [[key, value]] = headersOf([{ plan: plan({ path }), used }], header) as [[string, string]];
          const [domain, traits] = parseItem(value);
          expect([key, domain, traits.get('limit'), traits.get('window')]).toEqual([
            'X-RateLimit-Rule',
            'shop',
            10,
            '1m',
          ]);
          expect(traits.get('used')).toBe(Math.min(used, 999_999_999_999_999));
        },
      ),
      { numRuns: caseCount(300) },
    );
  });

  it('is not named if its rule hides itself', () => {
    const hidden = [{ plan: plan({ hideIdentity: true }) }];
    const response = answer(hidden, { ...metadata, ...header });
    expect([response.dynamicMetadata, response.responseHeadersToAdd]).toEqual([undefined, []]);
  });
});

describe('Retry-After', () => {
  const retry = (parts: readonly Answered[], options: Partial<ResponseOptions> = {}) =>
    headersOf(parts, { retryAfter: true, ...options });

  it('is only on answers over limit', () => {
    expect(retry([{ plan: plan() }])).toEqual([]);
    expect(retry([{ plan: plan(), over: true }], { shadowMode: true })).toEqual([]);
    expect(retry([{ plan: plan(), over: true, seconds: 7 }])).toEqual([['Retry-After', '7']]);
  });

  it('waits for the longest of the exceeded limits, and for the first quota', () => {
    const quota = plan({ quotaMode: true });
    const over = (one: LimitedPlan, seconds: number): Answered => ({ plan: one, over: true, seconds });
    expect(retry([over(plan(), 7), over(plan(), 90), { plan: plan(), seconds: 500 }])[0]![1]).toBe('90');
    expect(retry([over(quota, 70), over(quota, 9)])[0]![1]).toBe('9');
    expect(retry([over(quota, 70), over(plan(), 9)])[0]![1]).toBe('70');
    expect(retry([{ plan: quota, seconds: 70 }, over(plan(), 9)])[0]![1]).toBe('9');
  });
});

describe('marks of limits', () => {
  const warned = (mark: number, left: number, traits: MatchedTraits): DescriptorStatus => {
    const warnedPlan = plan({ requestsPerUnit: 100, ...traits }).limits[0]!;
    return {
      ...{ code: Code.OK, currentLimit: undefined, limitRemaining: left, durationUntilResetSeconds: 1 },
      warnings: [{ mark, plan: warnedPlan, used: 100 - left, left }],
    };
  };
  const asked = (statuses: DescriptorStatus[], options: Partial<ResponseOptions>) =>
    assembleResponse(
      {
        request: { domain: 'shop', descriptors: [], hitsAddend: 0 },
        plans: statuses.map(() => plan()),
        statuses,
      },
      { ...bareResponse, ...options },
      { onGlobalShadow: () => {} },
    );

  it('are a header, the highest first, which is a list of structured fields', () => {
    const statuses = [
      warned(50, 50, { name: 'per "user"' }),
      warned(95, 4, { unit: Unit.DAY }),
      { ...warned(80, 1, {}), warnings: undefined } as unknown as DescriptorStatus,
      warned(80, 2e15, { name: 'secret', hideIdentity: true }),
    ];
    const { responseHeadersToAdd: headers } = asked(statuses, { warningHeader: 'X-Mark' });
    expect(headers).toEqual([
      {
        key: 'X-Mark',
        value: '95;policy="1d";r=4, 80;policy="1m";r=999999999999999, 50;policy="per \\"user\\"";r=50',
      },
    ]);
    expect(parseList(headers[0]!.value).map(([mark]) => mark)).toEqual([95, 80, 50]);
  });

  it('are in the metadata beside what else is there', () => {
    const statuses = [warned(50, 50, { name: 'daily' }), warned(80, 20, { name: 'x', hideIdentity: true })];
    expect(asked(statuses, { dynamicMetadata: true }).dynamicMetadata).toEqual({
      domain: 'shop',
      descriptors: [],
      warnings: [
        { mark: 50, policy: 'daily', rule: 'shop.remote_address', limit: 100, used: 50, left: 50 },
        { mark: 80, policy: '1m', limit: 100, used: 80, left: 20 },
      ],
    });
    expect(asked(statuses, { identityMetadata: true }).dynamicMetadata).toEqual({
      warnings: expect.any(Array),
    });
  });

  it('are not reported if they are not enabled', () => {
    const { responseHeadersToAdd, dynamicMetadata } = asked([warned(50, 50, {})], {});
    expect([responseHeadersToAdd, dynamicMetadata]).toEqual([[], undefined]);
  });

  it('are eight at most in a header', () => {
    const statuses = Array.from({ length: 12 }, (_, at) => warned(at + 1, 9, { name: `l${at}` }));
    const { responseHeadersToAdd } = asked(statuses, { warningHeader: 'w' });
    expect(parseList(responseHeadersToAdd[0]!.value).map(([mark]) => mark)).toEqual([
      12, 11, 10, 9, 8, 7, 6, 5,
    ]);
  });
});
