import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Capabilities, noCapabilities, supports } from '../../rules/language/capabilities.ts';
import { decodeResource } from '../../rules/reader/resource.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { validateSources } from '../../test/support/rule-builder.ts';
import { nextLastAccepted, WholeDecider } from '../../test/support/whole-decider.ts';
import { type ConfigObject, objectKey } from '../model/config-object.ts';
import type { ClusterDecision, LastAcceptedSpec } from '../model/decision.ts';
import { parseDomainOwners, unrestrictedOwners } from '../model/domain-owners.ts';
import { neededCapabilities, snapshotFor } from '../model/supported-rules.ts';
import { changedKeys } from '../model/versioned-map.ts';
import { statusOf } from './conditions.ts';
import type { DeciderOptions } from './decide.ts';
import { FleetRollout } from './fleet-rollout.ts';

type LastAcceptedSpecs = ReadonlyMap<string, LastAcceptedSpec>;

const sets: Capabilities[] = [noCapabilities, ['windows'], ['windows', 'algorithms']];

const limit = fc.record({ unit: fc.constantFrom('second', 'day', 'fortnight'), requestsPerUnit: fc.nat(5) });
const sliding = { unit: 'day', requestsPerUnit: 5, algorithm: 'SlidingWindow' };
const longer = { unit: 'day', unitMultiplier: 2, requestsPerUnit: 5 };
const key = fc.constantFrom('k', 'l', 'm', 'k_v', '__proto__', 'é*', '');
const rule = fc.record({ key, value: fc.constantFrom('v', 'v*', '😀') }, { requiredKeys: ['key'] });
const level = fc.array(
  fc
    .tuple(rule, fc.option(limit, { nil: undefined, freq: 4 }), fc.array(rule, { maxLength: 2 }))
    .map(([head, rateLimit, descriptors]) => ({ ...head, ...(rateLimit && { rateLimit }), descriptors })),
  { maxLength: 3 },
);
/** Valid ones mostly, in few domains and with few keys, so that many of them clash. */
const spec = fc.oneof(
  { weight: 1, arbitrary: fc.constantFrom<unknown>(undefined, null, 'x', {}, { domain: '' }, []) },
  {
    weight: 4,
    arbitrary: fc.record({
      fleet: fc.constantFrom('default', 'edge'),
      domain: fc.constantFrom('a', 'b'),
      descriptors: level,
    }),
  },
  {
    weight: 8,
    arbitrary: fc
      .record({
        domain: fc.constantFrom('a', 'b', 'c', 'x/0', '__proto__'),
        keys: fc.subarray(['k', 'l', 'm', 'k_v']),
        rateLimit: fc.constantFrom(undefined, undefined, sliding, longer),
      })
      .map(({ domain, keys, rateLimit }) => ({
        domain,
        descriptors: keys.map((name) => ({ key: name, ...(rateLimit && { rateLimit }) })),
      })),
  },
);

/** What happens to one of the objects. */
const step = fc.record({
  name: fc.nat(6).map(String),
  event: fc.constantFrom('delete', 'change', 'change', 'change'),
  spec,
  createdMs: fc.nat(3),
  isStatusWritten: fc.boolean(),
});
const history = fc.array(step, { minLength: 1, maxLength: 14 });
const settings = fc.record({
  mergeDomains: fc.boolean(),
  owners: fc.constantFrom('', '', 'a=y; *=x'),
});

const newest: ConfigObject = {
  namespace: 'x',
  name: 'newcomer',
  uid: 'newcomer',
  generation: 1,
  createdMs: 99,
  spec: undefined,
  status: undefined,
};

interface World {
  objects: readonly ConfigObject[];
  kept: LastAcceptedSpecs;
}

function optionsOf({ mergeDomains, owners }: { mergeDomains: boolean; owners: string }): DeciderOptions {
  const parsed = parseDomainOwners(owners, 'open');
  return { mergeDomains, domainOwners: parsed.ok ? parsed.owners : unrestrictedOwners };
}

