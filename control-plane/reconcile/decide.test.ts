import { describe, expect, it } from 'vitest';
import { type Capabilities, capabilities, noCapabilities } from '../../rules/language/capabilities.ts';
import { decodeResource } from '../../rules/reader/resource.ts';
import { configObject, configSpec, invalidSpec } from '../../test/support/config-object-builder.ts';
import { nextLastAccepted, persistedSpecs, WholeDecider } from '../../test/support/whole-decider.ts';
import type { ConfigObject, ConfigStatus } from '../model/config-object.ts';
import type {
  ClusterDecision,
  LastAcceptedSpec,
  ObjectOutcome,
  PublishedSchemas,
} from '../model/decision.ts';
import { parseDomainOwners, unrestrictedOwners } from '../model/domain-owners.ts';
import { neededFor, snapshotFor } from '../model/supported-rules.ts';
import { type DeciderOptions, noPolicy } from './decide.ts';

type LastAcceptedSpecs = ReadonlyMap<string, LastAcceptedSpec>;

function decide(
  objects: readonly ConfigObject[],
  options: Partial<DeciderOptions> & { kept?: LastAcceptedSpecs } = {},
): ClusterDecision {
  const { kept = new Map(), ...others } = options;
  return new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners, ...others }).decideAll(
    objects,
    kept,
  );
}

function outcome(decision: ClusterDecision, { uid }: ConfigObject): ObjectOutcome {
  return decision.outcomes.get(uid)!;
}

/** `Valid`, or the reason and message. */
function acceptanceOf(decision: ClusterDecision, object: ConfigObject): string {
  const { accepted } = outcome(decision, object);
  return accepted.status ? 'Valid' : `${accepted.reason}: ${accepted.message}`;
}

/** `resource: keys of the top level`. */
function servedTo(decision: ClusterDecision, fleet: string): string[] {
  return (decision.fleets.get(fleet)?.resources ?? []).map(({ name, bytes }) => {
    const source = decodeResource(bytes);
    expect(source.name).toBe(name);
    return `${name}: ${source.descriptors.map(({ key }) => key).join(' ')}`;
  });
}

function servedStatus(place: { domain: string; fleet?: string; generation?: number }): ConfigStatus {
  const { domain, fleet = 'default', generation = 1 } = place;
  return { observedGeneration: generation, domain, fleet, servedGeneration: generation, conditions: [] };
}

const merging = { mergeDomains: true };

