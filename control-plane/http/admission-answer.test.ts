import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { overrideKind } from '../../rules/language/kinds.ts';
import { configObject, configSpec, invalidSpec } from '../../test/support/config-object-builder.ts';
import { WholeDecider } from '../../test/support/whole-decider.ts';
import { previewedFleet } from '../fleets/fleet-readings.ts';
import type { ConfigObject } from '../model/config-object.ts';
import { parseDomainOwners, unrestrictedOwners } from '../model/domain-owners.ts';
import { type LimiterReport, limitedOf } from '../model/fleet-snapshot.ts';
import { noPolicy, type Policy } from '../reconcile/decide.ts';
import { readConfigObject } from '../source/kubernetes-source.ts';
import {
  type AdmissionAnswer,
  type AdmissionRequest,
  type AdmissionView,
  admissionAnswer,
  boundedWarnings,
  isDoubtful,
  readReview,
  reviewAnswer,
} from './admission-answer.ts';

const nowMs = Date.UTC(2026, 0, 1);

type AskedObject = NonNullable<AdmissionRequest['object']>;

function asked(name: string, spec: unknown, namespace = 'shop'): AskedObject {
  return { metadata: { name, namespace, uid: `uid-${name}`, generation: 2 }, spec, status: undefined };
}

function request(object: AskedObject | undefined, more: Partial<AdmissionRequest> = {}): AdmissionRequest {
  const resource = { group: 'ratelimit.weir.dev', resource: 'ratelimitconfigs' };
  return { uid: 'u', resource, object, ...more };
}

interface World extends Partial<Policy> {
  objects?: ConfigObject[];
  owners?: string;
  mergeDomains?: boolean;
  isListed?: boolean;
  limiters?: readonly LimiterReport[];
}

function viewOf({
  objects = [],
  owners = '',
  mergeDomains = false,
  isListed = true,
  limiters = [],
  fleets = noPolicy.fleets,
  records = noPolicy.records,
}: World = {}): AdmissionView {
  const parsed = parseDomainOwners(owners, 'open');
  const domainOwners = parsed.ok ? parsed.owners : unrestrictedOwners;
  const decider = new WholeDecider({ mergeDomains, domainOwners });
  decider.decideAll(objects, new Map(), { fleets, records });
  return {
    config: (object) => (object.metadata.labels?.['ours'] === 'no' ? undefined : readConfigObject(object)),
    fleet: (object) => (object.metadata.namespace === 'weir-system' ? previewedFleet(object) : undefined),
    override: (object) => readConfigObject(object, overrideKind),
    preview: (object) => decider.preview(object, nowMs),
    limited: (fleet) => limitedOf([{ replica: 'r', limiters }], fleet),
    isListed: () => isListed,
    mergeDomains,
  };
}

const answer = (spec: unknown, world: World = {}, more: Partial<AdmissionRequest> = {}): AdmissionAnswer =>
  admissionAnswer(request(asked('a', spec), more), viewOf(world));

const noWord = { allowed: true, warnings: [] };

