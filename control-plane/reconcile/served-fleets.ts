/** Creates snapshots from settled claims. Returns the same values for unchanged claims. */
import { type Capabilities, supports } from '../../rules/language/capabilities.ts';
import { byAge } from '../model/config-object.ts';
import type { FallbackSpec } from '../model/decision.ts';
import { type FleetSnapshot, type Resource, versionLine, versionOfText } from '../model/fleet-snapshot.ts';
import { mergedOf } from '../model/served-rules.ts';
import type { DomainClaim, ResolvedClaims } from './claims.ts';
import type { ReadRules } from './spec-reading.ts';

/** The rules for limiters that do not support a claim. */
export interface Fallback {
  spec: FallbackSpec;
  rules: ReadRules;
}

type FallbacksOf = (claim: DomainClaim) => readonly Fallback[];

/** The resource for one domain of a fleet. */
interface ServedPlace {
  claims: ReadonlySet<DomainClaim>;
  fallbacks: ReadonlyMap<DomainClaim, Fallback>;
  resource: Resource;
}

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

/** The resources of one fleet, which change in place. */
class FleetGathering {
  readonly resources: SortedResources;
  /** Served places by domain. */
  readonly places = new Map<string, ServedPlace>();

  constructor(fleet: string) {
    this.resources = new SortedResources(fleet);
  }

  /** Removes resources. All removals come before any addition, because two resources with one name must not coexist. */
  takeOut(domain: string, next: ServedPlace | undefined): void {
    const before = this.places.get(domain)?.resource;
    if (before !== undefined && before !== next?.resource) this.resources.remove(before);
  }

  /** Adds resources. Call it after `takeOut`. */
  putIn(domain: string, next: ServedPlace | undefined): void {
    const before = this.places.get(domain);
    if (next === undefined) this.places.delete(domain);
    else this.places.set(domain, next);
    if (next !== undefined && next.resource !== before?.resource) this.resources.add(next.resource);
  }
}

/** The resources of all fleets. */
export class ServedFleets {
  readonly #gatherings = new Map<string, FleetGathering>();
  readonly #snapshots = new Map<string, FleetSnapshot>();

  /** Snapshots by fleet, for fleets with served objects. */
  get snapshots(): ReadonlyMap<string, FleetSnapshot> {
    return this.#snapshots;
  }

  /** Returns the resource that contains a claim. Undefined: it is not served. */
  resourceOf(claim: DomainClaim): Resource | undefined {
    const place = this.#placeOf(claim.rules);
    return place?.claims.has(claim) ? place.resource : undefined;
  }

  fallbackOf(claim: DomainClaim): FallbackSpec | undefined {
    return this.#placeOf(claim.rules)?.fallbacks.get(claim)?.spec;
  }

  /** Returns the resource of the whole domain. */
  resourceAt(place: { fleet: string; domain: string }): Resource | undefined {
    return this.#placeOf(place)?.resource;
  }

  /** Serves the results for these places. `fallbacksOf` returns the possible fallbacks of a claim, the best one first. */
  serve(places: ResolvedClaims['places'], fallbacksOf: FallbacksOf): void {
    const next = [...places].map(({ fleet, domain, holders }) => {
      const gathering = this.#gatherings.get(fleet) ?? new FleetGathering(fleet);
      this.#gatherings.set(fleet, gathering);
      const claims = holders.claims.toSorted((a, b) => byAge(a.object, b.object));
      const before = gathering.places.get(domain);
      const served = claims.length === 0 ? undefined : servedPlace(claims, before, fallbacksOf);
      return { fleet, gathering, domain, served };
    });
    for (const { gathering, domain, served } of next) gathering.takeOut(domain, served);
    for (const { gathering, domain, served } of next) gathering.putIn(domain, served);
    for (const [fleet, gathering] of new Map(next.map(({ fleet, gathering }) => [fleet, gathering]))) {
      if (gathering.places.size === 0) {
        this.#gatherings.delete(fleet);
        this.#snapshots.delete(fleet);
      } else this.#snapshots.set(fleet, gathering.resources.snapshot);
    }
  }

  #placeOf({ fleet, domain }: { fleet: string; domain: string }): ServedPlace | undefined {
    return this.#gatherings.get(fleet)?.places.get(domain);
  }
}

/**
 * `claims`: in the order of the objects' age, regardless of which was accepted first, so that the order of their rules does not change
 * back and forth.
 */
function servedPlace(
  claims: readonly DomainClaim[],
  before: ServedPlace | undefined,
  fallbacksOf: FallbacksOf,
): ServedPlace {
  const fallbacks = chosenFallbacks(claims, fallbacksOf);
  const parts = claims.map((claim): Resource => {
    const { resource } = claim.rules;
    const fallback = fallbacks.get(claim)?.rules.resource;
    return fallback === undefined ? resource : { ...resource, fallback };
  });
  const partsBefore = before === undefined ? [] : (before.resource.parts ?? [before.resource]);
  const isKnown =
    parts.length === partsBefore.length && parts.every((part, i) => isSame(part, partsBefore[i]!));
  const resource = isKnown ? before!.resource : parts.length === 1 ? parts[0]! : mergedOf(parts)!;
  return { claims: new Set(claims), fallbacks, resource };
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
