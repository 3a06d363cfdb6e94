import { describe, expect, it } from 'vitest';
import { configObject, configSpec } from '../../test/support/config-object-builder.ts';
import { nextLastAccepted, persistedSpecs, WholeDecider } from '../../test/support/whole-decider.ts';
import type { ConfigObject } from '../model/config-object.ts';
import type { FieldSchema, LastAcceptedSpec, ObjectOutcome, PublishedSchemas } from '../model/decision.ts';
import { type FleetAccess, unrestrictedOwners } from '../model/domain-owners.ts';
import { noPolicy, type Policy } from './decide.ts';
import { sortFields } from './newer-schema.ts';

const rule: FieldSchema = {
  properties: { key: {}, burstMode: { default: 'Off' }, descriptors: { items: {} } },
};
const newer: FieldSchema = {
  properties: {
    domain: {},
    descriptors: { items: rule },
    extras: {
      default: {},
      properties: { a: { default: 1 }, list: { items: { properties: { b: { default: 2 } } } } },
    },
    plain: {},
    rows: { default: [{}, { b: 1 }], items: { properties: { b: { default: 2 } } } },
  },
};
const schemas: PublishedSchemas = new Map([['RateLimitConfig', newer]]);

/** As an API server delivers it whose CRD has more fields. */
function delivered(requestsPerUnit: number, more: object = {}, burstMode = 'Off'): Record<string, unknown> {
  const { descriptors, ...spec } = configSpec({ requestsPerUnit });
  const rules = (descriptors as object[]).map((one) => ({ ...one, burstMode }));
  return { ...spec, descriptors: rules, extras: { a: 1 }, ...more };
}

interface World extends Partial<Policy> {
  kept?: ReadonlyMap<string, LastAcceptedSpec>;
}

/** One process: what it kept goes from one decision to the next. */
class Process {
  readonly #decider = new WholeDecider({
    mergeDomains: false,
    domainOwners: unrestrictedOwners,
    version: '1.2.3',
  });
  kept: ReadonlyMap<string, LastAcceptedSpec> = new Map();
  stored: ReadonlyMap<string, LastAcceptedSpec> = new Map();

  decide(objects: readonly ConfigObject[], { kept = this.kept, ...policy }: World = {}) {
    const decision = this.#decider.decideAll(objects, kept, { ...noPolicy, schemas, ...policy });
    this.kept = nextLastAccepted(decision, kept);
    this.stored = persistedSpecs(decision, this.kept);
    const outcomeOf = ({ uid }: ConfigObject): ObjectOutcome => decision.outcomes.get(uid)!;
    return { ...decision, of: outcomeOf };
  }
}

const object = (generation: number, spec: unknown, traits: Partial<ConfigObject> = {}): ConfigObject =>
  configObject({ name: 'a', generation, spec, ...traits });

describe('sortFields', () => {
  const sort = (spec: object, ...path: (string | number)[]) => sortFields(spec, [path], newer);

  it.each([
    ['a field of a rule', { descriptors: [{ burstMode: 'Off' }] }, ['descriptors', 0, 'burstMode']],
    ['an object with its own defaults', { extras: { a: 1 } }, ['extras']],
    ['a list with defaults of its elements', { rows: [{ b: 2 }, { b: 1 }] }, ['rows']],
  ])('ignores %s that holds its default', (_, spec, path) => {
    expect(sort(spec, ...path)).toMatchObject({ ignored: [expect.any(String)], unknown: [] });
  });

  it.each([
    ['another value', { descriptors: [{ burstMode: 'On' }] }, ['descriptors', 0, 'burstMode'], true],
    ['another value below it', { extras: { a: 2 } }, ['extras'], true],
    ['more than the default', { extras: { a: 1, c: 3 } }, ['extras'], true],
    ['another value in a list', { rows: [{ b: 2 }, { b: 2 }] }, ['rows'], true],
    ['a value without a default', { plain: false }, ['plain'], true],
    ['a field that the schema does not have', { other: 1 }, ['other'], false],
    ['a field that is called as a member of every object', { constructor: 1 }, ['constructor'], false],
  ])('does not ignore %s', (_, spec, path, isPublished) => {
    expect(sort(spec, ...path)).toMatchObject({ ignored: [], unknown: [{ isPublished }] });
  });
});