/** After each step, the world and what was decided on it. */
function* played(
  steps: readonly (typeof step extends fc.Arbitrary<infer T> ? T : never)[],
  options: DeciderOptions,
) {
  const decider = new WholeDecider(options);
  let world: World = { objects: [], kept: new Map() };
  for (const [index, { name, event, createdMs, isStatusWritten, ...change }] of steps.entries()) {
    const before = world.objects.find((object) => object.name === name);
    const others = world.objects.filter((object) => object !== before);
    const created = {
      namespace: Number(name) % 2 === 0 ? 'x' : 'y',
      name,
      uid: `${name}-${index}`,
      createdMs,
    };
    const next =
      before === undefined
        ? { ...created, generation: 1, spec: change.spec, status: undefined }
        : { ...before, generation: before.generation + 1, spec: change.spec };
    world = { ...world, objects: event === 'delete' ? others : [...others, next] };
    const decision = decider.decideAll(world.objects, world.kept);
    yield { world, decision };
    world = {
      objects: isStatusWritten ? withStatus(decision) : world.objects,
      kept: nextLastAccepted(decision, world.kept),
    };
  }
}

function withStatus({ outcomes }: ClusterDecision): ConfigObject[] {
  const noLimiters = { limiters: [], coming: [], isShort: false, mayBeMore: false };
  const standing = new FleetRollout(noLimiters).of({ number: 1, ms: 0, needs: [] });
  return [...outcomes.values()].map((outcome) => {
    const facts = { outcome, standing, awaitsMore: false, hasOthers: false, isOversize: false };
    return { ...outcome.object, status: statusOf({ ...facts, previous: outcome.object.status, nowMs: 0 }) };
  });
}

/** Everything that follows, in an order of its own. Without names of resources, which change when domains are merged. */
function outcomeOf({ fleets, outcomes }: ClusterDecision, without?: ConfigObject) {
  return {
    fleets: [...fleets.values()]
      .map((one) => `${one.fleet} ${one.version} ${snapshotFor(one, noCapabilities).version}`)
      .sort(),
    outcomes: [...outcomes.values()]
      .filter(({ object }) => object.uid !== without?.uid)
      .map(({ object, accepted, served }) => ({
        key: objectKey(object),
        accepted,
        served: served && { ...served, resource: '' },
      }))
      .sort((a, b) => (a.key < b.key ? -1 : 1)),
  };
}

function forEveryHistory(
  check: (world: World, decision: ClusterDecision, options: DeciderOptions) => void,
): void {
  fc.assert(
    fc.property(history, settings, (steps, chosen) => {
      const options = optionsOf(chosen);
      for (const { world, decision } of played(steps, options)) check(world, decision, options);
    }),
    { numRuns: caseCount(150) },
  );
}