describe('admissionAnswer', () => {
  it('warns of what limiters of the fleet would reject by their settings, once for all that say the same', () => {
    const all = { admission: undefined, groups: undefined, reservations: undefined, calendarMonths: false };
    const limiter = (name: string, fleet: string, reservations?: string): LimiterReport => ({
      ...{ id: name, instance: undefined, name, fleet, isWeir: true, countsCompatibly: true },
      ...{ capabilities: [], connectedMs: 0, acceptedVersion: undefined, refusal: undefined },
      ruleSupport: reservations === undefined ? undefined : { ...all, reservations },
    });
    const limiters = [
      limiter('other', 'edge', 'OTHER=yes keeps none'),
      limiter('plain', 'default'),
      ...['pod-1', 'pod-2'].map((name) => limiter(name, 'default', 'REDIS_TYPE=CLUSTER keeps none')),
    ];
    const rateLimit = { unit: 'Day', requestsPerUnit: 5 };
    const descriptors = [
      { key: 'a', rateLimit },
      { key: 'b', rateLimit, reserve: {} },
    ];
    const spec = { domain: 'api', descriptors };
    expect(answer(spec, { limiters })).toEqual({
      allowed: true,
      warnings: [
        "limiter pod-2 would reject it: spec.descriptors[1].reserve: reserve of 'api.b' cannot be stored: REDIS_TYPE=CLUSTER keeps none",
      ],
    });
    expect(answer(configSpec(), { limiters })).toEqual(noWord);
  });

  it('does not mention an object that will be served', () => {
    expect(answer(configSpec())).toEqual(noWord);
  });

  it('rejects an invalid spec with every error and its path, as the status would say it', () => {
    expect(answer(invalidSpec())).toEqual({
      allowed: false,
      reason: 'Invalid',
      message: expect.stringMatching(
        /^spec\.domain: .*; spec\.descriptors\[0\]\.key: descriptor has empty key$/,
      ),
    });
  });

  it('rejects a domain that the namespace may not use', () => {
    expect(answer(configSpec({ domain: 'mail' }), { owners: 'mail=mail' })).toEqual({
      allowed: false,
      reason: 'DomainNotAllowed',
      message: "domain 'mail' is for these namespaces only: mail",
    });
  });

  it('warns of a domain that another object has, and not of its own', () => {
    const world = { objects: [configObject({ name: 'first' })] };
    expect(answer(configSpec(), world)).toEqual({
      allowed: true,
      warnings: [
        "DomainConflict: domain 'shop' of fleet 'default' belongs to default/first: it would not be served",
      ],
    });
    const own = configObject({ name: 'a', namespace: 'shop', uid: 'uid-a' });
    expect(answer(configSpec({ requestsPerUnit: 7 }), { objects: [own] })).toEqual(noWord);
  });

  it('warns of a fleet that is for other namespaces, which may get its labels in a moment', () => {
    const fleets = new Map([['default', { unknown: 'nobody looked yet' }]]);
    expect(answer(configSpec(), { fleets })).toEqual({
      allowed: true,
      warnings: [
        "FleetNotAllowed: it is unknown which namespaces may use fleet 'default': nobody looked yet: it would not be served",
      ],
    });
  });

  it('warns of a domain that is held for the namespace that had it last', () => {
    const records = new Map([['default/shop', { namespaces: ['before'] }]]);
    expect(answer(configSpec(), { records })).toMatchObject({
      warnings: [expect.stringContaining('is reserved for namespace before')],
    });
  });

  it('warns of a key that another object has in a merged domain', () => {
    const objects = [configObject({ name: 'first' })];
    const merged = { objects, mergeDomains: true };
    expect(answer(configSpec({ keys: ['key'] }), merged)).toMatchObject({
      warnings: [expect.stringContaining("descriptor 'key' in domain 'shop'")],
    });
    expect(answer(configSpec({ keys: ['other'] }), merged)).toEqual(noWord);
  });

  it('remembers nothing of what it was asked about', () => {
    const view = viewOf();
    const ask = (name: string) => admissionAnswer(request(asked(name, configSpec())), view);
    expect([ask('a'), ask('b')]).toEqual([noWord, noWord]);
  });

  it('warns of what check warns about, with the place in the object', () => {
    const descriptors = [
      { key: 'path', value: '*', rateLimit: { unit: 'minute', requestsPerUnit: 0 } },
      { key: 'path', value: '/api*', rateLimit: { unit: 'minute', requestsPerUnit: 5 } },
    ];
    expect(answer({ domain: 'shop', descriptors })).toEqual({
      allowed: true,
      warnings: [
        "shadowed-wildcard: spec.descriptors[1].value: 'path_/api*' never takes effect: 'path_*' comes before it and matches all its values (spec.descriptors[0])",
      ],
    });
  });

  it('does not look for names of limits that a merged domain may have in other objects', () => {
    const rateLimit = { unit: 'minute', requestsPerUnit: 5, name: 'b', replaces: [{ name: 'elsewhere' }] };
    const spec = { domain: 'shop', descriptors: [{ key: 'k', rateLimit }] };
    expect(answer(spec)).toMatchObject({ warnings: [expect.stringMatching(/^replaces-nothing: /)] });
    expect(answer(spec, { mergeDomains: true })).toEqual(noWord);
  });

  it('says that it does not look for such things in rules that would take long', () => {
    const descriptors = Array.from({ length: 10_000 }, (_, i) => ({ key: 'k', value: `*ab*c${i}` }));
    expect(answer({ domain: 'shop', descriptors })).toEqual({
      allowed: true,
      warnings: ['10000 rules are too many to check for probable mistakes here: run weir check'],
    });
  });

  it('lets pass what is invalid already, as long as its spec stays', () => {
    const oldObject = asked('a', invalidSpec());
    expect(answer(invalidSpec(), {}, { oldObject })).toEqual(noWord);
    expect(answer({ ...invalidSpec(), fleet: 'edge' }, {}, { oldObject })).toMatchObject({ allowed: false });
  });

  it('lets pass deletions, statuses, other kinds and what others serve', () => {
    expect(admissionAnswer(request(undefined, { oldObject: asked('a', {}) }), viewOf())).toEqual(noWord);
    expect(answer(invalidSpec(), {}, { subResource: 'status' })).toEqual(noWord);
    expect(answer(invalidSpec(), {}, { resource: { group: 'apps', resource: 'deployments' } })).toEqual(
      noWord,
    );
    const other = asked('a', invalidSpec());
    other.metadata.labels = { ours: 'no' };
    expect(admissionAnswer(request(other), viewOf())).toEqual(noWord);
  });

  it('rejects what is invalid before the list is complete, and then says that the owner of the domain is unknown', () => {
    const world = { isListed: false };
    expect(answer(invalidSpec(), world)).toMatchObject({ allowed: false });
    expect(answer(configSpec(), world)).toEqual({
      allowed: true,
      warnings: [
        'the control plane does not know yet which namespace has the domain: it has not read all objects',
      ],
    });
  });

  it('rejects an override that cannot be, and warns of one that would not be in force', () => {
    const resource = { group: 'ratelimit.weir.dev', resource: 'ratelimitoverrides' };
    const createdMs = nowMs - 1_000;
    const spec = { domain: 'shop', match: [{ key: 'k', value: '' }], block: true, for: '1h', reason: 'r' };
    const objects = [
      configObject({ name: 'shop', namespace: 'shop' }),
      configObject({ name: 'first', namespace: 'shop', uid: 'o', kind: overrideKind, createdMs, spec }),
    ];
    const ask = (more: object, namespace = 'shop') => {
      const object = asked('a', { ...spec, ...more }, namespace);
      const creationTimestamp = new Date(nowMs).toISOString();
      const whole = { ...object, metadata: { ...object.metadata, creationTimestamp } };
      return admissionAnswer(request(whole, { resource }), viewOf({ objects }));
    };
    expect(ask({ match: [{ key: 'other', value: '' }] })).toEqual(noWord);
    expect(ask({ match: [] })).toMatchObject({
      allowed: false,
      reason: 'Invalid',
      message: expect.stringMatching(/^spec\.match: /),
    });
    expect(ask({ match: [{ key: 'other', value: '' }] }, 'mail')).toMatchObject({
      allowed: false,
      reason: 'DomainNotAllowed',
    });
    expect(ask({})).toMatchObject({
      warnings: [expect.stringMatching(/^Conflicted: .*override\/shop\/first: it would not be served$/)],
    });
    expect(ask({ match: [{ key: 'kee', value: '' }], block: undefined, requestsPerUnit: 5 })).toMatchObject({
      allowed: true,
      warnings: [expect.stringMatching(/^NoMatchingRule: it would have no effect: .*has the key "kee"/)],
    });
    const past = { for: undefined, expiresAt: '2025-01-01T00:00:00Z', match: [{ key: 'past', value: '' }] };
    expect(ask(past)).toMatchObject({
      warnings: [
        expect.stringMatching(/^Expired: it ended at 2025-01-01T00:00:00Z: it would not be served$/),
      ],
    });
  });

  it('rejects a RateLimitFleet that cannot be read, in the namespace of the fleets alone', () => {
    const resource = { group: 'ratelimit.weir.dev', resource: 'ratelimitfleets' };
    const ask = (namespace: string) =>
      admissionAnswer(request(asked('default', { count: -1 }, namespace), { resource }), viewOf());
    expect(ask('weir-system')).toMatchObject({ allowed: false, reason: 'Invalid' });
    expect(ask('shop')).toEqual(noWord);
  });
});