describe('a spec with fields of a newer CRD', () => {
  it('is accepted if they hold their defaults, and stored without them', () => {
    const process = new Process();
    const a = object(1, delivered(3));
    const decision = process.decide([a]);
    expect(decision.of(a).accepted).toEqual({ status: true });
    expect(decision.newerFields).toEqual({
      ignored: new Set(['spec.descriptors[].burstMode', 'spec.extras']),
      doubts: new Set(),
    });
    expect(process.kept.get(a.uid)?.spec).toEqual(configSpec({ requestsPerUnit: 3 }));
    const same = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    const plain = same.decideAll([object(1, configSpec({ requestsPerUnit: 3 }))], new Map());
    expect(decision.fleets.get('default')?.version).toBe(plain.fleets.get('default')?.version);
  });

  it('leaves the last accepted spec in force if they hold something else', () => {
    const process = new Process();
    process.decide([object(1, delivered(3))]);
    const next = object(2, delivered(4, {}, 'On'));
    const { of } = process.decide([next]);
    expect(of(next)).toMatchObject({
      accepted: {
        reason: 'UnknownField',
        message:
          'spec.descriptors[0].burstMode comes from a newer CRD and does not hold the default: version 1.2.3 of the control plane does not know it; generation 1 stays in force',
      },
      served: { generation: 1, spec: configSpec({ requestsPerUnit: 3 }) },
    });
    expect([...process.stored.values()]).toMatchObject([{ generation: 1 }]);
    const restarted = new Process();
    restarted.kept = process.stored;
    expect(restarted.decide([next]).of(next).served).toMatchObject({ generation: 1 });
  });

  it('is served without them if nothing was accepted, and is never the last accepted spec', () => {
    const process = new Process();
    const a = object(7, delivered(4, { plain: true }, 'On'));
    const { of, fleets } = process.decide([a]);
    expect(of(a)).toMatchObject({
      accepted: {
        reason: 'UnknownField',
        message:
          'spec.descriptors[0].burstMode; spec.plain come from a newer CRD and do not hold the default: version 1.2.3 of the control plane does not know them; generation 7 is in force without them',
      },
      served: { generation: 7, without: ['spec.descriptors[0].burstMode', 'spec.plain'] },
    });
    expect(fleets.get('default')?.resources).toHaveLength(1);
    expect([process.kept, process.stored]).toEqual([new Map(), new Map()]);
  });

  it('is not served with an unknown value of a known field, but as it was last accepted', () => {
    const process = new Process();
    const rateLimit = { unit: 'minute', requestsPerUnit: 4, algorithm: 'LeakyBucket' };
    const spec = delivered(4, { descriptors: [{ key: 'key', rateLimit, burstMode: 'On' }] });
    const fresh = process.decide([object(2, spec)]).of(object(2, spec));
    expect(fresh).toMatchObject({ accepted: { reason: 'Invalid' }, served: undefined });
    process.decide([object(1, delivered(3))]);
    const stays = process.decide([object(2, spec)]).of(object(2, spec));
    expect(stays).toMatchObject({ accepted: { reason: 'Invalid' }, served: { generation: 1 } });
    const { message } = stays.accepted as { message: string };
    expect(message).toContain("rateLimit.algorithm: unknown algorithm 'LeakyBucket'");
    expect(message).toContain('spec.descriptors[0].burstMode: unknown field');
    expect(message).not.toContain('extras');
  });

  it('is checked again once newer schemas are known', () => {
    const process = new Process();
    const a = object(1, delivered(3));
    const unknown = process.decide([a], { schemas: new Map() });
    expect(unknown.newerFields?.doubts).toEqual(
      new Set(['RateLimitConfig spec.descriptors[].burstMode', 'RateLimitConfig spec.extras']),
    );
    expect(process.decide([a]).of(a).accepted).toEqual({ status: true });
  });

  it('is in no doubt about fields that are published, and in the same doubt whatever object has a field', () => {
    const process = new Process();
    const published = object(1, delivered(3, { plain: true }, 'On'));
    expect(process.decide([published]).newerFields?.doubts).toEqual(new Set());
    const edited = [1, 2].map((uid) => object(uid, delivered(uid, { other: uid }), { uid: `u${uid}` }));
    expect(process.decide(edited).newerFields?.doubts).toEqual(new Set(['RateLimitConfig spec.other']));
  });

  it('is in error if no API server holds it to a schema', () => {
    const a = object(1, delivered(3));
    expect(new Process().decide([a], { schemas: undefined }).of(a)).toMatchObject({
      accepted: { reason: 'Invalid', message: expect.stringContaining('spec.extras: unknown field') },
      served: undefined,
    });
  });
});

