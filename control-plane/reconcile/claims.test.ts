import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { configObject, configSpec } from '../../test/support/config-object-builder.ts';
import { WholeDecider } from '../../test/support/whole-decider.ts';
import type { ConfigObject, ConfigStatus } from '../model/config-object.ts';
import type { DomainRecord, DomainRecords } from '../model/decision.ts';
import {
  type DomainOwnership,
  type FleetAccess,
  fleetDomainOwners,
  parseDomainOwners,
  unrestrictedOwners,
} from '../model/domain-owners.ts';
import { type DeciderOptions, noPolicy, type Policy } from './decide.ts';

const options: DeciderOptions = { mergeDomains: false, domainOwners: unrestrictedOwners };

/** `team/a: Valid`, or the reason and message without what stays in force. */
function reasons(
  objects: readonly ConfigObject[],
  policy: Partial<Policy>,
  traits: Partial<DeciderOptions> = {},
): string[] {
  const decider = new WholeDecider({ ...options, ...traits });
  return reasonsOf(decider, objects, policy);
}

function reasonsOf(
  decider: WholeDecider,
  objects: readonly ConfigObject[],
  policy: Partial<Policy>,
): string[] {
  const { outcomes } = decider.decideAll(objects, new Map(), { ...noPolicy, ...policy });
  return objects.map(({ uid, namespace, name }) => {
    const { accepted } = outcomes.get(uid)!;
    const words = accepted.status ? 'Valid' : `${accepted.reason}: ${accepted.message}`;
    return `${namespace}/${name}: ${words.replace('; nothing is in force', '')}`;
  });
}

function owners(text: string, ownership: DomainOwnership = 'open') {
  const parsed = parseDomainOwners(text, ownership);
  if (!parsed.ok) throw new Error(parsed.errors.join());
  return parsed.owners;
}

function access(domains: Record<string, string[]>, admitted?: string[]): FleetAccess {
  const list = Object.entries(domains).map(([match, namespaces]) => ({ match, namespaces }));
  const parsed = fleetDomainOwners(list);
  if (!parsed.ok) throw new Error(parsed.errors.join());
  const admits = (namespace: string) => admitted?.includes(namespace) ?? true;
  return { admits, admitted: 'those with the labels team', domains: parsed.owners };
}

const of = (namespace: string, domain: string, traits: Partial<ConfigObject> = {}): ConfigObject =>
  configObject({ name: 'limits', namespace, spec: configSpec({ domain }), ...traits });

function servedStatus(domain: string): ConfigStatus {
  return { observedGeneration: 1, domain, fleet: 'default', servedGeneration: 1, conditions: [] };
}

const held = (...namespaces: string[]): DomainRecords => new Map([['default/shop', { namespaces }]]);

describe('a RateLimitFleet', () => {
  const mails = access({ 'mail-*': ['mail'] });

  it('gives its domains to namespaces, beside DOMAIN_OWNERS: both must allow', () => {
    const fleets = new Map([['default', mails]]);
    const objects = [of('mail', 'mail-eu'), of('shop', 'mail-eu'), of('web', 'web')];
    expect(reasons(objects, { fleets })).toEqual([
      'mail/limits: Valid',
      "shop/limits: DomainNotAllowed: domain 'mail-eu' of fleet 'default' is for these namespaces only: mail",
      'web/limits: Valid',
    ]);
    const domainOwners = owners('mail-eu=platform');
    expect(reasons([of('mail', 'mail-eu'), of('platform', 'mail-eu')], { fleets }, { domainOwners })).toEqual(
      [
        "mail/limits: DomainNotAllowed: domain 'mail-eu' is for these namespaces only: platform",
        "platform/limits: DomainNotAllowed: domain 'mail-eu' of fleet 'default' is for these namespaces only: mail",
      ],
    );
  });

  it('names domains that DOMAIN_OWNERSHIP=claimed gives to no other namespace, and so does DOMAIN_OWNERS', () => {
    const fleets = new Map([['default', mails]]);
    const domainOwners = owners('shop=shop', 'claimed');
    const objects = [of('mail', 'mail-eu'), of('shop', 'shop'), of('web', 'web')];
    expect(reasons(objects, { fleets }, { domainOwners })).toEqual([
      'mail/limits: Valid',
      'shop/limits: Valid',
      "web/limits: DomainNotAllowed: domain 'web' is for no namespace: neither DOMAIN_OWNERS nor the RateLimitFleet has an entry for it, and DOMAIN_OWNERSHIP is claimed",
    ]);
  });

  it('does not mention other fleets', () => {
    const fleets = new Map([['edge', access({ '*': ['nobody'] }, [])]]);
    expect(reasons([of('shop', 'shop')], { fleets })).toEqual(['shop/limits: Valid']);
  });

  it('is not for a namespace that it does not admit', () => {
    const fleets = new Map([['default', access({}, ['mail'])]]);
    expect(reasons([of('mail', 'mail'), of('shop', 'shop')], { fleets })).toEqual([
      'mail/limits: Valid',
      "shop/limits: FleetNotAllowed: fleet 'default' is not for namespace 'shop': those with the labels team",
    ]);
  });

  it('changes outcomes as it changes, and gives those again that stay', () => {
    const decider = new WholeDecider(options);
    const objects = [of('mail', 'mail'), of('shop', 'shop')];
    const outcomesBy = (...admitted: string[]) =>
      decider.decideAll(objects, new Map(), {
        ...noPolicy,
        fleets: new Map([['default', access({}, admitted)]]),
      }).outcomes;
    const first = outcomesBy('mail', 'shop');
    const second = outcomesBy('mail');
    expect(second.get(objects[0]!.uid)).toBe(first.get(objects[0]!.uid));
    expect(second.get(objects[1]!.uid)?.accepted).toMatchObject({ reason: 'FleetNotAllowed' });
    expect(outcomesBy('mail', 'shop').get(objects[1]!.uid)?.accepted).toEqual({ status: true });
  });

  it('that cannot be read leaves what is served, and accepts nothing new', () => {
    const fleets = new Map([['default', { unknown: 'no right to look' }]]);
    const served = of('mail', 'mail', { status: servedStatus('mail') });
    const elsewhere = of('web', 'web', { status: servedStatus('other') });
    expect(reasons([served, of('shop', 'shop'), elsewhere], { fleets })).toEqual([
      'mail/limits: Valid',
      "shop/limits: FleetNotAllowed: it is unknown which namespaces may use fleet 'default': no right to look",
      "web/limits: FleetNotAllowed: it is unknown which namespaces may use fleet 'default': no right to look",
    ]);
  });
});

