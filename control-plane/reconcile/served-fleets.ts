/** Serves settled claims: their resources, and the snapshots of fleets. Returns the same values for unchanged claims. */
import { type Capabilities, supports } from '../../rules/language/capabilities.ts';
import { byAge } from '../model/config-object.ts';
import { type FleetSnapshot, hashOf, type Resource, versionLine } from '../model/fleet-snapshot.ts';
import { mergedOf } from '../model/supported-rules.ts';
import type { ClaimedDomain, DomainClaim, Fallback, ServedDomain } from './claims.ts';

type FallbacksOf = (claim: DomainClaim) => readonly Fallback[];

/** Chosen: up to this number, each change is made separately in the text of a version. */
const maxEdits = 8;

/** The resources of one fleet, in the order of their names. */
class SortedResources {
  readonly #fleet: string;
  readonly #resources: Resource[] = [];
  readonly #lines: string[] = [];
  /**
   * The joined lines. Undefined if they must be joined again. Joining thousands of lines takes longer than changing a few of them in the
   * text.
   */
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

  /** Call it before `#lines` changes. */
  #edit(at: number, before: string, now: string): void {
    this.#snapshot = undefined;
    this.#edits += 1;
    if (this.#edits > maxEdits) this.#text = undefined;
    if (this.#text === undefined) return;
    let offset = 0;
    for (let i = 0; i < at; i += 1) offset += this.#lines[i]!.length;
    this.#text = this.#text.slice(0, offset) + now + this.#text.slice(offset + before.length);
  }

  get snapshot(): FleetSnapshot {
    if (this.#snapshot === undefined) {
      this.#text ??= this.#lines.join('');
      this.#edits = 0;
      const version = hashOf(this.#text);
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

/** The resources of all fleets. */
export class ServedFleets {
  readonly #mergeDomains: boolean;
  readonly #fleets = new Map<string, SortedResources>();
  readonly #snapshots = new Map<string, FleetSnapshot>();

  constructor({ mergeDomains }: { mergeDomains: boolean }) {
    this.#mergeDomains = mergeDomains;
  }

  /** Snapshots by fleet, for fleets with served objects. */
  get snapshots(): ReadonlyMap<string, FleetSnapshot> {
    return this.#snapshots;
  }

  /** Serves the results for these places. `fallbacksOf` returns the possible fallbacks of a claim, the best one first. */
  serve(places: Iterable<ClaimedDomain>, fallbacksOf: FallbacksOf): void {
    const added: [SortedResources, Resource][] = [];
    const touched = new Map<string, SortedResources>();
    for (const place of places) {
      const { fleet, holders, served: before } = place;
      const resources = this.#fleets.get(fleet) ?? new SortedResources(fleet);
      this.#fleets.set(fleet, resources);
      touched.set(fleet, resources);
      const claims = holders.claims.toSorted((a, b) => byAge(a.object, b.object));
      place.served = claims.length === 0 ? undefined : this.#servedDomain(claims, before, fallbacksOf);
      const resource = place.served?.resource;
      if (resource === before?.resource) continue;
      if (before !== undefined) resources.remove(before.resource);
      if (resource !== undefined) added.push([resources, resource]);
    }
    // All removals come before any addition, because two resources with one name must not coexist.
    for (const [resources, resource] of added) resources.add(resource);
    for (const [fleet, { snapshot }] of touched) {
      if (snapshot.resources.length > 0) this.#snapshots.set(fleet, snapshot);
      else {
        this.#fleets.delete(fleet);
        this.#snapshots.delete(fleet);
      }
    }
  }

  /**
   * `claims`: in the order of the objects' age, regardless of which was accepted first, so that the order of their rules does not change
   * back and forth.
   */
  #servedDomain(
    claims: readonly DomainClaim[],
    before: ServedDomain | undefined,
    fallbacksOf: FallbacksOf,
  ): ServedDomain {
    const fallbacks = chosenFallbacks(claims, fallbacksOf);
    const parts = claims.map((claim): Resource => {
      const { resource } = claim.rules;
      const fallback = fallbacks.get(claim)?.rules.resource;
      return fallback === undefined ? resource : { ...resource, fallback };
    });
    const partsBefore = before === undefined ? [] : (before.resource.parts ?? [before.resource]);
    const isKnown =
      parts.length === partsBefore.length && parts.every((part, i) => isSame(part, partsBefore[i]!));
    const resource = isKnown ? before!.resource : this.#joined(parts);
    return { claims: new Set(claims), fallbacks, resource };
  }

  /**
   * If domains are shared, a domain always is one resource of one name, even while only one object has it. Otherwise, an object that joins
   * the domain would replace the resource of the first object. A limiter that rejects the new resource would then have no rules left.
   */
  #joined(parts: readonly Resource[]): Resource {
    return this.#mergeDomains ? mergedOf(parts)! : parts[0]!;
  }
}

/**
 * Returns, for each claim, the first of its possible fallbacks that has a rule left. Other claims have no fallback, because other objects
 * have all of their top-level rules: see `resourceFor`.
 */
function chosenFallbacks(
  claims: readonly DomainClaim[],
  fallbacksOf: FallbacksOf,
): Map<DomainClaim, Fallback> {
  const takenBy = new Map<string, ReadonlySet<string>>();
  const taken = (has: Capabilities): ReadonlySet<string> => {
    const supported = claims.filter(({ rules }) => supports(has, rules.resource.needs));
    const keys = takenBy.get(has.join()) ?? new Set(supported.flatMap(({ rules }) => rules.topKeys));
    takenBy.set(has.join(), keys);
    return keys;
  };
  const hasRuleLeft = ({ spec, rules }: Fallback): boolean => {
    const keys = taken(spec.needs);
    return rules.topKeys.some((key) => !keys.has(key));
  };
  return new Map(
    claims.flatMap((claim) => {
      const fallback = fallbacksOf(claim).find(hasRuleLeft);
      return fallback === undefined ? [] : [[claim, fallback] as const];
    }),
  );
}

function isSame(a: Resource, b: Resource): boolean {
  return a.bytes === b.bytes && a.fallback === b.fallback;
}