describe('Decider', () => {
  it('serves every valid object to its fleet', () => {
    const a = configObject({ name: 'a', spec: configSpec({ domain: 'a', keys: ['k', 'l'] }) });
    const b = configObject({ name: 'b', spec: configSpec({ domain: 'b', fleet: 'edge' }) });
    const decision = decide([b, a]);
    expect([...decision.fleets.keys()].sort()).toEqual(['default', 'edge']);
    expect(servedTo(decision, 'default')).toEqual(['default/a: k l']);
    expect(servedTo(decision, 'edge')).toEqual(['default/b: key']);
    expect(outcome(decision, a)).toEqual({
      object: a,
      accepted: { status: true },
      served: {
        fleet: 'default',
        domain: 'a',
        generation: 1,
        hash: decision.fleets.get('default')!.resources[0]!.hash,
        resource: 'default/a',
        rules: 2,
        ownFields: [],
        spec: expect.anything(),
        needs: [],
        fallback: undefined,
        bytes: expect.any(Uint8Array),
      },
    });
  });

  it('serves nothing of an invalid object and all of the others', () => {
    const bad = configObject({ name: 'bad', spec: invalidSpec() });
    const good = configObject({ name: 'good' });
    const decision = decide([bad, good]);
    expect(servedTo(decision, 'default')).toEqual(['default/good: key']);
    expect(acceptanceOf(decision, bad)).toMatch(
      /^Invalid: spec\.domain: .*; spec\.descriptors\[0\]\.key: descriptor has empty key; nothing is in force$/,
    );
  });

  it.each([undefined, null, 'text', 7, []])('rejects the spec %j', (spec) => {
    const object = configObject({ name: 'a', spec });
    expect(acceptanceOf(decide([object]), object)).toMatch(/^Invalid: spec.*; nothing is in force$/);
  });

  it('keeps a message within what a condition takes, however many errors there are', () => {
    const descriptors = Array.from({ length: 3_000 }, () => ({ key: '', value: 'v'.repeat(50) }));
    const object = configObject({ name: 'a', spec: { domain: 'd', descriptors } });
    const acceptance = acceptanceOf(decide([object]), object);
    expect(acceptance.length).toBeLessThan(32_768);
    expect(acceptance).toMatch(/; and \d+ more; nothing is in force$/);
    const named = acceptance.match(/has empty key/g)!.length;
    expect(named + Number(/and (\d+) more/.exec(acceptance)![1])).toBe(3_000);
  });

  it('gives a domain to the older of two newcomers', () => {
    const older = configObject({ name: 'b', createdMs: 1 });
    const younger = configObject({ name: 'a', createdMs: 2 });
    const decision = decide([younger, older]);
    expect(acceptanceOf(decision, older)).toBe('Valid');
    expect(acceptanceOf(decision, younger)).toBe(
      "DomainConflict: domain 'shop' of fleet 'default' belongs to default/b; nothing is in force",
    );
  });

  it('leaves a domain to the object whose status says that it has it', () => {
    const older = configObject({ name: 'older', createdMs: 1 });
    const younger = configObject({ name: 'younger', createdMs: 2, status: servedStatus({ domain: 'shop' }) });
    expect(acceptanceOf(decide([older, younger]), older)).toContain('belongs to default/younger');
  });

  it('leaves a domain to the object that has it while that changes its rules', () => {
    const older = configObject({ name: 'older', createdMs: 1 });
    const status = servedStatus({ domain: 'shop' });
    const changed = configObject({ name: 'changed', createdMs: 2, generation: 2, status });
    expect(acceptanceOf(decide([older, changed]), older)).toContain('belongs to default/changed');
    expect(acceptanceOf(decide([older, changed]), changed)).toBe('Valid');
  });

  it('takes a status for another domain or fleet as no claim', () => {
    const older = configObject({ name: 'older', createdMs: 1 });
    for (const status of [servedStatus({ domain: 'x' }), servedStatus({ domain: 'shop', fleet: 'x' })]) {
      expect(acceptanceOf(decide([older, configObject({ name: 'b', createdMs: 2, status })]), older)).toBe(
        'Valid',
      );
    }
  });

  it('takes a status of which nothing is served as no claim', () => {
    const older = configObject({ name: 'older', createdMs: 1 });
    const { servedGeneration: _, ...status } = servedStatus({ domain: 'shop' });
    expect(acceptanceOf(decide([older, configObject({ name: 'b', createdMs: 2, status })]), older)).toBe(
      'Valid',
    );
  });

  it('previews what stays in force of an object that is served', () => {
    const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    const served = configObject({ name: 'a' });
    decider.decideAll([served], new Map());
    const next = { ...served, generation: 2, spec: invalidSpec() };
    expect(decider.preview(next, 0).inForce).toEqual({ generation: 1 });
    expect(decider.preview({ ...next, uid: 'another' }, 0).inForce).toBeUndefined();
  });

  it('lets one domain be used in two fleets', () => {
    const a = configObject({ name: 'a' });
    const b = configObject({ name: 'b', spec: configSpec({ fleet: 'edge' }) });
    const decision = decide([a, b]);
    expect([acceptanceOf(decision, a), acceptanceOf(decision, b)]).toEqual(['Valid', 'Valid']);
  });

  it('rejects a domain that belongs to other namespaces', () => {
    const parsed = parseDomainOwners('shop=platform,shop-*', 'open');
    if (!parsed.ok) throw new Error(parsed.errors.join());
    const mine = configObject({ name: 'mine', namespace: 'shop-1', createdMs: 2 });
    const foreign = configObject({ name: 'foreign', namespace: 'x', createdMs: 1 });
    const decision = decide([mine, foreign], { domainOwners: parsed.owners });
    expect(acceptanceOf(decision, mine)).toBe('Valid');
    expect(acceptanceOf(decision, foreign)).toBe(
      "DomainNotAllowed: domain 'shop' is for these namespaces only: platform, shop-*; nothing is in force",
    );
  });

  it('rejects a domain that no namespace may use', () => {
    const parsed = parseDomainOwners('', 'claimed');
    if (!parsed.ok) throw new Error(parsed.errors.join());
    const mine = configObject({ name: 'mine' });
    expect(acceptanceOf(decide([mine], { domainOwners: parsed.owners }), mine)).toBe(
      "DomainNotAllowed: domain 'shop' is for no namespace: neither DOMAIN_OWNERS nor the RateLimitFleet has an entry for it, and DOMAIN_OWNERSHIP is claimed; nothing is in force",
    );
  });

  it('gives the same values again for what has not changed', () => {
    const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    const a = configObject({ name: 'a', spec: configSpec({ domain: 'a' }) });
    const b = configObject({ name: 'b', spec: configSpec({ domain: 'b', fleet: 'edge' }) });
    const first = decider.decideAll([a, b], new Map());
    const changed = { ...b, generation: 2, spec: configSpec({ domain: 'b', fleet: 'edge', keys: ['x'] }) };
    const second = decider.decideAll([changed, a], new Map());
    expect(second.fleets.get('default')).toBe(first.fleets.get('default'));
    expect(outcome(second, a)).toBe(outcome(first, a));
    expect(second.fleets.get('edge')?.version).not.toBe(first.fleets.get('edge')?.version);
    expect(outcome(second, changed).served?.generation).toBe(2);
  });

  it('gives the same resource for a spec that was read again', () => {
    const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    const a = configObject({ name: 'a' });
    const first = decider.decideAll([a], new Map()).fleets.get('default');
    const again = { ...a, spec: structuredClone(a.spec), status: servedStatus({ domain: 'shop' }) };
    expect(decider.decideAll([again], new Map()).fleets.get('default')).toBe(first);
    // Same generation, other rules: as after a restored backup of the API server.
    const other = { ...a, spec: configSpec({ keys: ['other'] }) };
    expect(servedTo(decider.decideAll([other], new Map()), 'default')).toEqual(['default/a: other']);
  });

  it('reads a spec once, whatever else changes', () => {
    const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    const bytesOf = (object: ConfigObject, schemas?: PublishedSchemas): Uint8Array | undefined =>
      outcome(decider.decideAll([object], kept, { ...noPolicy, schemas }), object).served?.bytes;
    let kept: LastAcceptedSpecs = new Map();
    const a = configObject({ name: 'a' });
    const bytes = bytesOf(a);
    expect(bytesOf({ ...a, spec: structuredClone(a.spec), status: servedStatus({ domain: 'shop' }) })).toBe(
      bytes,
    );
    expect(bytesOf(a, new Map())).toBe(bytes);
    for (const generation of [2, 3]) {
      kept = new Map([[a.uid, { generation: 1, spec: structuredClone(a.spec) }]]);
      expect(bytesOf({ ...a, generation, spec: invalidSpec() })).toBe(bytes);
    }
  });
});