describe('a domain that a namespace had last', () => {
  const squatter = of('evil', 'shop');
  const back = of('shop', 'shop', { uid: 'new', createdMs: 99 });

  it('is held for it, whichever namespace has waited, and says until when', () => {
    const words =
      "evil/limits: DomainConflict: domain 'shop' of fleet 'default' is reserved for namespace shop";
    expect(reasons([squatter], { records: held('shop') })).toEqual([
      `${words}, its last namespace, for a while`,
    ]);
    const records = new Map<string, DomainRecord>([
      ['default/shop', { namespaces: ['shop'], heldUntilMs: Date.UTC(2026, 0, 2, 12, 0, 0, 1) }],
    ]);
    expect(reasons([squatter], { records })).toEqual([
      `${words}, its last namespace, until 2026-01-02T12:00:01Z`,
    ]);
  });

  it('passes at once within the namespace', () => {
    expect(reasons([squatter, back], { records: held('shop') })).toEqual([
      "evil/limits: DomainConflict: domain 'shop' of fleet 'default' belongs to shop/limits",
      'shop/limits: Valid',
    ]);
  });

  it("is anybody's without a record, and in other fleets", () => {
    expect(reasons([squatter], { records: new Map() })).toEqual(['evil/limits: Valid']);
    const records: DomainRecords = new Map([['edge/shop', { namespaces: ['shop'] }]]);
    expect(reasons([squatter], { records })).toEqual(['evil/limits: Valid']);
  });

  it('stays with the object for which a status says that it is served', () => {
    const holder = of('evil', 'shop', { status: servedStatus('shop') });
    expect(reasons([holder], { records: held('shop') })).toEqual(['evil/limits: Valid']);
  });

  it('is not held for a namespace that may not have it any more', () => {
    const domainOwners = owners('shop=evil');
    expect(reasons([squatter], { records: held('shop') }, { domainOwners })).toEqual(['evil/limits: Valid']);
    const fleets = new Map([['default', access({}, ['evil'])]]);
    expect(reasons([squatter], { records: held('shop'), fleets })).toEqual(['evil/limits: Valid']);
  });

  it('with merging is shared while the namespace has it, and held as soon as it is free', () => {
    const merging = { mergeDomains: true };
    const guest = of('evil', 'shop', { spec: configSpec({ domain: 'shop', keys: ['other'] }) });
    expect(reasons([guest, back], { records: held('shop') }, merging)).toEqual([
      'evil/limits: Valid',
      'shop/limits: Valid',
    ]);
    expect(reasons([guest], { records: held('shop') }, merging)).toEqual([
      expect.stringMatching(/^evil\/limits: DomainConflict: .* is reserved for namespace shop/),
    ]);
    expect(reasons([squatter, back], { records: held('shop') }, merging)).toEqual([
      "evil/limits: DomainConflict: descriptor 'key' in domain 'shop' of fleet 'default' belongs to shop/limits",
      'shop/limits: Valid',
    ]);
  });

  it('is never given to a newcomer of another one, in no order of objects', () => {
    const namespaces = ['a', 'b', 'c'];
    const object = fc.record({
      namespace: fc.constantFrom(...namespaces),
      name: fc.constantFrom('x', 'y'),
      createdMs: fc.nat(3),
      domain: fc.constantFrom('shop', 'mail'),
      key: fc.constantFrom('k', 'l'),
    });
    const world = fc.record({
      objects: fc.uniqueArray(object, { maxLength: 6, selector: ({ namespace, name }) => namespace + name }),
      last: fc.uniqueArray(fc.constantFrom(...namespaces), { minLength: 1, maxLength: 2 }),
      mergeDomains: fc.boolean(),
    });
    fc.assert(
      fc.property(world, ({ objects, last, mergeDomains }) => {
        const list = objects.map(({ domain, key, ...traits }) =>
          configObject({ ...traits, spec: configSpec({ domain, keys: [key] }) }),
        );
        const policy = { ...noPolicy, records: held(...last) };
        const decide = (order: ConfigObject[]) =>
          new WholeDecider({ ...options, mergeDomains }).decideAll(order, new Map(), policy);
        const { outcomes } = decide(list);
        const holders = [...outcomes.values()].filter(({ served }) => served?.domain === 'shop');
        const isOfLast = ({ object: { namespace } }: (typeof holders)[number]) => last.includes(namespace);
        const claims = [...outcomes.values()].filter(
          ({ object }) => (object.spec as { domain: string }).domain === 'shop',
        );
        expect(holders.length === 0 || holders.some(isOfLast)).toBe(true);
        expect(claims.some(isOfLast)).toBe(holders.length > 0);
        const reversed = decide(list.toReversed()).outcomes;
        for (const [uid, { accepted }] of outcomes) expect(reversed.get(uid)?.accepted).toEqual(accepted);
      }),
    );
  });
});
