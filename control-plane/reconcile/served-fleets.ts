/**
 * From settled claims to snapshots: what each fleet is served, and what its limiters are served that cannot obey everything. Gives the same values for what did not change.
 */
import { budgetsRulesVersion, overridesRulesVersion } from '../../rules/model.ts';
import { encodeResource } from '../../rules/xds/resource.ts';
import { byAge } from '../model/config-object.ts';
import type { SpecGeneration } from '../model/decision.ts';
import {
  type FleetSnapshot,
  hashOf,
  oldRulesVersion,
  type Resource,
  versionLine,
  versionOfText,
} from '../model/fleet-snapshot.ts';
import type { Claim, Settled } from './claims.ts';
import type { ReadRules } from './spec-reading.ts';

/** What limiters are served in place of what they cannot obey: rules of version 1. */
export interface OldRules {
  spec: SpecGeneration;
  rules: ReadRules;
}

interface ServedTier {
  /** Without those of the tiers behind it. */
  base: FleetSnapshot;
  snapshot: FleetSnapshot;
}

/** Limiters that are not served the same: `obeyed` is the most that rules may need, `needed` what the next ones do not obey. */
const tiers = [
  { obeyed: budgetsRulesVersion, needed: budgetsRulesVersion },
  { obeyed: overridesRulesVersion, needed: undefined },
  { obeyed: oldRulesVersion, needed: undefined },
] as const;

interface Merged {
  parts: readonly Resource[];
  resource: Resource;
}

/** The resources for one domain of a fleet. */
interface ServedPlace {
  claims: ReadonlySet<Claim>;
  /** One for each of `tiers`; undefined: nothing. */
  resources: readonly (Resource | undefined)[];
  /** By tier: what several objects have rules for. */
  merged: readonly (Merged | undefined)[];
  /** What old limiters get in place of a claim. */
  forOld: ReadonlyMap<Claim, OldRules>;
}

/** Chosen: of so many changes at once each is made in the text of a version. */
const mostEdits = 8;

/** The resources of one tier of one fleet, in the order of their names. */
class SortedResources {
  readonly #fleet: string;
  readonly #resources: Resource[] = [];
  readonly #lines: string[] = [];
  /** All lines; undefined: they have to be joined. To join thousands takes longer than to change a few in the text. */
  #text: string | undefined;
  #edits = 0;
  #snapshot: FleetSnapshot | undefined;

  constructor(fleet: string) {
    this.#fleet = fleet;
  }

  remove(resource: Resource): void {
    const at = this.#placeOf(resource);
    this.#resources.splice(at, 1);
    this.#edit(at, this.#lines[at]!, '');
    this.#lines.splice(at, 1);
  }

  add(resource: Resource): void {
    const at = this.#placeOf(resource);
    const line = versionLine(resource);
    this.#resources.splice(at, 0, resource);
    this.#edit(at, '', line);
    this.#lines.splice(at, 0, line);
  }