describe('a stored spec', () => {
  const kept = (object: ConfigObject): LastAcceptedSpecs => nextLastAccepted(decide([object]), new Map());
  const first = configObject({ name: 'a', createdMs: 5 });

  it('stays in force while the newer generation is invalid', () => {
    const second = { ...first, generation: 2, spec: invalidSpec() };
    const decision = decide([second], { kept: kept(first) });
    expect(servedTo(decision, 'default')).toEqual(['default/a: key']);
    expect(acceptanceOf(decision, second)).toMatch(/^Invalid: .*; generation 1 stays in force$/);
    expect(outcome(decision, second).served?.generation).toBe(1);
    expect(nextLastAccepted(decision, kept(first))).toEqual(kept(first));
    expect([...persistedSpecs(decision, kept(first))]).toEqual([
      [first.uid, { generation: 1, spec: first.spec, namespace: 'default', name: 'a' }],
    ]);
  });

  it('keeps its domain from an older newcomer', () => {
    const second = { ...first, generation: 2, spec: invalidSpec() };
    const newcomer = configObject({ name: 'b', createdMs: 1 });
    const decision = decide([newcomer, second], { kept: kept(first) });
    expect(acceptanceOf(decision, newcomer)).toContain('belongs to default/a; nothing is in force');
    expect(servedTo(decision, 'default')).toEqual(['default/a: key']);
  });

  it('stays in force when the domain that the newer one wants is taken', () => {
    const wanting = { ...first, generation: 2, spec: configSpec({ domain: 'mail' }) };
    const owner = configObject({ name: 'mail', spec: configSpec({ domain: 'mail' }) });
    const waiting = configObject({ name: 'waiting', createdMs: 1 });
    const decision = decide([wanting, owner, waiting], { kept: kept(first) });
    expect(acceptanceOf(decision, wanting)).toBe(
      "DomainConflict: domain 'mail' of fleet 'default' belongs to default/mail; generation 1 stays in force",
    );
    expect(acceptanceOf(decision, waiting)).toContain("'shop' of fleet 'default' belongs to default/a;");
  });

  it('lets two objects swap their domains', () => {
    const a = configObject({ name: 'a', spec: configSpec({ domain: 'a' }) });
    const b = configObject({ name: 'b', spec: configSpec({ domain: 'b' }) });
    const before = decide([a, b]);
    const swapped = [
      { ...a, generation: 2, spec: b.spec, status: servedStatus({ domain: 'a' }) },
      { ...b, generation: 2, spec: a.spec, status: servedStatus({ domain: 'b' }) },
    ] as const;
    const decision = decide(swapped, { kept: nextLastAccepted(before, new Map()) });
    expect(swapped.map((object) => acceptanceOf(decision, object))).toEqual(['Valid', 'Valid']);
  });

  it('goes when its object frees the domain and another one takes it', () => {
    const moved = { ...first, generation: 2, spec: configSpec({ domain: 'mail' }) };
    const waiting = configObject({ name: 'waiting' });
    const decision = decide([moved, waiting], { kept: kept(first) });
    expect([acceptanceOf(decision, moved), acceptanceOf(decision, waiting)]).toEqual(['Valid', 'Valid']);
    expect(nextLastAccepted(decision, kept(first)).get(first.uid)).toEqual({
      generation: 2,
      spec: moved.spec,
    });
    expect(persistedSpecs(decision, kept(first)).size).toBe(0);
  });

  it('is no longer served once it is no longer valid or allowed', () => {
    const second = { ...first, generation: 2, spec: invalidSpec() };
    const parsed = parseDomainOwners('*=platform', 'open');
    if (!parsed.ok) throw new Error(parsed.errors.join());
    const decision = decide([second], { kept: kept(first), domainOwners: parsed.owners });
    expect(decision.fleets.size).toBe(0);
    expect(acceptanceOf(decision, second)).toMatch(/; nothing is in force$/);
    expect(nextLastAccepted(decision, kept(first)).size).toBe(0);
    const damaged = new Map([[first.uid, { generation: 1, spec: 'damaged' }]]);
    expect(acceptanceOf(decide([second], { kept: damaged }), second)).toMatch(/; nothing is in force$/);
  });

  it('takes the place of any spec that cannot be read, whatever the generations: a restored backup has old ones', () => {
    const bad = { ...first, spec: invalidSpec() };
    for (const generation of [1, 2]) {
      const last = new Map([[first.uid, { generation, spec: first.spec }]]);
      expect(acceptanceOf(decide([bad], { kept: last }), bad)).toMatch(/; generation \d.* stays in force$/);
    }
  });

  it('has no better claim to a domain than the newer spec that claims it too', () => {
    // Both had the domain while domains were merged.
    const status = servedStatus({ domain: 'shop' });
    const changed = { ...first, createdMs: 1, generation: 2, spec: configSpec({ keys: ['x'] }), status };
    const other = configObject({ name: 'other', createdMs: 2, status });
    const decision = decide([changed, other], { kept: kept(first) });
    expect(acceptanceOf(decision, other)).toBe('Valid');
    expect(acceptanceOf(decision, changed)).toContain('belongs to default/other; nothing is in force');
  });

  it('of an object that is gone goes too', () => {
    expect(nextLastAccepted(decide([]), kept(first)).size).toBe(0);
  });
});

