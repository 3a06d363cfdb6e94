import { describe, expect, it } from 'vitest';
import { type Capabilities, capabilities } from '../../rules/language/capabilities.ts';
import { overrideKind } from '../../rules/language/kinds.ts';
import { decodeOverride } from '../../rules/reader/resource.ts';
import { configObject, configSpec } from '../../test/support/config-object-builder.ts';
import { nextLastAccepted, persistedSpecs, WholeDecider } from '../../test/support/whole-decider.ts';
import type { ConfigObject } from '../model/config-object.ts';
import type {
  ClusterDecision,
  LastAcceptedSpec,
  ObjectOutcome,
  PublishedSchemas,
} from '../model/decision.ts';
import { parseDomainOwners, unrestrictedOwners } from '../model/domain-owners.ts';
import { snapshotFor } from '../model/supported-rules.ts';
import { type DeciderOptions, noPolicy } from './decide.ts';

const createdMs = Date.UTC(2026, 10, 23, 10);
const hourMs = 3_600_000;
const match = [{ key: 'remote_address', value: '203.0.113.7' }];

function spec(more: object = {}): Record<string, unknown> {
  return { domain: 'shop', match, requestsPerUnit: 100, for: '2h', reason: 'a sale', ...more };
}

function override(name: string, traits: Partial<ConfigObject> = {}): ConfigObject {
  return configObject({ kind: overrideKind, name, uid: `o-${name}`, createdMs, spec: spec(), ...traits });
}

const shop = configObject({ name: 'shop' });
const decider = (options: Partial<DeciderOptions> = {}) =>
  new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners, ...options });

function decide(
  objects: ConfigObject[],
  nowMs = createdMs,
  options: Partial<DeciderOptions> = {},
): ClusterDecision {
  return decider(options).decideAll(objects, new Map(), noPolicy, nowMs);
}

function outcomeOn(decision: ClusterDecision, name: string): ObjectOutcome {
  return decision.outcomes.get(`o-${name}`) as ObjectOutcome;
}

const names = ({ fleets }: ClusterDecision, has: Capabilities = capabilities, fleet = 'default') =>
  snapshotFor(fleets.get(fleet)!, has).resources.map(({ name }) => name);