describe('isDoubtful', () => {
  const view = (isDoubtful: boolean): AdmissionView => ({
    ...viewOf(),
    preview: () => ({ isDoubtful }) as ReturnType<AdmissionView['preview']>,
  });
  const ofKind = (resource: string, more: Partial<AdmissionRequest> = {}): AdmissionRequest =>
    request(asked('a', {}), { resource: { group: 'ratelimit.weir.dev', resource }, ...more });

  it.each(['ratelimitconfigs', 'ratelimitoverrides'])(
    'is what newer schemas may say otherwise of %s',
    (plural) => {
      expect(isDoubtful(ofKind(plural), view(true))).toBe(true);
      expect(isDoubtful(ofKind(plural), view(false))).toBe(false);
    },
  );

  it('is no other kind, and no object that is deleted or not ours', () => {
    const other = { group: 'other.dev', resource: 'ratelimitconfigs' };
    const notOurs = { ...asked('a', {}), metadata: { ...asked('a', {}).metadata, labels: { ours: 'no' } } };
    for (const doubtless of [
      ofKind('ratelimitfleets'),
      ofKind('ratelimitconfigs', { object: undefined }),
      ofKind('ratelimitconfigs', { resource: other }),
      ofKind('ratelimitconfigs', { object: notOurs }),
    ])
      expect(isDoubtful(doubtless, view(true))).toBe(false);
  });
});

