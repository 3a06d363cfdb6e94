import { create, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  RateLimitConfigSchema,
  RateLimitOverrideSchema,
} from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { maxRequests, Unit } from '../model.ts';
import type { Override } from '../override.ts';
import { decodeOverride, encodeOverride, encodeResource, resourceHead } from './resource.ts';

const one: Override = {
  id: '7c1f-uid',
  source: 'object',
  name: 'shop/raise',
  domain: 'shop',
  match: [{ key: 'tenant', value: 'a*' }],
  limit: 'daily',
  effect: { kind: 'limit', requestsPerUnit: 100, unit: Unit.MINUTE },
  createdMs: 1_795_000_000_123,
  endsMs: 1_795_000_900_000,
  reason: 'a bad merge',
  by: 'ada',
};

describe('override resources', () => {
  it('come back as they were, whatever their effect and end', () => {
    const effect = fc.oneof(
      fc.record({
        kind: fc.constant('limit' as const),
        requestsPerUnit: fc.oneof(fc.nat(), fc.constantFrom(0, 2 ** 32 - 1, 2 ** 32, maxRequests)),
        unit: fc.constantFrom(undefined, Unit.SECOND, Unit.WEEK),
      }),
      fc.constantFrom(
        { kind: 'unlimited' as const },
        { kind: 'shadow' as const },
        { kind: 'block' as const },
      ),
      fc.record({ kind: fc.constant('grant' as const), hits: fc.integer({ min: 1, max: maxRequests }) }),
    );
    fc.assert(
      fc.property(effect, fc.option(fc.integer({ min: 1, max: 4e12 }), { nil: undefined }), (of, end) => {
        const isGrant = of.kind === 'grant';
        const override: Override = {
          ...one,
          effect: of,
          match: isGrant ? [{ key: 'tenant', value: 'a' }] : one.match,
          endsMs: isGrant ? undefined : end,
        };
        const bytes = encodeOverride(override);
        expect(resourceHead(bytes)).toEqual({ domain: 'shop', isOverride: true });
        expect(decodeOverride(bytes)).toEqual({ override });
      }),
    );
  });

  it('are distinguished from rules', () => {
    const bytes = encodeResource({ name: 'shop', domain: 'shop', descriptors: [] });
    expect(resourceHead(bytes)).toEqual({ domain: 'shop', isOverride: false });
  });

  it('are rejected with everything that is wrong', () => {
    const bytes = toBinary(
      RateLimitConfigSchema,
      create(RateLimitConfigSchema, {
        name: 'shop/x',
        domain: 'shop',
        override: create(RateLimitOverrideSchema, { uid: 'u' }),
      }),
    );
    expect(decodeOverride(bytes).override).toBeUndefined();
    expect(decodeOverride(bytes)).toEqual({
      problems: [
        {
          path: [],
          text: 'must have exactly one of requestsPerUnit, unlimited, shadow, block, grant, found none',
        },
        { path: ['match'], text: 'must have 1 to 32 entries, and has 0' },
      ],
      unknown: [],
    });
  });
});