describe('overrides', () => {
  it('are resources of their own, beside those of rules, which stay as they are', () => {
    const decision = decide([shop, override('sale')]);
    expect(names(decision)).toEqual(['default/shop', 'override/default/sale']);
    const without = decide([shop]);
    expect(names(without)).toEqual(['default/shop']);
    expect(decision.outcomes.get(shop.uid)?.served).toEqual(without.outcomes.get(shop.uid)?.served);
    const { served, accepted, override: reported } = outcomeOn(decision, 'sale');
    expect(accepted).toEqual({ status: true });
    expect(served).toMatchObject({
      domain: 'shop',
      fleet: 'default',
      resource: 'override/default/sale',
      needs: ['overrides'],
    });
    expect(decodeOverride(served!.bytes)).toMatchObject({
      override: { id: 'o-sale', name: 'override/default/sale', match, endsMs: createdMs + 2 * hourMs },
    });
    expect(reported).toEqual({
      match: 'remote_address=203.0.113.7',
      effect: '100 per window',
      endsMs: createdMs + 2 * hourMs,
      idle: 'requestsPerUnit needs a unit, as no rule of "shop" has the key "remote_address"',
      note: '',
    });
    expect(decision.overrides).toEqual(new Map([['default/shop', 1]]));
  });

  it('are left out of what limiters get that do not support them or their numbers', () => {
    const rules = (domain: string, more: object) =>
      configObject({ name: domain, spec: configSpec({ domain, ...more }) });
    const sliding = rules('slide', { algorithm: 'SlidingWindow' });
    const large = rules('large', { requestsPerUnit: 2 ** 32 });
    const given = decider();
    const { for: _, requestsPerUnit: __, ...rest } = spec({ grant: 2 ** 32 });
    const grant = override('grant', { spec: rest });
    const objects = [shop, sliding, large, override('sale'), grant];
    const decision = given.decideAll(objects, new Map(), noPolicy, createdMs);
    const sets: Capabilities[] = [
      [],
      ['algorithms'],
      ['overrides'],
      ['algorithms', 'overrides'],
      capabilities,
    ];
    expect(sets.map((has) => names(decision, has))).toEqual([
      ['default/shop'],
      ['default/shop', 'default/slide'],
      ['default/shop', 'override/default/sale'],
      ['default/shop', 'default/slide', 'override/default/sale'],
      ['default/large', 'default/shop', 'default/slide', 'override/default/grant', 'override/default/sale'],
    ]);
    const again = given.decideAll(objects, new Map(), noPolicy, createdMs);
    expect(again.fleets.get('default')).toBe(decision.fleets.get('default'));
    const without = decide([shop, sliding]).fleets.get('default')!;
    expect(snapshotFor(decision.fleets.get('default')!, ['algorithms']).version).toBe(without.version);
  });

  it('stay while it is unknown who may use their fleet, if this control plane served them', () => {
    const policy = { ...noPolicy, fleets: new Map([['default', { unknown: 'no right to look' }]]) };
    const served = (controllerName: string): ConfigObject => {
      const status = { observedGeneration: 1, servedGeneration: 1, domain: 'shop', fleet: 'default' };
      return override('sale', { status: { ...status, controllerName, conditions: [] } });
    };
    const reasons = ['weir/mine', 'weir/other'].map((name) => {
      const own = decider({ controllerName: 'weir/mine' });
      const { accepted } = outcomeOn(own.decideAll([served(name)], new Map(), policy, createdMs), 'sale');
      return accepted.status || accepted.reason;
    });
    expect(reasons).toEqual([true, 'FleetNotAllowed']);
  });

  it('end if another process leads as soon as it reports that, although the clock is behind', () => {
    const ended = (controllerName: string | undefined, observedGeneration = 1): ConfigObject => {
      const condition = { type: 'Accepted', status: 'False', reason: 'Expired', message: '' } as const;
      const conditions = [{ ...condition, observedGeneration, lastTransitionTime: '' }];
      return override('sale', {
        status: { ...(controllerName !== undefined && { controllerName }), observedGeneration, conditions },
      });
    };
    const next = override('next', { createdMs: createdMs + 1 });
    const has = (sale: ConfigObject, leads: boolean) =>
      names(
        decider({ controllerName: 'weir/leader' }).decide({
          objects: new Map([shop, sale, next].map((object) => [object.uid, object])),
          ...{ acceptedSpecs: new Map(), policy: noPolicy, nowMs: createdMs, leads },
        }),
      ).at(-1);
    const [stays, takesOver] = ['override/default/sale', 'override/default/next'];
    expect(has(ended('weir/leader'), false)).toBe(takesOver);
    expect(has(ended('weir/leader'), true)).toBe(stays);
    expect(has(ended(undefined), true)).toBe(stays);
    expect(has(ended('weir/leader', 2), false)).toBe(stays);
    expect(has(ended('weir/other'), false)).toBe(stays);
  });

  it('end after their time and not at it before, counted from the creation of the object', () => {
    const objects = [shop, override('sale')];
    const endMs = createdMs + 2 * hourMs;
    const one = decider();
    const at = (nowMs: number) => one.decideAll(objects, new Map(), noPolicy, nowMs);
    expect(names(at(endMs - 1))).toContain('override/default/sale');
    expect(at(endMs - 1).dueMs).toBe(endMs);
    const ended = at(endMs);
    expect(names(ended)).toEqual(['default/shop']);
    expect(ended.dueMs).toBeUndefined();
    expect(outcomeOn(ended, 'sale')).toMatchObject({
      accepted: { status: false, reason: 'Expired', message: 'it ended at 2026-11-23T12:00:00Z' },
      served: undefined,
      override: { effect: '100 per window', endsMs: endMs },
    });
    // A clock that was set back takes it up again.
    expect(names(at(endMs - 1))).toContain('override/default/sale');
  });

  it('do not last longer than OVERRIDES_MAX_SECONDS unless they are permanent', () => {
    const long = decide([override('long', { spec: spec({ for: '31d' }) })], createdMs, {
      overridesMaxSeconds: 2_592_000,
    });
    expect(outcomeOn(long, 'long').accepted).toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining('OVERRIDES_MAX_SECONDS'),
    });
    const { for: _, ...rest } = spec({ permanent: true });
    const always = decide([override('always', { spec: rest })], createdMs + 1e12, {
      overridesMaxSeconds: 60,
    });
    expect(outcomeOn(always, 'always')).toMatchObject({
      accepted: { status: true },
      override: { endsMs: undefined },
    });
    expect(always.dueMs).toBeUndefined();
  });

  it('of one match: the older holds until it ends, whatever their order', () => {
    const older = override('z-older', { spec: spec({ for: '1h' }) });
    const younger = override('a-younger', {
      createdMs: createdMs + 1_000,
      spec: spec({ block: true, requestsPerUnit: undefined }),
    });
    for (const objects of [
      [older, younger],
      [younger, older],
    ]) {
      const decision = decide([shop, ...objects]);
      expect(names(decision)).toEqual(['default/shop', 'override/default/z-older']);
      expect(outcomeOn(decision, 'a-younger').accepted).toEqual({
        status: false,
        reason: 'Conflicted',
        message:
          "'remote_address=203.0.113.7' in domain 'shop' of fleet 'default' has an older override: override/default/z-older; nothing is in force",
      });
    }
    const later = decide([shop, older, younger], createdMs + hourMs);
    expect(names(later)).toEqual(['default/shop', 'override/default/a-younger']);
  });

  it('that grant add up, whatever else has their match', () => {
    const { for: _, requestsPerUnit: __, ...grant } = spec({ grant: 1000 });
    const objects = ['g1', 'g2'].map((name) => override(name, { spec: grant }));
    expect(names(decide([override('sale'), ...objects]))).toEqual([
      'override/default/g1',
      'override/default/g2',
      'override/default/sale',
    ]);
  });

  it('that grant end with the window they were created in, and of a sliding window a length after', () => {
    const {
      for: _,
      requestsPerUnit: __,
      ...rest
    } = spec({ grant: 1000, match: [{ key: 'key', value: 'v' }] });
    const grant = override('more', { spec: rest, createdMs: createdMs + 20_000 });
    const on = (algorithm?: 'SlidingWindow') => {
      const rules = configObject({ name: 'shop', spec: configSpec(algorithm && { algorithm }) });
      return (nowMs: number) => decide([rules, grant], nowMs);
    };
    const fixed = on();
    expect(fixed(createdMs + 59_999).dueMs).toBe(createdMs + 60_000);
    expect(outcomeOn(fixed(createdMs + 59_999), 'more').accepted).toEqual({ status: true });
    expect(outcomeOn(fixed(createdMs + 60_000), 'more').accepted).toMatchObject({ reason: 'Expired' });
    expect(outcomeOn(on('SlidingWindow')(createdMs + 60_000), 'more').override?.endsMs).toBe(
      createdMs + 80_000,
    );
    const none = override('none', { spec: { ...rest, match: [{ key: 'nobody', value: '' }] } });
    expect(outcomeOn(decide([shop, none]), 'none').override).toMatchObject({
      endsMs: undefined,
      idle: 'no rule of "shop" has the key "nobody"',
    });
  });

  it('say what is wrong with a spec, by field, and keep what was accepted before it until that ends', () => {
    const one = decider();
    const first = one.decideAll([override('sale')], new Map(), noPolicy, createdMs);
    const kept = nextLastAccepted(first, new Map());
    const bad = override('sale', { generation: 2, spec: spec({ match: [], fleet: 'Edge' }) });
    const next = one.decideAll([bad], kept, noPolicy, createdMs);
    expect(outcomeOn(next, 'sale')).toMatchObject({
      accepted: {
        reason: 'Invalid',
        message: expect.stringMatching(/^spec\.fleet: .*; generation 1 stays in force$/),
      },
      served: { generation: 1 },
    });
    const worse = override('sale', { generation: 3, spec: spec({ match: [] }) });
    expect(
      outcomeOn(one.decideAll([worse], nextLastAccepted(next, kept), noPolicy, createdMs), 'sale').accepted,
    ).toMatchObject({
      message: expect.stringContaining('spec.match: '),
    });
    const over = one.decideAll([worse], nextLastAccepted(next, kept), noPolicy, createdMs + 2 * hourMs);
    expect(outcomeOn(over, 'sale').served).toBeUndefined();
    const shortened = override('sale', { generation: 3, spec: spec({ for: '1m' }) });
    const ended = one.decideAll([shortened], nextLastAccepted(next, kept), noPolicy, createdMs + hourMs);
    expect(outcomeOn(ended, 'sale')).toMatchObject({ accepted: { reason: 'Expired' }, served: undefined });
  });

  it('lie only over domains that their namespace may have', () => {
    const stranger = override('sale', { namespace: 'other' });
    expect(outcomeOn(decide([shop, stranger]), 'sale').accepted).toEqual({
      status: false,
      reason: 'DomainNotAllowed',
      message: "domain 'shop' of fleet 'default' is for these namespaces only: default; nothing is in force",
    });
    const parsed = parseDomainOwners('shop=default,other;mail=mail', 'open');
    const domainOwners = parsed.ok ? parsed.owners : unrestrictedOwners;
    expect(outcomeOn(decide([shop, stranger], createdMs, { domainOwners }), 'sale').accepted).toEqual({
      status: true,
    });
    const mail = override('mail', { spec: spec({ domain: 'mail' }) });
    expect(outcomeOn(decide([mail], createdMs, { domainOwners }), 'mail').accepted).toMatchObject({
      reason: 'DomainNotAllowed',
      message: "domain 'mail' is for these namespaces only: mail; nothing is in force",
    });
    const unknown = { fleets: new Map([['default', { unknown: 'nobody looked yet' }]]), records: new Map() };
    const unsure = decider().decideAll([override('sale')], new Map(), unknown, createdMs);
    expect(outcomeOn(unsure, 'sale').accepted).toMatchObject({ reason: 'FleetNotAllowed' });
    const held = { ...noPolicy, records: new Map([['default/shop', { namespaces: ['before'] }]]) };
    expect(
      outcomeOn(decider().decideAll([override('sale')], new Map(), held, createdMs), 'sale').accepted,
    ).toMatchObject({
      reason: 'DomainNotAllowed',
      message: expect.stringContaining('for these namespaces only: before'),
    });
  });

  it('over a domain that has no rules are served, and say what comes of it', () => {
    expect(outcomeOn(decide([override('sale')]), 'sale').override).toMatchObject({
      idle: 'no RateLimitConfig has rules for the domain',
      note: '',
    });
    const { requestsPerUnit: _, ...rest } = spec({ block: true });
    expect(outcomeOn(decide([override('stop', { spec: rest })]), 'stop').override).toMatchObject({
      idle: undefined,
      note: 'no RateLimitConfig has rules for the domain: the override applies without one',
    });
    // Limiters look for the limit of this name, and find none.
    const named = override('stop', { spec: { ...rest, limit: 'daily' } });
    expect(outcomeOn(decide([named]), 'stop').override).toMatchObject({
      idle: 'no RateLimitConfig has rules for the domain',
      note: '',
    });
  });

  it('are decided alike over and over, with the same values', () => {
    const objects = [shop, override('sale'), override('late', { createdMs: createdMs + 1 })];
    const one = decider();
    const first = one.decideAll(objects, new Map(), noPolicy, createdMs);
    const again = one.decideAll(objects, new Map(), noPolicy, createdMs + 5);
    for (const [uid, outcome] of first.outcomes) expect(again.outcomes.get(uid)).toBe(outcome);
    expect(again.fleets.get('default')).toBe(first.fleets.get('default'));
  });

  describe('with fields of a newer CRD', () => {
    const newer: PublishedSchemas = new Map([
      ['RateLimitOverride', { properties: { domain: {}, scope: { default: 'All' } } }],
    ]);
    const policy = { ...noPolicy, schemas: newer };
    const sale = (generation: number, more: object) => override('sale', { generation, spec: spec(more) });
    const problem =
      'spec.scope comes from a newer CRD and does not hold the default: version 1.2.3 of the control plane does not know it';

    /** One process decides on these generations of an override, one after the other. */
    function after(...objects: ConfigObject[]) {
      const one = decider({ version: '1.2.3' });
      let kept: ReadonlyMap<string, LastAcceptedSpec> = new Map();
      const decisions = objects.map((object) => {
        const decision = one.decideAll([shop, object], kept, policy, createdMs);
        kept = nextLastAccepted(decision, kept);
        return decision;
      });
      const last = decisions.at(-1)!;
      return { one, last, kept, stored: persistedSpecs(last, kept) };
    }

    const effectIn = (decision: ClusterDecision): unknown =>
      decodeOverride(outcomeOn(decision, 'sale').served!.bytes).override?.effect;

    it('are accepted if these hold their defaults, and stored without them', () => {
      const { last, kept } = after(sale(1, { scope: 'All' }));
      expect(outcomeOn(last, 'sale')).toMatchObject({ accepted: { status: true }, served: { spec: spec() } });
      expect(last.newerFields).toEqual({ ignored: new Set(['spec.scope']), doubts: new Set() });
      expect(kept.get('o-sale')?.spec).toEqual(spec());
    });

    it('leave the last accepted spec in force if one holds something else, in the next process too', () => {
      const next = sale(2, { scope: 'One', requestsPerUnit: 7 });
      const { last, stored } = after(sale(1, {}), next);
      expect(outcomeOn(last, 'sale')).toMatchObject({
        accepted: { reason: 'UnknownField', message: `${problem}; generation 1 stays in force` },
        served: { generation: 1, spec: spec() },
      });
      expect(effectIn(last)).toMatchObject({ requestsPerUnit: 100 });
      const restarted = decider().decideAll([shop, next], stored, policy, createdMs);
      expect(effectIn(restarted)).toEqual(effectIn(last));
    });

    it('are served without it if nothing was accepted, and never become the last accepted spec', () => {
      const { last, kept, stored } = after(sale(3, { scope: 'One', requestsPerUnit: 7 }));
      expect(outcomeOn(last, 'sale')).toMatchObject({
        accepted: { reason: 'UnknownField', message: `${problem}; generation 3 is in force without it` },
        served: { generation: 3, without: ['spec.scope'] },
      });
      expect(effectIn(last)).toMatchObject({ requestsPerUnit: 7 });
      expect([kept.has('o-sale'), stored.has('o-sale')]).toEqual([false, false]);
    });

    it('are in force as last accepted, or not at all, if something else is wrong with them besides', () => {
      const worse = { scope: 'One', match: [] };
      const fresh = outcomeOn(after(sale(1, worse)).last, 'sale');
      expect(fresh).toMatchObject({ accepted: { reason: 'Invalid' }, served: undefined });
      const { accepted, served } = outcomeOn(after(sale(1, {}), sale(2, worse)).last, 'sale');
      expect(served?.generation).toBe(1);
      expect(accepted).toMatchObject({
        reason: 'Invalid',
        message: expect.stringMatching(/^spec\.match: .*; spec\.scope: unknown field; generation 1 stays/),
      });
    });

    it('end as others do, and lie only over domains that their namespace may have', () => {
      const { one, kept } = after(sale(1, { scope: 'One' }));
      const over = one.decideAll([shop, sale(1, { scope: 'One' })], kept, policy, createdMs + 2 * hourMs);
      expect(outcomeOn(over, 'sale')).toMatchObject({ accepted: { reason: 'Expired' }, served: undefined });
      const stranger = override('sale', { namespace: 'other', spec: spec({ scope: 'One' }) });
      expect(outcomeOn(after(stranger).last, 'sale')).toMatchObject({
        accepted: { reason: 'DomainNotAllowed' },
        served: undefined,
      });
    });

    it('are checked again with newer schemas, in doubt only about fields that are not published', () => {
      const one = decider();
      const object = sale(1, { scope: 'All' });
      const unpublished = { ...noPolicy, schemas: new Map() };
      const before = one.decideAll([shop, object], new Map(), unpublished, createdMs);
      expect(before.newerFields?.doubts).toEqual(new Set(['RateLimitOverride spec.scope']));
      expect(outcomeOn(before, 'sale').accepted).toMatchObject({ reason: 'UnknownField' });
      expect(one.preview(object, createdMs).isDoubtful).toBe(true);
      const next = one.decideAll([shop, object], new Map(), policy, createdMs);
      expect(outcomeOn(next, 'sale').accepted).toEqual({ status: true });
      expect(one.preview(sale(2, { scope: 'One' }), createdMs)).toMatchObject({
        rejection: { reason: 'UnknownField' },
        inForce: { generation: 1, without: undefined },
        isDoubtful: false,
      });
    });

    it('are in error if no API server holds them to a schema', () => {
      expect(outcomeOn(decide([shop, sale(1, { scope: 'All' })]), 'sale')).toMatchObject({
        accepted: { reason: 'Invalid', message: expect.stringContaining('scope') },
        served: undefined,
      });
    });
  });

  it('are previewed: what an older one has, and what the namespace may not', () => {
    const one = decider();
    one.decideAll([shop, override('sale')], new Map(), noPolicy, createdMs);
    const preview = (object: ConfigObject) => one.preview(object, createdMs).rejection?.reason;
    expect(preview(override('next', { createdMs: createdMs + 1_000 }))).toBe('Conflicted');
    expect(preview(override('sale', { generation: 2 }))).toBeUndefined();
    expect(preview(override('other', { namespace: 'other' }))).toBe('DomainNotAllowed');
    expect(preview(override('bad', { spec: {} }))).toBe('Invalid');
    expect(preview(override('free', { spec: spec({ domain: 'free' }) }))).toBeUndefined();
    const inForce = (object: ConfigObject) => one.preview(object, createdMs).inForce;
    expect(inForce(override('sale', { generation: 2, spec: {} }))?.generation).toBe(1);
    expect(inForce(override('next', { generation: 3 }))).toEqual({ generation: 3, without: [] });
  });
});
