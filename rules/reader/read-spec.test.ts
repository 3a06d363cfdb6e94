import { describe, expect, it } from 'vitest';
import { acceptedSpecs, rejectedSpecs } from '../../test/support/rejected-specs.ts';
import { limit, rule } from '../../test/support/rule-builder.ts';
import { Algorithm } from '../algorithms/registry.ts';
import { manifestWords } from '../language/tables.ts';
import { formatManifestError } from '../rule-error.ts';
import { readSpec } from './manifest-reader.ts';

function errorsOf(spec: unknown): string[] {
  const reading = readSpec(spec, 'team/shop');
  return reading.ok ? [] : reading.errors.map(formatManifestError);
}

describe('readSpec', () => {
  it.each(rejectedSpecs)('rejects $name', ({ spec, reader }) => {
    expect(errorsOf(spec)).toEqual(reader);
  });

  it.each(acceptedSpecs)('accepts $name', ({ spec }) => {
    expect(errorsOf(spec)).toEqual([]);
  });

  it('does not mention a lease whose limit is not of its form', () => {
    expect(errorsOf({ domain: 'd', descriptors: [{ key: 'k', rateLimit: 5, lease: '2%' }] })).toEqual([
      'spec.descriptors[0].rateLimit: must be an object, found 5',
    ]);
  });

  it('makes rules of every field', () => {
    const spec = acceptedSpecs.find(({ name }) => name === 'every field of a rule')?.spec;
    expect(readSpec(spec, 'team/shop')).toEqual({
      ok: true,
      className: 'weir',
      fleet: 'blue-2',
      rules: 2,
      ownFields: ['hideIdentity', 'lease', 'shareThreshold', 'valueToMetric'],
      source: {
        name: 'team/shop',
        domain: 'shop',
        descriptors: [
          rule({
            key: 'path',
            value: '/search*',
            rateLimit: limit({ requestsPerUnit: 4294967295, name: 'search', replaces: ['all'] }),
            shadowMode: true,
            quotaMode: true,
            detailedMetric: true,
            valueToMetric: true,
            shareThreshold: true,
            hideIdentity: true,
            lease: 5_000,
            metadata: { team: 'search', list: [1, null, { deep: true }] },
            descriptors: [
              rule({ key: 'plan', rateLimit: limit({ unit: '', requestsPerUnit: 0, unlimited: true }) }),
            ],
          }),
        ],
      },
    });
  });

  it('makes limits of what only this project knows', () => {
    const spec = acceptedSpecs.find(({ name }) => name.startsWith('windows of any length'))?.spec;
    const result = readSpec(spec, 'n');
    const limits = result.ok ? result.source.descriptors.flatMap((one) => one.limits) : [];
    expect(limits).toEqual([
      limit({ requestsPerUnit: 1, unitMultiplier: 5, algorithm: Algorithm.SLIDING_WINDOW }),
      limit({ requestsPerUnit: 1, unit: 'year', unitMultiplier: 10 }),
      limit({ requestsPerUnit: 1, unitMultiplier: 90, algorithm: Algorithm.TOKEN_BUCKET, burst: 0 }),
      limit({ requestsPerUnit: 1, unit: 'second', unitMultiplier: 65_535 }),
    ]);
    const several = acceptedSpecs.find(({ name }) => name.startsWith('eight limits'))?.spec;
    const read = readSpec(several, 'n');
    expect(read.ok && read.source.descriptors[0]?.limits.map((one) => one.name)).toEqual(
      ['', ...'1234567'].map((n) => n && `n${n}`),
    );
  });

  it('rejects limits that exclude each other', () => {
    const minute = { unit: 'minute', requestsPerUnit: 1 };
    const rateLimits = [minute, { window: '60s', requestsPerUnit: 2, name: 'n' }, { ...minute, name: 'n' }];
    expect(errorsOf({ domain: 'd', descriptors: [{ key: 'k', rateLimits }] })).toEqual([
      'spec.descriptors[0].rateLimits[1].unit: two of its rateLimits have the window 1m and the algorithm FixedWindow',
      "spec.descriptors[0].rateLimits[2].name: two of its rateLimits have the name 'n'",
      'spec.descriptors[0].rateLimits[2].unit: two of its rateLimits have the window 1m and the algorithm FixedWindow',
    ]);
  });

  it('says what numbers a field can have', () => {
    const rateLimit = { unit: 'day', requestsPerUnit: 0.5, unitMultiplier: 1.5 };
    expect(errorsOf({ domain: 'd', descriptors: [{ key: 'k', rateLimit }] })).toEqual([
      'spec.descriptors[0].rateLimit.unitMultiplier: must be a whole number from 1 to 65535, found 1.5',
      'spec.descriptors[0].rateLimit.requestsPerUnit: must be a whole number from 0 to 9007199254740991, found 0.5',
    ]);
  });

  it('speaks of rules in the words of manifests, except for what is quoted', () => {
    expect(manifestWords("algorithm token_bucket of 'rate_limits' needs requests_per_unit, not 5m_x")).toBe(
      "algorithm TokenBucket of 'rate_limits' needs requestsPerUnit, not 5m_x",
    );
  });

  it('says where fields belong', () => {
    const limits = [{ window: '1s', requestsPerUnit: 1, shadowMode: true, unit_multiplier: 2 }];
    const rules = [
      { key: 'k', algorithm: 'TokenBucket', rateLimits: [...limits, ...limits], unit_multiplier: 1 },
    ];
    expect(errorsOf({ domain: 'd', descriptors: rules }).slice(0, 4)).toEqual([
      "spec.descriptors[0].rateLimits[0].shadowMode: unknown field, 'shadowMode' belongs to a descriptor",
      "spec.descriptors[0].rateLimits[0].unit_multiplier: unknown field, did you mean 'unitMultiplier'?",
      "spec.descriptors[0].rateLimits[1].shadowMode: unknown field, 'shadowMode' belongs to a descriptor",
      "spec.descriptors[0].rateLimits[1].unit_multiplier: unknown field, did you mean 'unitMultiplier'?",
    ]);
    expect(errorsOf({ domain: 'd', descriptors: rules }).slice(4, 6)).toEqual([
      "spec.descriptors[0].algorithm: unknown field, 'algorithm' belongs to rateLimit",
      "spec.descriptors[0].unit_multiplier: unknown field, 'unitMultiplier' belongs to rateLimit",
    ]);
  });

  it('is of the default fleet if none is written', () => {
    expect(readSpec({ domain: 'd' }, 'n')).toMatchObject({
      ok: true,
      fleet: 'default',
      rules: 0,
      ownFields: [],
    });
    expect(readSpec({ domain: 'd', fleet: null }, 'n')).toMatchObject({ ok: true, fleet: 'default' });
  });

  it('lists the errors of form and of meaning of every rule', () => {
    const descriptors = [
      { key: '', rateLimit: { unit: 'x', requestsPerUnit: '5x' } },
      { key: 'a', valueTometric: true },
      { key: 'a', descriptors: [{ key: 'b' }, { key: 'b' }] },
    ];
    expect(errorsOf({ domain: 'd', descriptors, 'odd key': 1 })).toEqual([
      "spec.descriptors[0].rateLimit.unit: invalid rate limit unit 'x'",
      "spec.descriptors[0].rateLimit.requestsPerUnit: must be a whole number from 0 to 9007199254740991, found the text '5x'",
      'spec.descriptors[1].valueTometric: unknown field',
      'spec["odd key"]: unknown field',
      'spec.descriptors[0].key: descriptor has empty key',
      "spec.descriptors[2].key: duplicate descriptor composite key 'd.a'",
      "spec.descriptors[2].descriptors[1].key: duplicate descriptor composite key 'd.a.b'",
    ]);
  });

  it('reports no error that follows from another', () => {
    const descriptors = [
      { key: 'a', value: 5 },
      { key: 'a', value: 6, shareThreshold: true },
      { key: 'a' },
      { key: 7, rateLimit: { unit: 8, requestsPerUnit: 1 } },
      { key: 9 },
      { key: 'b', rateLimit: 'day' },
    ];
    expect(errorsOf({ domain: 'd', descriptors })).toEqual([
      'spec.descriptors[0].value: must be a string, found 5',
      'spec.descriptors[1].value: must be a string, found 6',
      'spec.descriptors[3].key: must be a string, found 7',
      'spec.descriptors[3].rateLimit.unit: must be a string, found 8',
      'spec.descriptors[4].key: must be a string, found 9',
      "spec.descriptors[5].rateLimit: must be an object, found the text 'day'",
    ]);
  });

  it.each([
    [undefined, 'spec: is required'],
    [null, 'spec: must be an object, found null'],
    ['shop', "spec: must be an object, found the text 'shop'"],
    [[], 'spec: must be an object, found a list'],
  ])('rejects %j as a spec', (spec, message) => {
    const reading = readSpec(spec, 'n');
    expect(errorsOf(spec)).toEqual([message]);
    expect(reading).not.toHaveProperty('fleet');
    expect(reading).not.toHaveProperty('domain');
  });

  it('shows fleet and domain of a rejected spec if they are valid', () => {
    const descriptors = [{}];
    const [good, bad] = [
      { domain: 'd', fleet: 'blue', descriptors },
      { domain: 5, fleet: 'B', descriptors },
    ];
    expect(readSpec(good, 'n')).toMatchObject({ ok: false, domain: 'd', fleet: 'blue' });
    expect(readSpec(bad, 'n')).not.toHaveProperty('domain');
    expect(readSpec(bad, 'n')).not.toHaveProperty('fleet');
  });

  it('rejects what has no form in UTF-8', () => {
    expect(
      errorsOf({ domain: '\ud800', descriptors: [{ key: 'a\udc00', metadata: { x: '\ud800' } }] }),
    ).toEqual([
      'spec.domain: is not valid Unicode',
      'spec.descriptors[0].key: is not valid Unicode',
      "spec.descriptors[0].metadata: error parsing metadata: text at 'x' is not valid Unicode",
    ]);
  });

  it('bounds how deep metadata nests', () => {
    const nest = (levels: number): unknown => (levels === 0 ? 1 : { a: nest(levels - 1) });
    const spec = (metadata: unknown) => ({ domain: 'd', descriptors: [{ key: 'k', metadata }] });
    expect(errorsOf(spec(nest(16)))).toEqual([]);
    const message = 'spec.descriptors[0].metadata: must nest objects and lists at most 16 levels deep';
    expect(errorsOf(spec(nest(17)))).toEqual([message]);
    expect(errorsOf(spec({ list: JSON.parse(`${'['.repeat(9000)}${']'.repeat(9000)}`) }))).toEqual([message]);
  });

  it('survives a multiplier that is no whole number among several limits', () => {
    const rateLimits = [
      { unit: 'second', unitMultiplier: 1.5, requestsPerUnit: 1 },
      { unit: 'day', requestsPerUnit: 5 },
    ];
    expect(readSpec({ domain: 'd', descriptors: [{ key: 'k', rateLimits }] }, 'x')).toMatchObject({
      ok: false,
      errors: [{ text: 'must be a whole number from 1 to 65535, found 1.5' }],
    });
  });

  it('survives rules that nest without end', () => {
    const descriptors: unknown[] = [];
    for (let level = 0, list = descriptors; level < 5000; level++) {
      const below: unknown[] = [];
      list.push({ key: 'k', descriptors: below });
      list = below;
    }
    expect(errorsOf({ domain: 'd', descriptors })).toEqual([
      `spec${'.descriptors[0]'.repeat(8)}.descriptors: must be empty: rules nest at most 8 levels deep`,
    ]);
  });

  it('lists a thousand errors and counts them all', () => {
    const descriptors = Array.from({ length: 3000 }, () => ({ key: 5 }));
    const reading = readSpec({ domain: 'd', descriptors }, 'n');
    expect(reading).toMatchObject({ ok: false, errorCount: 3000 });
    expect(reading.ok ? [] : reading.errors).toHaveLength(1000);
  });

  it('takes names of JavaScript for unknown fields', () => {
    const spec: unknown = JSON.parse('{"domain":"d","__proto__":{},"constructor":1}');
    expect(errorsOf(spec).sort()).toEqual([
      'spec.__proto__: unknown field',
      'spec.constructor: unknown field',
    ]);
  });
});