  /** Before `#lines` changes. */
  #edit(at: number, before: string, now: string): void {
    this.#snapshot = undefined;
    this.#edits += 1;
    if (this.#edits > mostEdits) this.#text = undefined;
    if (this.#text === undefined) return;
    let offset = 0;
    for (let i = 0; i < at; i += 1) offset += this.#lines[i]!.length;
    this.#text = this.#text.slice(0, offset) + now + this.#text.slice(offset + before.length);
  }

  get snapshot(): FleetSnapshot {
    if (this.#snapshot === undefined) {
      this.#text ??= this.#lines.join('');
      this.#edits = 0;
      const version = versionOfText(this.#text);
      this.#snapshot = { fleet: this.#fleet, version, resources: [...this.#resources] };
    }
    return this.#snapshot;
  }

  /** Returns the index of the first resource whose name is not smaller. */
  #placeOf({ name }: Resource): number {
    let [low, high] = [0, this.#resources.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#resources[middle]!.name < name) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The resources of one fleet, as they change. */
class FleetGathering {
  readonly #tiers: readonly SortedResources[];
  /** By domain. */
  readonly #places = new Map<string, ServedPlace>();
  /** By tier: how many domains have something else there than in the tier before it. */
  readonly #differing = tiers.map(() => 0);
  /** One for each of `tiers`; the same as the next one where that obeys everything. */
  #served: readonly ServedTier[] | undefined;

  constructor(fleet: string) {
    this.#tiers = tiers.map(() => new SortedResources(fleet));
  }

  get isEmpty(): boolean {
    return this.#places.size === 0;
  }

  place(domain: string): ServedPlace | undefined {
    return this.#places.get(domain);
  }

  /** All that are taken out go before any comes in: of two resources with one name only one may be there. */
  takeOut(domain: string, next: ServedPlace | undefined): void {
    const before = this.#places.get(domain);
    this.#count(before, -1);
    for (const [i, resource] of (before?.resources ?? []).entries())
      if (resource !== undefined && resource !== next?.resources[i]) this.#tiers[i]!.remove(resource);
  }

  /** After `takeOut`. */
  putIn(domain: string, next: ServedPlace | undefined): void {
    const before = this.#places.get(domain);
    this.#count(next, 1);
    for (const [i, resource] of (next?.resources ?? []).entries())
      if (resource !== undefined && resource !== before?.resources[i]) this.#tiers[i]!.add(resource);
    if (next === undefined) this.#places.delete(domain);
    else this.#places.set(domain, next);
  }

  #count(place: ServedPlace | undefined, by: number): void {
    for (const [i, resource] of (place?.resources ?? []).entries())
      if (i > 0 && resource !== place!.resources[i - 1]) this.#differing[i]! += by;
  }

  served(): FleetSnapshot {
    const bases: FleetSnapshot[] = [];
    for (const [i, tier] of this.#tiers.entries())
      bases.push(i > 0 && this.#differing[i] === 0 ? bases[i - 1]! : tier.snapshot);
    const served: ServedTier[] = [];
    for (const [i, { needed }] of [...tiers.entries()].reverse()) {
      const base = bases[i]!;
      const [below] = served;
      if (below?.base === base) {
        served.unshift(below);
        continue;
      }
      const before = this.#served?.[i];
      const isSame = before?.base === base && before.snapshot.forOld === below?.snapshot;
      const more = {
        ...(below && { forOld: below.snapshot }),
        ...(below && needed && { rulesVersion: needed }),
      };
      served.unshift({ base, snapshot: isSame ? before.snapshot : { ...base, ...more } });
    }
    this.#served = served;
    return served[0]!.snapshot;
  }
}

/** The resources of all fleets. */
export class ServedFleets {
  readonly #gatherings = new Map<string, FleetGathering>();
  readonly #snapshots = new Map<string, FleetSnapshot>();

  /** By fleet: those that some object is served to. */
  get snapshots(): ReadonlyMap<string, FleetSnapshot> {
    return this.#snapshots;
  }

  /** The resource that a claim is in; undefined: it is not served. */
  resourceOf(claim: Claim): Resource | undefined {
    const place = this.#placeOf(claim.rules);
    return place?.claims.has(claim) ? place.resources[0] : undefined;
  }

  /** What old limiters get in place of a claim. */
  forOld(claim: Claim): OldRules | undefined {
    return this.#placeOf(claim.rules)?.forOld.get(claim);
  }

  /** Returns the resource of the whole domain. */
  resourceAt(place: { fleet: string; domain: string }): Resource | undefined {
    return this.#placeOf(place)?.resources[0];
  }

  /**
   * Serves what came out of these places. `oldRulesOf` gives the last rules of the claim's object for the same domain that limiters
   * of any version obey.
   */
  serve(places: Settled['places'], oldRulesOf: (claim: Claim) => OldRules | undefined): void {
    const next = [...places].map(({ fleet, domain, holders }) => {
      const gathering = this.#gatherings.get(fleet) ?? new FleetGathering(fleet);
      this.#gatherings.set(fleet, gathering);
      const claims = holders.claims.toSorted((a, b) => byAge(a.object, b.object));
      const before = gathering.place(domain);
      const served = claims.length === 0 ? undefined : servedPlace(claims, before, oldRulesOf);
      return { fleet, gathering, domain, served };
    });
    for (const { gathering, domain, served } of next) gathering.takeOut(domain, served);
    for (const { gathering, domain, served } of next) gathering.putIn(domain, served);
    for (const [fleet, gathering] of new Map(next.map(({ fleet, gathering }) => [fleet, gathering]))) {
      if (gathering.isEmpty) {
        this.#gatherings.delete(fleet);
        this.#snapshots.delete(fleet);
      } else this.#snapshots.set(fleet, gathering.served());
    }
  }

  #placeOf({ fleet, domain }: { fleet: string; domain: string }): ServedPlace | undefined {
    return this.#gatherings.get(fleet)?.place(domain);
  }
}

/** `claims` in the order of the objects' age, no matter who was accepted first: so the order of their rules never flips. */
function servedPlace(
  claims: readonly Claim[],
  before: ServedPlace | undefined,
  oldRulesOf: (claim: Claim) => OldRules | undefined,
): ServedPlace {
  const merged: (Merged | undefined)[] = [];
  const forOld = new Map<Claim, OldRules>();
  const resourceOf = (tier: number, parts: readonly Resource[]): Resource | undefined => {
    if (claims.length === 1 || parts.length === 0) return parts[0];
    const whole = merge(parts, before?.merged[tier]);
    merged[tier] = whole;
    return whole.resource;
  };
  const all = resourceOf(
    0,
    claims.map(({ rules }) => rules.resource),
  );
  const resources = tiers.map(({ obeyed }, i) => {
    const isObeyed = ({ rules }: Claim): boolean => rules.rulesVersion <= obeyed;
    if (i === 0 || claims.every(isObeyed)) return all;
    return resourceOf(i, oldPartsOf(claims, { isObeyed, oldRulesOf, forOld }));
  });
  return { claims: new Set(claims), resources, merged, forOld };
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
  }: {
    isObeyed(claim: Claim): boolean;
    oldRulesOf(claim: Claim): OldRules | undefined;
    forOld: Map<Claim, OldRules>;
  },
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