describe('boundedWarnings', () => {
  it('keeps below what the API server cuts, prints what can be printed, and counts the rest', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 300, unit: 'binary' }), { maxLength: 20 }), (texts) => {
        const bounded = boundedWarnings(texts);
        expect(bounded.length).toBe(Math.min(texts.length, 15));
        for (const text of bounded) {
          expect(text.length).toBeLessThanOrEqual(256);
          expect(text).not.toMatch(/[\p{C}\n]/u);
        }
        expect(bounded.join('').length).toBeLessThan(4096);
        if (texts.length > 15) expect(bounded[14]).toContain(`${texts.length - 14} more`);
      }),
    );
  });
});

describe('readReview', () => {
  const review = {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: request(asked('a', configSpec())),
  };
  const read = (value: unknown) => readReview(Buffer.from(JSON.stringify(value)));

  it('reads what the API server sends, and answers with the uid of the request', () => {
    expect(read(review)).toMatchObject({ uid: 'u', object: { metadata: { name: 'a' } } });
    expect(
      JSON.parse(reviewAnswer('u', { allowed: false, reason: 'DomainNotAllowed', message: 'm' })),
    ).toEqual({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: 'u', allowed: false, status: { code: 403, reason: 'Forbidden', message: 'm' } },
    });
  });

  it.each([
    ['the body is not JSON', Buffer.from('{')],
    ['apiVersion: Invalid input', Buffer.from(JSON.stringify({ ...review, apiVersion: 'v1beta1' }))],
    ['request: Invalid input', Buffer.from('{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}')],
    ['Invalid input', Buffer.from('null')],
  ])('says what is wrong with a body: %s', (problem, body) => {
    expect(readReview(body)).toEqual({ problem: expect.stringContaining(problem) });
  });

  it('takes any JSON without a fault', () => {
    fc.assert(fc.property(fc.json(), (text) => void readReview(Buffer.from(text))));
  });
});
