import { create } from '@bufbuild/protobuf';
import { expect, it } from 'vitest';
import {
  RateLimitRequestSchema,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { Unit } from '../../rules/model.ts';
import { describeAnswer } from './ask-command.ts';

it('reports every descriptor whether a limit applies and what is left of it', () => {
  const request = create(RateLimitRequestSchema, {
    domain: 'shop',
    descriptors: [
      {
        entries: [
          { key: 'path', value: '/a' },
          { key: 'plan', value: '' },
        ],
      },
      { entries: [{ key: 'k', value: 'v' }] },
      { entries: [{ key: 'free', value: '1' }] },
    ],
  });
  const response = create(RateLimitResponseSchema, {
    overallCode: 2,
    statuses: [
      {
        code: 2,
        currentLimit: { name: 'per_plan', requestsPerUnit: 5, unit: 7 },
        durationUntilReset: { seconds: 37n },
      },
      { code: 1 },
      { code: 1, limitRemaining: 4_294_967_295 },
    ],
    responseHeadersToAdd: [{ key: 'RateLimit-Limit', value: '5' }],
  });
  expect(describeAnswer(request, response)).toBe(
    [
      'OVER_LIMIT',
      '  path=/a,plan=: OVER_LIMIT, 0 left, limit 5 per week (per_plan), resets in 37 s',
      '  k=v: OK, no rule limits it ("weir explain" shows why)',
      '  free=1: OK, unlimited',
      '  RateLimit-Limit: 5',
      '',
    ].join('\n'),
  );
});

it('says the unit of a limit', () => {
  const request = create(RateLimitRequestSchema, { descriptors: [{ entries: [{ key: 'k', value: 'v' }] }] });
  const response = create(RateLimitResponseSchema, {
    overallCode: 1,
    statuses: [{ code: 1, currentLimit: { requestsPerUnit: 5, unit: 3 }, limitRemaining: 4 }],
  });
  expect(describeAnswer(request, response)).toBe('OK\n  k=v: OK, 4 left, limit 5 per hour\n');
});

it.each<[number, Unit, number, string]>([
  [100, Unit.UNKNOWN, 95, '95 left, limit 100'],
  [10, Unit.MINUTE, 1, '1 left, limit 10 per minute'],
  [5, Unit.SECOND, 19, '19 left, limit 5 per second'],
  [4_294_967_295, Unit.DAY, 4_294_967_295, '4294967295 or more left, limit 4294967295 or more per day'],
])(
  'says what is left of a window that is no unit, of a bucket, and beyond 32 bits: %d, unit %d, %d left',
  (requestsPerUnit, unit, limitRemaining, words) => {
    const request = create(RateLimitRequestSchema, {
      descriptors: [{ entries: [{ key: 'k', value: 'v' }] }],
    });
    const response = create(RateLimitResponseSchema, {
      overallCode: 1,
      statuses: [{ code: 1, currentLimit: { requestsPerUnit, unit }, limitRemaining }],
    });
    expect(describeAnswer(request, response)).toBe(`OK\n  k=v: OK, ${words}\n`);
  },
);
