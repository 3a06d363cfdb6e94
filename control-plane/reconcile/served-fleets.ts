/**
 * From settled claims to snapshots: what each fleet is served, and what its limiters are served that cannot obey everything. Gives the same values for what did not change.
 */
import { budgetsRulesVersion, overridesRulesVersion } from '../../rules/model.ts';
import { encodeResource } from '../../rules/xds/resource.ts';
import { byAge } from '../model/config-object.ts';
import type { SpecGeneration } from '../model/decision.ts';
import {
  type FleetSnapshot,
  fleetSnapshot,
  hashOf,
  oldRulesVersion,
  type Resource,
} from '../model/fleet-snapshot.ts';
import type { Claim, SettledClaims } from './claims.ts';
import type { ReadRules } from './spec-reading.ts';

/** What limiters are served in place of what they cannot obey: rules of version 1. */
export interface OldRules {
  spec: SpecGeneration;
  rules: ReadRules;
}

export interface ClaimsToServe {
  places: ReturnType<SettledClaims['places']>;
  /** The last rules of the claim's object for the same domain that limiters of any version obey. */
  oldRulesOf(claim: Claim): OldRules | undefined;
}

export interface ServedClaims {
  /** The resource that each one is in. */
  resources: ReadonlyMap<Claim, Resource>;
  /** What old limiters get in place of it. */
  forOld: ReadonlyMap<Claim, OldRules>;
  /** Those that some object is served to. */
  fleets: ReadonlyMap<string, ServedFleet>;
}

export interface ServedFleet {
  /** One for each of `tiers`; the same as the next one where that obeys everything. */
  tiers: readonly ServedTier[];
  snapshot: FleetSnapshot;
}

interface ServedTier {
  gathered: Gathered;
  /** With those of the tiers behind it. */
  snapshot: FleetSnapshot;
}

/** Limiters that are not served the same: `obeyed` is the most that rules may need, `needed` what the next ones do not obey. */
const tiers = [
  { obeyed: budgetsRulesVersion, needed: budgetsRulesVersion },
  { obeyed: overridesRulesVersion, needed: undefined },
  { obeyed: oldRulesVersion, needed: undefined },
] as const;

interface Gathered {
  resources: ReadonlySet<Resource>;
  snapshot: FleetSnapshot;
  /** By domain: what several objects have rules for. */
  merged: ReadonlyMap<string, Merged>;
}

interface Merged {
  parts: readonly Resource[];
  resource: Resource;
}

/** What limiters of a fleet are to be served, as it comes together; `last` is what they were served in the round before. */
class Gathering {
  readonly #last: Gathered | undefined;
  readonly #list: Resource[] = [];
  readonly #merged = new Map<string, Merged>();

  constructor(last: Gathered | undefined) {
    this.#last = last;
  }

  add(resource: Resource): void {
    this.#list.push(resource);
  }

