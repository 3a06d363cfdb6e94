import { describe, expect, it } from 'vitest';
import type { MatchedRule } from '../../rules/match-result.ts';
import { type JsonObject, Unit } from '../../rules/model.ts';
import { limitedPlan, matchedRule } from '../../test/support/matched-rule.ts';
import { Code, type Descriptor, type DescriptorStatus, type RateLimitRequest } from './messages.ts';
import { noLimit, type Plan } from './plan.ts';
import { dynamicMetadata, mergeMetadata, okStatus } from './response.ts';

function descriptor(fields: Partial<Descriptor> = {}): Descriptor {
  return { entries: [], limit: undefined, hitsAddend: undefined, isNegativeHits: false, ...fields };
}

function request(fields: Partial<RateLimitRequest> = {}): RateLimitRequest {
  return { domain: 'd', descriptors: [descriptor()], hitsAddend: 0, ...fields };
}

function rule(metadata: JsonObject | undefined, unlimited = false): MatchedRule {
  const unit = unlimited ? Unit.UNKNOWN : Unit.DAY;
  return matchedRule({ unit, requestsPerUnit: 1, unlimited, metadata });
}

const limited = (metadata: JsonObject | undefined): Plan =>
  limitedPlan({ unit: Unit.DAY, requestsPerUnit: 1, metadata });
const overStatus: DescriptorStatus = { ...okStatus, code: Code.OVER_LIMIT };

describe('dynamicMetadata', () => {
  it('tells the request', () => {
    const told = dynamicMetadata(
      request({
        descriptors: [
          descriptor({
            entries: [
              { key: 'a', value: '1' },
              { key: 'b', value: '' },
            ],
          }),
          descriptor({ hitsAddend: 0, limit: { requestsPerUnit: 10, unit: Unit.DAY } }),
        ],
        hitsAddend: 3,
      }),
      [noLimit, noLimit],
      [okStatus, okStatus],
    );
    expect(told).toEqual({
      domain: 'd',
      descriptors: [
        { entries: ['a=1', 'b='] },
        { entries: [], limit: 'requests_per_unit:10 unit:DAY', hitsAddend: 0 },
      ],
      hitsAddend: 3,
    });
  });

  it.each([
    [{ requestsPerUnit: 0, unit: 2 }, 'unit:MINUTE'],
    [{ requestsPerUnit: 4, unit: 0 }, 'requests_per_unit:4'],
    [{ requestsPerUnit: 4, unit: 7 }, 'requests_per_unit:4 unit:7'],
    [{ requestsPerUnit: 4, unit: 99 }, 'requests_per_unit:4 unit:99'],
    [{ requestsPerUnit: 0, unit: 0 }, ''],
  ])('writes the limit %j of a request as "%s"', (limit, text) => {
    const told = dynamicMetadata(request({ descriptors: [descriptor({ limit })] }), [noLimit], [okStatus]);
    expect(told['descriptors']).toEqual([{ entries: [], limit: text }]);
  });

  it('merges the metadata of the rules that let the request pass, in order', () => {
    const plans = [
      limited({ first: 1, both: 'first' }),
      limited(undefined),
      limited({ refused: true }),
      { kind: 'unlimited', rule: rule({ unlimited: true }, true) } satisfies Plan,
      limited({ both: 'last', last: [1] }),
    ];
    const statuses = plans.map((_, index) => (index === 2 ? overStatus : okStatus));
    expect(dynamicMetadata(request(), plans, statuses)['metadata']).toEqual({
      first: 1,
      both: 'first',
      last: [1],
    });
  });

  it('has no metadata when no rule has any', () => {
    expect(dynamicMetadata(request(), [limited({})], [okStatus])).not.toHaveProperty('metadata');
  });

  it('leaves the metadata of the rules alone', () => {
    const first = { deep: { a: 1 } };
    const second = { deep: { b: 2 }, other: { c: 3 } };
    const plans = [limited(first), limited(second), limited({ other: { d: 4 } })];
    const statuses = plans.map(() => okStatus);
    const expected = { deep: { a: 1, b: 2 }, other: { c: 3, d: 4 } };
    expect(dynamicMetadata(request(), plans, statuses)['metadata']).toEqual(expected);
    expect(dynamicMetadata(request(), plans, statuses)['metadata']).toEqual(expected);
    expect(first).toEqual({ deep: { a: 1 } });
    expect(second).toEqual({ deep: { b: 2 }, other: { c: 3 } });
  });
});

describe('mergeMetadata', () => {
  it.each<[string, JsonObject, JsonObject, JsonObject]>([
    ['adds new keys', { a: 1 }, { b: 2 }, { a: 1, b: 2 }],
    ['keeps the first of two values', { a: 1 }, { a: 2 }, { a: 1 }],
    ['keeps the first of two lists', { a: [1] }, { a: [2] }, { a: [1] }],
    ['keeps a null', { a: null }, { a: 2 }, { a: null }],
    ['keeps a value from an object', { a: 1 }, { a: { b: 2 } }, { a: 1 }],
    ['keeps an object from a value', { a: { b: 2 } }, { a: 1 }, { a: { b: 2 } }],
    [
      'merges objects in objects',
      { a: { b: { c: 1 } } },
      { a: { b: { c: 9, d: 2 } } },
      { a: { b: { c: 1, d: 2 } } },
    ],
  ])('%s', (_, target, source, expected) => {
    mergeMetadata(target, source);
    expect(target).toEqual(expected);
  });

  it('takes __proto__ for a key like any other', () => {
    const target = Object.create(null) as JsonObject;
    mergeMetadata(
      target,
      JSON.parse('{"__proto__": {"polluted": true}, "in": {"__proto__": {"deep": 1}}}') as JsonObject,
    );
    expect(Object.keys(target)).toEqual(['__proto__', 'in']);
    expect(JSON.stringify(target)).toBe('{"__proto__":{"polluted":true},"in":{"__proto__":{"deep":1}}}');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});
