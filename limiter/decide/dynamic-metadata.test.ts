import { describe, expect, it } from 'vitest';
import type { MatchedRule } from '../../rules/match-result.ts';
import { type JsonObject, Unit } from '../../rules/model.ts';
import { limitedPlan, type MatchedTraits, matchedRule } from '../../test/support/matched-rule.ts';
import { dynamicMetadata, mergeMetadata } from './dynamic-metadata.ts';
import type { Plan } from './limit-plan.ts';
import { Code, type Descriptor, type RateLimitRequest } from './messages.ts';
import { noLimit } from './plan.ts';
import { okStatus, unlimitedStatus } from './response.ts';
import type { DescriptorStatus } from './response-message.ts';

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

const metadataOf = (
  asked: RateLimitRequest,
  plans: readonly Plan[],
  statuses: DescriptorStatus[],
  quotaModeForAll = false,
): JsonObject => dynamicMetadata({ request: asked, plans, statuses }, quotaModeForAll);

describe('dynamicMetadata', () => {
  it('reports the request', () => {
    const reported = metadataOf(
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
    expect(reported).toEqual({
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
    const reported = metadataOf(request({ descriptors: [descriptor({ limit })] }), [noLimit], [okStatus]);
    expect(reported['descriptors']).toEqual([{ entries: [], limit: text }]);
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
    expect(metadataOf(request(), plans, statuses)['metadata']).toEqual({
      first: 1,
      both: 'first',
      last: [1],
    });
  });

  it('has no metadata when no rule has any', () => {
    expect(metadataOf(request(), [limited({})], [okStatus])).not.toHaveProperty('metadata');
  });

  it('leaves the metadata of the rules alone', () => {
    const first = { deep: { a: 1 } };
    const second = { deep: { b: 2 }, other: { c: 3 } };
    const plans = [limited(first), limited(second), limited({ other: { d: 4 } })];
    const statuses = plans.map(() => okStatus);
    const expected = { deep: { a: 1, b: 2 }, other: { c: 3, d: 4 } };
    expect(metadataOf(request(), plans, statuses)['metadata']).toEqual(expected);
    expect(metadataOf(request(), plans, statuses)['metadata']).toEqual(expected);
    expect(first).toEqual({ deep: { a: 1 } });
    expect(second).toEqual({ deep: { b: 2 }, other: { c: 3 } });
  });
});

describe('the quotas that have something left', () => {
  const quota = (name: string, order: number, traits: MatchedTraits = {}): Plan =>
    limitedPlan({
      ...{ unit: Unit.DAY, requestsPerUnit: 100, quotaMode: true, order },
      ...{ path: `d.backend_${name}`, metadata: { cluster: name }, ...traits },
    });
  const asked = (...names: string[]): RateLimitRequest =>
    request({
      descriptors: names.map((value) =>
        descriptor({ entries: [...(value === '' ? [] : [{ key: 'backend', value }])] }),
      ),
    });
  const status = (plan: Plan, left: number): DescriptorStatus => ({
    code: left > 0 ? Code.OK : Code.OVER_LIMIT,
    currentLimit: undefined,
    limitRemaining: left,
    durationUntilResetSeconds: 60,
    plan: plan.kind === 'limited' ? plan.limits[0] : undefined,
    used: 100 - left,
  });

  it('come in the order of the rules, whatever the order of the descriptors', () => {
    const plans = [quota('c', 3), quota('b', 2), quota('a', 1, { hitsUnit: 'tokens', name: 'daily' })];
    const statuses = [status(plans[0]!, 7), status(plans[1]!, 0), status(plans[2]!, 30)];
    expect(metadataOf(asked('c', 'b', 'a'), plans, statuses)['quotas']).toEqual([
      {
        ...{ name: 'daily', rule: 'd.backend_a', limit: 100, unit: 'tokens', used: 70, left: 30, reset: 60 },
        metadata: { cluster: 'a' },
      },
      {
        ...{ name: 'c', rule: 'd.backend_c', limit: 100, unit: 'requests', used: 93, left: 7, reset: 60 },
        metadata: { cluster: 'c' },
      },
    ]);
  });

  it('are none if all are used up, and are not reported if there are none', () => {
    const over = quota('a', 1);
    expect(metadataOf(asked('a'), [over], [status(over, 0)])['quotas']).toEqual([]);
    expect(metadataOf(asked('a'), [limited({})], [okStatus])).not.toHaveProperty('quotas');
    expect(metadataOf(asked('a'), [noLimit], [okStatus], true)).not.toHaveProperty('quotas');
  });

  it('have the last that passed, and nothing is used up by a read', () => {
    const last = quota('a', 1);
    const passed = { ...status(last, 0), code: Code.OK };
    expect(metadataOf(asked('a'), [last], [passed])['quotas']).toHaveLength(1);
    const looking = request({ descriptors: [descriptor({ hitsAddend: 0 })] });
    expect(metadataOf(looking, [last], [passed])['quotas']).toEqual([]);
    expect(metadataOf(looking, [last], [status(last, 1)])['quotas']).toHaveLength(1);
  });

  it('have a rule without limit, and one that could not be counted, without numbers', () => {
    const traits = { unlimited: true, quotaMode: true, order: 9, path: 'd.backend_own' };
    const own: Plan = { kind: 'unlimited', rule: matchedRule(traits) };
    const uncounted = quota('a', 1, { metadata: undefined });
    expect(metadataOf(asked('own', 'a'), [own, uncounted], [unlimitedStatus, okStatus])['quotas']).toEqual([
      { name: 'a', rule: 'd.backend_a' },
      { name: 'own', rule: 'd.backend_own' },
    ]);
  });

  it('name no rule that hides itself', () => {
    const hidden = quota('a', 1, { name: 'secret', hideIdentity: true, metadata: undefined });
    expect(metadataOf(asked('a'), [hidden], [status(hidden, 1)])['quotas']).toEqual([
      { name: 'a', limit: 100, unit: 'requests', used: 99, left: 1, reset: 60 },
    ]);
  });

  it('are all limited descriptors with QUOTA_MODE', () => {
    const plain = limited({});
    expect(metadataOf(asked('a'), [plain], [status(plain, 5)], true)['quotas']).toHaveLength(1);
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