  /** Returns the resource that they are in. */
  addMerged(parts: readonly Resource[]): Resource {
    const { domain } = parts[0]!;
    const whole = merge(parts, this.#last?.merged.get(domain));
    this.#merged.set(domain, whole);
    this.add(whole.resource);
    return whole.resource;
  }

  isAs(other: Gathering): boolean {
    return this.#list.length === other.#list.length && this.#list.every((one, i) => one === other.#list[i]);
  }

  gathered(fleet: string): Gathered {
    const [last, list] = [this.#last, this.#list];
    const isSame = last?.resources.size === list.length && list.every((one) => last.resources.has(one));
    const { resources, snapshot } = isSame
      ? last
      : { resources: new Set(list), snapshot: fleetSnapshot(fleet, list) };
    return { resources, snapshot, merged: this.#merged };
  }
}

/** `lastFleets` are those of the round before. */
export function serveClaims(
  { places, oldRulesOf }: ClaimsToServe,
  lastFleets: ReadonlyMap<string, ServedFleet>,
): ServedClaims {
  const resources = new Map<Claim, Resource>();
  const forOld = new Map<Claim, OldRules>();
  const gatherings = new Map<string, Gathering[]>();
  for (const { fleet, holders } of places) {
    if (holders.claims.length === 0) continue;
    const last = lastFleets.get(fleet);
    const gathering = gatherings.get(fleet) ?? tiers.map((_, i) => new Gathering(last?.tiers[i]?.gathered));
    gatherings.set(fleet, gathering);
    // In the order of the objects' age, whoever was accepted first: so the order of their rules never flips.
    const claims = holders.claims.toSorted((a, b) => byAge(a.object, b.object));
    const gather = (into: Gathering, parts: readonly Resource[]): Resource => {
      if (claims.length > 1) return into.addMerged(parts);
      into.add(parts[0]!);
      return parts[0]!;
    };
    const parts = claims.map(({ rules }) => rules.resource);
    const resource = gather(gathering[0]!, parts);
    for (const claim of claims) resources.set(claim, resource);
    for (const [i, { obeyed }] of tiers.entries()) {
      if (i === 0) continue;
      const isObeyed = ({ rules }: Claim): boolean => rules.rulesVersion <= obeyed;
      if (claims.every(isObeyed)) gathering[i]!.add(resource);
      else {
        const oldParts = oldPartsOf(claims, { isObeyed, oldRulesOf, forOld });
        if (oldParts.length > 0) gather(gathering[i]!, oldParts);
      }
    }
  }
  const fleets = new Map<string, ServedFleet>();
  for (const [fleet, gathering] of gatherings)
    fleets.set(fleet, servedFleet(fleet, gathering, lastFleets.get(fleet)));
  return { resources, forOld, fleets };
}

function servedFleet(
  fleet: string,
  gathering: readonly Gathering[],
  last: ServedFleet | undefined,
): ServedFleet {
  const all: Gathered[] = [];
  for (const [i, one] of gathering.entries())
    all.push(i > 0 && one.isAs(gathering[i - 1]!) ? all[i - 1]! : one.gathered(fleet));
  const served: ServedTier[] = [];
  for (const [i, { needed }] of [...tiers.entries()].reverse()) {
    const gathered = all[i]!;
    const [below] = served;
    if (below?.gathered === gathered) {
      served.unshift(below);
      continue;
    }
    const before = last?.tiers[i];
    const isSame =
      before?.gathered.snapshot === gathered.snapshot && before.snapshot.forOld === below?.snapshot;
    const more = {
      ...(below && { forOld: below.snapshot }),
      ...(below && needed && { rulesVersion: needed }),
    };
    served.unshift({ gathered, snapshot: isSame ? before.snapshot : { ...gathered.snapshot, ...more } });
  }
  return { tiers: served, snapshot: served[0]!.snapshot };
}

/**
 * What old limiters are served of claims on one domain: of what they cannot obey, what they could before, unless another
 * object has one of its descriptors by now. What takes a claim's place is put into `forOld`.
 */
function oldPartsOf(
  claims: readonly Claim[],
  {
    isObeyed,
    oldRulesOf,
    forOld,
  }: Pick<ClaimsToServe, 'oldRulesOf'> & { isObeyed(claim: Claim): boolean; forOld: Map<Claim, OldRules> },
): Resource[] {
  const taken = new Set(claims.filter(isObeyed).flatMap(({ rules }) => rules.topKeys));
  return claims.flatMap((claim) => {
    if (isObeyed(claim)) return claim.rules.resource;
    const old = oldRulesOf(claim);
    if (old === undefined || old.rules.topKeys.some((key) => taken.has(key))) return [];
    for (const key of old.rules.topKeys) taken.add(key);
    forOld.set(claim, old);
    return old.rules.resource;
  });
}

/**
 * Encoded messages one after the other are their merge, as the encoding of Protocol Buffers has it: lists add up, and
 * of a single field the last value counts, here the name.
 */
function merge(parts: readonly Resource[], last: Merged | undefined): Merged {
  const isKnown = last?.parts.length === parts.length && last.parts.every((part, i) => part === parts[i]);
  if (isKnown) return last;
  const { domain } = parts[0]!;
  // One with a slash is marked, since it may read like the name of an object, which holds no blank.
  const name = domain.includes('/') ? `domain ${domain}` : domain;
  const head = encodeResource({ name, domain, descriptors: [] });
  const bytes = Buffer.concat([...parts.map((part) => part.bytes), head]);
  return { parts, resource: { name, domain, bytes, hash: hashOf(bytes) } };
}