describe('a merged domain', () => {
  const a = configObject({ name: 'a', createdMs: 1, spec: configSpec({ keys: ['k', 'l'] }) });
  const b = configObject({ name: 'b', createdMs: 2, spec: configSpec({ keys: ['m'] }) });

  it('is one resource with the rules in the order of age', () => {
    const decision = decide([b, a], merging);
    expect(servedTo(decision, 'default')).toEqual(['shop: k l m']);
    expect(outcome(decision, b).served).toMatchObject({ resource: 'shop', rules: 1 });
  });

  it('has one name for any number of objects, by which limiters retain its former rules', () => {
    expect(servedTo(decide([a], merging), 'default')).toEqual(['shop: k l']);
  });

  it('never has the name of an object', () => {
    const spec = (key: string) => configSpec({ domain: 'default/c', keys: [key] });
    const c = configObject({ name: 'c', spec: configSpec({ domain: 'other' }) });
    const objects = [{ ...a, spec: spec('k') }, { ...b, spec: spec('l') }, c];
    expect(servedTo(decide(objects, merging), 'default')).toEqual(['domain default/c: k l', 'other: key']);
  });

  it('keeps the order in which objects were accepted', () => {
    const accepted = { ...b, status: servedStatus({ domain: 'shop' }) };
    expect(servedTo(decide([a, accepted], merging), 'default')).toEqual(['shop: k l m']);
  });

  it('rejects only the younger of two objects with one key', () => {
    const clashing = configObject({ name: 'c', createdMs: 3, spec: configSpec({ keys: ['x', 'l'] }) });
    const decision = decide([clashing, a, b], merging);
    expect(servedTo(decision, 'default')).toEqual(['shop: k l m']);
    expect(acceptanceOf(decision, clashing)).toBe(
      "DomainConflict: descriptor 'l' in domain 'shop' of fleet 'default' belongs to default/a; nothing is in force",
    );
  });

  it('rejects the change of an older object that would take the key of an accepted one', () => {
    const served = [a, b].map((object) => ({ ...object, status: servedStatus({ domain: 'shop' }) })) as [
      ConfigObject,
      ConfigObject,
    ];
    const kept = nextLastAccepted(decide(served, merging), new Map());
    const greedy = { ...served[0], generation: 2, spec: configSpec({ keys: ['k', 'm'] }) };
    const decision = decide([greedy, served[1]], { ...merging, kept });
    expect(acceptanceOf(decision, greedy)).toContain(
      "'m' in domain 'shop' of fleet 'default' belongs to default/b; generation 1",
    );
    expect(servedTo(decision, 'default')).toEqual(['shop: k l m']);
  });

  it.each(['status', 'memory'])('knows by the %s alone what is served', (where) => {
    const status = where === 'status' ? servedStatus({ domain: 'shop' }) : undefined;
    const served = [a, b].map((object) => ({ ...object, status })) as [ConfigObject, ConfigObject];
    const kept = where === 'memory' ? nextLastAccepted(decide(served, merging), new Map()) : new Map();
    const greedy = { ...served[0], generation: 2, spec: configSpec({ keys: ['k', 'm'] }) };
    const decision = decide([greedy, served[1]], { ...merging, kept });
    expect(acceptanceOf(decision, greedy)).toContain(
      "'m' in domain 'shop' of fleet 'default' belongs to default/b;",
    );
    expect(acceptanceOf(decision, served[1])).toBe('Valid');
  });

  it('names the oldest of several objects that have the keys', () => {
    const clashing = configObject({ name: 'c', createdMs: 3, spec: configSpec({ keys: ['m', 'l'] }) });
    expect(acceptanceOf(decide([a, b, clashing], merging), clashing)).toContain(
      "'l' in domain 'shop' of fleet 'default' belongs to default/a;",
    );
  });

  it('distinguishes composite keys as the validator does', () => {
    const withValue = { domain: 'shop', descriptors: [{ key: 'k', value: 'l' }] };
    const joined = { domain: 'shop', descriptors: [{ key: 'k_l' }] };
    const objects = [
      a,
      { ...b, spec: withValue },
      configObject({ name: 'c', createdMs: 3, spec: joined }),
    ] as const;
    const decision = decide(objects, merging);
    expect(objects.map((object) => outcome(decision, object).accepted.status)).toEqual([true, true, false]);
  });

  it('moves an object whose rival is rejected in the end, and leaves its former domain to another one', () => {
    // First `rival` takes 'k' from `moved`, which stays in `old`. Then `holder` takes 'x' from `rival`.
    const holder = configObject({ name: 'holder', createdMs: 1, spec: configSpec({ keys: ['x'] }) });
    const moved = configObject({ name: 'moved', createdMs: 3, spec: configSpec({ domain: 'old' }) });
    const kept = nextLastAccepted(decide([holder, moved], merging), new Map());
    const objects = [
      configObject({ name: 'owner', createdMs: 0, spec: configSpec({ domain: 'mail' }) }),
      { ...holder, generation: 2, spec: configSpec({ domain: 'mail' }) },
      configObject({ name: 'rival', createdMs: 2, spec: configSpec({ keys: ['x', 'k'] }) }),
      { ...moved, generation: 2, spec: configSpec({ keys: ['k'] }) },
      configObject({ name: 'heir', createdMs: 4, spec: configSpec({ domain: 'old' }) }),
    ];
    const decision = decide(objects, { ...merging, kept });
    expect(servedTo(decision, 'default')).toEqual(['mail: key', 'old: key', 'shop: x k']);
  });

  it('accepts an object whose rival is rejected itself in the end', () => {
    // First `rival` takes 'k' from `newcomer`; then `holder`, turned down elsewhere, comes back and takes 'x' from `rival`.
    const holder = configObject({ name: 'holder', createdMs: 1, spec: configSpec({ keys: ['x'] }) });
    const kept = nextLastAccepted(decide([holder], merging), new Map());
    const owner = configObject({ name: 'owner', createdMs: 0, spec: configSpec({ domain: 'mail' }) });
    const wanting = { ...holder, generation: 2, spec: configSpec({ domain: 'mail' }) };
    const rival = configObject({ name: 'rival', createdMs: 2, spec: configSpec({ keys: ['x', 'k'] }) });
    const newcomer = configObject({ name: 'newcomer', createdMs: 3, spec: configSpec({ keys: ['k'] }) });
    const decision = decide([wanting, owner, rival, newcomer], { ...merging, kept });
    expect(servedTo(decision, 'default')).toEqual(['mail: key', 'shop: x k']);
    expect(acceptanceOf(decision, newcomer)).toBe('Valid');
    expect(acceptanceOf(decision, rival)).toContain(
      "descriptor 'x' in domain 'shop' of fleet 'default' belongs to default/holder",
    );
  });
});

