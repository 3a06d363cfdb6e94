import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  type Capabilities,
  capabilities,
  noCapabilities,
  supports,
} from '../../rules/language/capabilities.ts';
import { compositeOf } from '../../rules/model.ts';
import { decodeResource } from '../../rules/reader/resource.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { nextLastAccepted, persistedSpecs, WholeDecider } from '../../test/support/whole-decider.ts';
import type { ConfigObject } from '../model/config-object.ts';
import type { ClusterDecision, LastAcceptedSpec, ServedConfig, SpecGeneration } from '../model/decision.ts';
import { unrestrictedOwners } from '../model/domain-owners.ts';
import { snapshotFor } from '../model/supported-rules.ts';
import { readRules } from './spec-reading.ts';

/** Each limiter supports all that the one before it supports, as neighboring versions do. */
const limiters: Capabilities[] = [noCapabilities, ['windows'], ['windows', 'algorithms'], capabilities];

const limits = [
  { unit: 'day', requestsPerUnit: 5 },
  { unit: 'day', requestsPerUnit: 5, unitMultiplier: 2 },
  { unit: 'day', requestsPerUnit: 5, algorithm: 'SlidingWindow' },
  { requestsPerUnit: 5, calendar: { unit: 'day' } },
  { unit: 'fortnight', requestsPerUnit: 5 },
];
const step = fc.record({
  name: fc.constantFrom('a', 'b', 'c'),
  event: fc.constantFrom('change', 'change', 'change', 'delete', 'restart'),
  domain: fc.constantFrom('d', 'd', 'd', 'e'),
  keys: fc.subarray(['k', 'l', 'm'], { minLength: 1 }),
  limit: fc.constantFrom(...limits),
});

/** The generation that most limiters support has no rule left, because `a` has it by then. */
const otherHasFallback = (
  [
    ['b', ['m'], 0],
    ['b', ['k', 'm'], 2],
    ['a', ['m'], 0],
    ['b', ['k'], 3],
  ] as const
).map(([name, keys, limit]) => ({
  ...{ name, event: 'change' as const, domain: 'd' as const },
  ...{ keys: [...keys], limit: limits[limit]! },
}));

const specOf = ({ domain, keys, limit }: { domain: string; keys: string[]; limit: object }) => ({
  domain,
  descriptors: keys.map((key) => ({ key, rateLimit: limit })),
});

function keysOf(spec: unknown): string[] {
  const reading = readRules({ spec, namespace: 'x', name: 'a' }, { schemas: undefined, version: '' });
  return reading.ok ? [...reading.topKeys] : [];
}

/** The generation of the object that a limiter with these capabilities gets. */
function generationFor(
  { needs, fallback, ...served }: ServedConfig,
  has: Capabilities,
): SpecGeneration | undefined {
  if (supports(has, needs)) return served;
  return fallback && supports(has, fallback.needs) ? fallback : undefined;
}

function keysFor({ fleets }: ClusterDecision, domain: string, has: Capabilities): string[] {
  const snapshot = fleets.get('default');
  const resource = snapshot && snapshotFor(snapshot, has).resources.find((one) => one.domain === domain);
  return resource === undefined ? [] : decodeResource(resource.bytes).descriptors.map(compositeOf);
}

it('leaves each limiter a generation that it supports of an object of which it had one, and no rule goes that had none in its place', () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 2, maxLength: 14 }), fc.boolean(), (steps, mergeDomains) => {
      const options = { mergeDomains, domainOwners: unrestrictedOwners };
      let decider = new WholeDecider(options);
      let objects: ConfigObject[] = [];
      let kept: ReadonlyMap<string, LastAcceptedSpec> = new Map();
      let last: ClusterDecision | undefined;
      for (const [index, { name, event, ...spec }] of steps.entries()) {
        const before = objects.find((object) => object.name === name);
        const others = objects.filter((object) => object !== before);
        if (event === 'restart') {
          decider = new WholeDecider(options);
          kept = last === undefined ? kept : persistedSpecs(last, kept);
        } else if (event === 'delete') objects = others;
        else {
          const created = {
            namespace: 'x',
            name,
            uid: `${name}-${index}`,
            createdMs: index,
            status: undefined,
          };
          const generation = (before?.generation ?? 0) + 1;
          objects = [...others, { ...(before ?? created), generation, spec: specOf(spec) }];
        }
        const decision = decider.decideAll(objects, kept);
        for (const [uid, { served }] of decision.outcomes) {
          const former = last?.outcomes.get(uid)?.served;
          if (served === undefined || former?.domain !== served.domain) continue;
          for (const has of limiters) {
            const had = generationFor(former, has);
            if (had === undefined || supports(has, served.needs)) continue;
            // Other objects may have all of its rules by now.
            const now = keysFor(decision, served.domain, has);
            if (has.length === 0) expect(keysOf(had.spec).filter((key) => !now.includes(key))).toEqual([]);
            const given = generationFor(served, has);
            if (given === undefined) expect(keysOf(had.spec).filter((key) => !now.includes(key))).toEqual([]);
          }
        }
        kept = nextLastAccepted(decision, kept);
        last = decision;
      }
    }),
    { numRuns: caseCount(1000), examples: [[otherHasFallback, true]] },
  );
});