describe('a spec that was accepted in a generation that cannot be read any more', () => {
  const whole = object(2, configSpec({ requestsPerUnit: 3 }));
  const unreadable = (traits: Partial<ConfigObject> = {}) => object(2, delivered(3, { domain: 7 }), traits);

  function began(): Process {
    const process = new Process();
    process.decide([whole]);
    return process;
  }

  it('stays in force, over restarts too', () => {
    const process = began();
    const { of } = process.decide([unreadable()]);
    expect(of(unreadable())).toMatchObject({
      accepted: {
        reason: 'Invalid',
        message: expect.stringMatching(/; generation 2 as it was last accepted stays in force$/),
      },
      served: { generation: 2 },
    });
    const restarted = new Process();
    restarted.kept = process.stored;
    expect(restarted.decide([unreadable()]).of(whole).served).toMatchObject({ generation: 2 });
    expect(restarted.decide([whole]).of(whole).accepted).toEqual({ status: true });
    expect(restarted.stored).toEqual(new Map());
  });

  const closed = (access: Partial<FleetAccess>) =>
    new Map([
      ['default', { admits: () => true, admitted: 'nobody', domains: unrestrictedOwners, ...access }],
    ]);

  it.each([
    ['the domain is given to others', closed({ domains: { ownersOf: () => ['mail'] } })],
    ['the fleet is closed to the namespace', closed({ admits: () => false })],
  ])('ends when %s, for good', (_, fleets) => {
    const process = began();
    process.decide([unreadable()]);
    expect(process.decide([unreadable()], { fleets }).of(whole).served).toBeUndefined();
    expect(process.decide([unreadable()]).of(whole).served).toBeUndefined();
    expect([process.kept, process.stored]).toEqual([new Map(), new Map()]);
  });

  it('ends when another object has the domain', () => {
    const process = began();
    process.decide([unreadable()]);
    const served = {
      observedGeneration: 1,
      servedGeneration: 1,
      domain: 'shop',
      fleet: 'default',
      conditions: [],
    };
    const other = configObject({ name: 'older', createdMs: -1, status: served });
    const { of } = process.decide([unreadable(), other]);
    expect([of(whole).served, of(other).accepted]).toEqual([undefined, { status: true }]);
    expect(process.decide([unreadable()]).of(whole).served).toBeUndefined();
  });

  it('ends with the object', () => {
    const process = began();
    expect(process.decide([]).fleets.size).toBe(0);
    expect(
      process.decide([unreadable({ uid: 'another' })]).of(unreadable({ uid: 'another' })).served,
    ).toBeUndefined();
  });

  it('gives way to the present one without fields of a newer CRD once it has no right any more, and does not come back', () => {
    const process = began();
    const moved = object(3, delivered(5, { domain: 'mail' }, 'On'));
    expect(process.decide([moved]).of(moved).served).toMatchObject({ domain: 'shop' });
    const fleets = closed({ domains: { ownersOf: (domain) => (domain === 'shop' ? ['other'] : undefined) } });
    expect(process.decide([moved], { fleets }).of(moved).served).toMatchObject({ domain: 'mail' });
    expect(process.decide([moved]).of(moved).served).toMatchObject({ domain: 'mail' });
  });
});