describe('limiters that do not support all rules', () => {
  const sliding = (requestsPerUnit: number) => configSpec({ requestsPerUnit, algorithm: 'SlidingWindow' });

  /** `resource: limits` for limiters with these capabilities. */
  function limitsWith({ fleets }: ClusterDecision, has: Capabilities): string[] {
    return snapshotFor(fleets.get('default')!, has).resources.map(({ name, bytes }) => {
      const limits = decodeResource(bytes).descriptors.flatMap((rule) => rule.limits);
      return `${name}: ${limits.map(({ requestsPerUnit }) => requestsPerUnit).join(' ')}`;
    });
  }
  /** For limiters with all capabilities, then for those with none. */
  const limitsFor = (decision: ClusterDecision) => [
    limitsWith(decision, capabilities),
    limitsWith(decision, noCapabilities),
  ];

  /** Decides one object's generations one after the other, as specs. */
  function story(...specs: unknown[]) {
    const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    let kept: LastAcceptedSpecs = new Map();
    let decision = decider.decideAll([], kept);
    let object = configObject({ name: 'a' });
    for (const [index, spec] of specs.entries()) {
      object = configObject({ name: 'a', generation: index + 1, spec });
      decision = decider.decideAll([object], kept);
      kept = nextLastAccepted(decision, kept);
    }
    return { object, kept, decision };
  }

  it('keep the last generation that they support', () => {
    const { object, decision, kept } = story(configSpec({ requestsPerUnit: 1 }), sliding(2), sliding(3));
    expect(limitsFor(decision)).toEqual([['default/a: 3'], ['default/a: 1']]);
    expect(outcome(decision, object)).toMatchObject({
      accepted: { status: true },
      served: { generation: 3, needs: ['algorithms'], fallback: { generation: 1, needs: [] } },
    });
    expect(kept.get(object.uid)).toMatchObject({ generation: 3, fallback: { generation: 1 } });
  });

  it('get it once another replica has stored it, although the newest generation stays', () => {
    const { object, kept } = story(configSpec({ requestsPerUnit: 1 }), sliding(2));
    const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    expect(limitsFor(decider.decideAll([object], new Map()))).toEqual([['default/a: 2'], []]);
    expect(limitsFor(decider.decideAll([object], kept))).toEqual([['default/a: 2'], ['default/a: 1']]);
  });

  it('get nothing of an object that was never for them, and all of the others', () => {
    const { decision } = story(sliding(2));
    expect(limitsFor(decision)).toEqual([['default/a: 2'], []]);
    expect(decision.outcomes.get('uid-default-a')?.served?.fallback).toBeUndefined();
    const other = configObject({ name: 'b', spec: configSpec({ domain: 'b' }) });
    const both = decide([configObject({ name: 'a', spec: sliding(2) }), other]);
    expect(limitsFor(both)).toEqual([['default/a: 2', 'default/b: 10'], ['default/b: 10']]);
  });

  it('get what needs least if they support neither of two generations', () => {
    const large = configSpec({ requestsPerUnit: 2 ** 32 });
    const { object, decision, kept } = story(configSpec({ requestsPerUnit: 1 }), sliding(2), large);
    const other = configObject({ name: 'b', spec: { ...sliding(5), domain: 'b' } });
    const both = decide([object, other], { kept });
    const sets: Capabilities[] = [capabilities, ['wide-numbers'], ['algorithms'], []];
    expect(sets.map((has) => limitsWith(both, has))).toEqual([
      [`default/a: ${2 ** 32}`, 'default/b: 5'],
      [`default/a: ${2 ** 32}`],
      ['default/a: 1', 'default/b: 5'],
      ['default/a: 1'],
    ]);
    expect(neededFor(decision.fleets.get('default')!)).toEqual(['wide-numbers']);
    expect(neededFor(both.fleets.get('default')!)).toEqual(['algorithms', 'wide-numbers']);
  });

  it('keep a generation that needs something if none needs nothing', () => {
    const { decision, kept, object } = story(sliding(1), configSpec({ requestsPerUnit: 2 ** 32 }));
    expect([['algorithms'], []].map((has) => limitsWith(decision, has as Capabilities))).toEqual([
      ['default/a: 1'],
      [],
    ]);
    expect(kept.get(object.uid)?.fallback).toMatchObject({ generation: 1 });
    // Whoever supports it supports the newest one.
    expect(story(sliding(1), sliding(2)).decision.outcomes.get(object.uid)?.served?.fallback).toBeUndefined();
  });

  it('get what all get as soon as they support it', () => {
    const { object, decision, kept } = story(configSpec(), sliding(2), configSpec({ requestsPerUnit: 3 }));
    expect(limitsFor(decision)).toEqual([['default/a: 3'], ['default/a: 3']]);
    expect(kept.get(object.uid)?.fallback).toBeUndefined();
  });

  it('get it with all others if this control plane can read no later one', () => {
    const { kept, object } = story(configSpec({ requestsPerUnit: 1 }), sliding(2), invalidSpec());
    const later = new Map([[object.uid, { ...kept.get(object.uid)!, spec: invalidSpec() }]]);
    const decision = decide([object], { kept: later });
    expect(limitsFor(decision)).toEqual([['default/a: 1'], ['default/a: 1']]);
    expect(outcome(decision, object).served).toMatchObject({ generation: 1, fallback: undefined });
    expect(persistedSpecs(decision, nextLastAccepted(decision, later)).get(object.uid)).toMatchObject({
      generation: 2,
      fallback: { generation: 1 },
    });
  });

  it('keep it while a newer generation is not accepted, and another one stays in force for the others', () => {
    const { object, decision, kept } = story(configSpec({ requestsPerUnit: 1 }), sliding(2), invalidSpec());
    expect(limitsFor(decision)).toEqual([['default/a: 2'], ['default/a: 1']]);
    const persisted = persistedSpecs(decision, kept).get(object.uid);
    expect(persisted).toMatchObject({ generation: 2, fallback: { generation: 1 } });
    const restarted = decide([object], { kept: new Map([[object.uid, persisted!]]) });
    expect(restarted.fleets.get('default')).toEqual(decision.fleets.get('default'));
  });

  it('keep it over a restart', () => {
    const { object, decision, kept } = story(configSpec({ requestsPerUnit: 1 }), sliding(2), sliding(3));
    const persisted = persistedSpecs(decision, kept);
    expect(persisted.get(object.uid)).toMatchObject({ generation: 1, namespace: 'default', name: 'a' });
    const restarted = decide([object], { kept: persisted });
    expect(restarted.fleets.get('default')).toEqual(decision.fleets.get('default'));
    expect(nextLastAccepted(restarted, persisted).get(object.uid)).toMatchObject({
      generation: 3,
      fallback: { generation: 1 },
    });
  });

  it('lose it with the domain that it was for', () => {
    const elsewhere = { ...sliding(2), domain: 'elsewhere' };
    const { decision, object, kept } = story(configSpec(), elsewhere, sliding(3));
    expect(limitsFor(decision)).toEqual([['default/a: 3'], []]);
    expect(kept.get(object.uid)?.fallback).toBeUndefined();
  });

  it('share a merged domain with the objects that they support, without descriptors that those have by now', () => {
    const was = configSpec({ keys: ['x', 'y'], requestsPerUnit: 1 });
    const a = configObject({
      name: 'a',
      generation: 2,
      spec: configSpec({ keys: ['x'], requestsPerUnit: 2, algorithm: 'SlidingWindow' }),
    });
    const kept = new Map([[a.uid, { generation: 1, spec: was }]]);
    const withKey = (key: string) => [
      a,
      configObject({ name: 'b', createdMs: 1, spec: configSpec({ keys: [key] }) }),
    ];
    expect(limitsFor(decide(withKey('z'), { ...merging, kept }))).toEqual([['shop: 2 10'], ['shop: 1 1 10']]);
    expect(limitsFor(decide(withKey('y'), { ...merging, kept }))).toEqual([['shop: 2 10'], ['shop: 1 10']]);
    const both = [
      ...withKey('x'),
      configObject({ name: 'c', createdMs: 1, spec: configSpec({ keys: ['y'] }) }),
    ];
    const moved = [{ ...a, spec: configSpec({ keys: ['z'], algorithm: 'SlidingWindow' }) }, ...both.slice(1)];
    const decision = decide(moved, { ...merging, kept });
    expect(limitsFor(decision)).toEqual([['shop: 10 10 10'], ['shop: 10 10']]);
    expect(outcome(decision, a).served?.fallback).toBeUndefined();
  });

  it('are given the same again when nothing changed', () => {
    const decider = new WholeDecider({ mergeDomains: true, domainOwners: unrestrictedOwners });
    const a = configObject({ name: 'a', spec: configSpec({ keys: ['a'], algorithm: 'SlidingWindow' }) });
    const b = configObject({ name: 'b', spec: configSpec({ keys: ['b'] }) });
    const first = decider.decideAll([a, b], new Map());
    const second = decider.decideAll([b, a], new Map());
    expect(second.fleets.get('default')).toBe(first.fleets.get('default'));
    expect(second.outcomes.get(a.uid)).toBe(first.outcomes.get(a.uid));
  });
});