describe('decide, whatever happened before', () => {
  it('serves only what a limiter without any setting loads', () => {
    forEveryHistory((_, { fleets }) => {
      for (const snapshot of fleets.values()) {
        for (const has of sets) {
          const served = snapshotFor(snapshot, has).resources;
          const sources = served.map(({ bytes }) => decodeResource(bytes));
          expect(validateSources(sources, { mergeDomains: false })).toEqual([]);
          compileRules(sources);
          expect(new Set(served.map(({ name }) => name)).size).toBe(served.length);
        }
      }
    });
  });

  it('serves limiters only what they support, and of everything else what all others are served', () => {
    forEveryHistory((_, { fleets, outcomes }) => {
      for (const has of sets) {
        for (const snapshot of fleets.values()) {
          const sources = snapshotFor(snapshot, has).resources.map(({ bytes }) => decodeResource(bytes));
          const needs = neededCapabilities(sources.flatMap(({ descriptors }) => descriptors));
          expect(supports(has, needs)).toBe(true);
        }
        for (const { served } of outcomes.values()) {
          if (served === undefined || !supports(has, served.needs)) continue;
          const { resources } = snapshotFor(fleets.get(served.fleet)!, has);
          const found = resources.find(({ name }) => name === served.resource);
          expect(Buffer.from(found!.bytes).includes(served.bytes)).toBe(true);
        }
      }
    });
  });

  it('serves every accepted object its newest generation, and what it says that it serves', () => {
    forEveryHistory((_, { fleets, outcomes }) => {
      const named = new Set<string>();
      for (const { object, accepted, served } of outcomes.values()) {
        if (accepted.status) expect(served?.generation).toBe(object.generation);
        else if (served === undefined) expect(accepted.message).toMatch(/; nothing is in force$/);
        else expect(accepted.message.endsWith(`; generation ${served.generation} stays in force`)).toBe(true);
        if (served === undefined) continue;
        named.add(`${served.fleet} ${served.resource}`);
      }
      const resources = [...fleets.values()].flatMap(({ fleet, resources }) =>
        resources.map(({ name }) => `${fleet} ${name}`),
      );
      expect([...named].sort()).toEqual(resources.sort());
    });
  });

  it('does not depend on the order of objects, nor on what was decided before', () => {
    forEveryHistory(({ objects, kept }, decision, options) => {
      const expected = outcomeOf(decision);
      expect(outcomeOf(new WholeDecider(options).decideAll(objects.toReversed(), kept))).toEqual(expected);
      const rotated = [...objects.slice(2), ...objects.slice(0, 2)];
      expect(outcomeOf(new WholeDecider(options).decideAll(rotated, kept))).toEqual(expected);
    });
  });

  it('says for which objects its outcome has changed, and which object has which domain', () => {
    let last: ClusterDecision['outcomes'] | undefined;
    forEveryHistory(({ objects }, decision) => {
      const { outcomes, holders } = decision;
      const before = last ?? new Map();
      last = outcomes;
      expect(changedKeys(outcomes, before)).toEqual(changedKeys(new Map(outcomes), new Map(before)));
      const served = objects.flatMap((object) => {
        const config = outcomes.get(object.uid)!.served;
        return config === undefined ? [] : [`${config.fleet}/${config.domain} ${object.namespace}`];
      });
      const held = [...holders].flatMap(([key, all]) => all.map((namespace) => `${key} ${namespace}`));
      expect(held.sort()).toEqual([...new Set(served)].sort());
    });
  });

  it('decides the same once the statuses are written and the stored specs follow', () => {
    forEveryHistory(({ kept }, decision, options) => {
      const again = new WholeDecider(options);
      const expected = outcomeOf(decision);
      const written = withStatus(decision);
      expect(outcomeOf(again.decideAll(written, kept))).toEqual(expected);
      expect(outcomeOf(again.decideAll(written, nextLastAccepted(decision, kept)))).toEqual(expected);
    });
  });

  it('does not let a newcomer change what is said about the others', () => {
    fc.assert(
      fc.property(history, settings, spec, (steps, chosen, claimed) => {
        const options = optionsOf(chosen);
        const newcomer = { ...newest, spec: claimed };
        for (const { world, decision } of played(steps, options)) {
          const joined = new WholeDecider(options).decideAll([newcomer, ...world.objects], world.kept);
          const isServed = joined.outcomes.get(newcomer.uid)?.served !== undefined;
          // An older generation gives way to who has one of its descriptors by now, and another to it.
          const newestOf = (outcome: ClusterDecision) =>
            outcomeOf(outcome, newcomer).outcomes.map(({ served, ...outcome }) => {
              return { ...outcome, served: served && { ...served, fallback: undefined } };
            });
          expect(newestOf(joined)).toEqual(newestOf(decision));
          if (!isServed) expect(outcomeOf(joined, newcomer)).toEqual(outcomeOf(decision));
        }
      }),
      { numRuns: caseCount(150) },
    );
  });

  it('leaves every object something in force that had something in force', () => {
    forEveryHistory(({ kept }, { outcomes }) => {
      for (const uid of kept.keys()) {
        const outcome = outcomes.get(uid);
        if (outcome !== undefined) expect(outcome.served).toBeDefined();
      }
    });
  });
});
