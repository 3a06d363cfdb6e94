import { encodeResource } from '../../rules/xds/resource.ts';
import { byAge } from '../model/config-object.ts';
import { type FleetSnapshot, fleetSnapshot, hashOf, type Resource } from '../model/fleet-snapshot.ts';
import type { Claim } from './claims.ts';

interface Made {
  resources: ReadonlySet<Resource>;
  snapshot: FleetSnapshot;
}

/** Makes snapshots of fleets, and gives the last one again as long as a fleet's resources stay the same. */
export class FleetSnapshots {
  #last = new Map<string, Made>();

  /** By fleet; a fleet without resources has none. */
  make(resourcesByFleet: ReadonlyMap<string, readonly Resource[]>): Map<string, FleetSnapshot> {
    const next = new Map<string, Made>();
    for (const [fleet, resources] of resourcesByFleet) {
      const last = this.#last.get(fleet);
      const isSame =
        last?.resources.size === resources.length &&
        resources.every((resource) => last.resources.has(resource));
      next.set(
        fleet,
        isSame ? last : { resources: new Set(resources), snapshot: fleetSnapshot(fleet, resources) },
      );
    }
    this.#last = next;
    return new Map([...next].map(([fleet, { snapshot }]) => [fleet, snapshot]));
  }
}

interface Merged {
  parts: readonly Resource[];
  resource: Resource;
}

/** Joins the rules of several objects for one domain, and remembers what it joined the last time. */
export class ResourceMerger {
  #last = new Map<string, Map<string, Merged>>();
  #current = new Map<string, Map<string, Merged>>();

  /** The rules stand in the order of the objects' age, whoever was accepted first: so their order never flips. */
  resourceOf(fleet: string, claims: readonly Claim[]): Resource {
    const parts = claims.toSorted((a, b) => byAge(a.object, b.object)).map(({ rules }) => rules.resource);
    const { domain } = parts[0]!;
    const known = this.#last.get(fleet)?.get(domain);
    const merged = known !== undefined && isSame(known.parts, parts) ? known : merge(domain, parts);
    const domains = this.#current.get(fleet);
    if (domains === undefined) this.#current.set(fleet, new Map([[domain, merged]]));
    else domains.set(domain, merged);
    return merged.resource;
  }

  /** Call after the last resource of a round: what was not asked for in it is forgotten. */
  endRound(): void {
    this.#last = this.#current;
    this.#current = new Map();
  }
}

/**
 * Encoded messages one after the other are their merge, as the encoding of Protocol Buffers has it: lists add up, and
 * of a single field the last value counts, here the name.
 */
function merge(domain: string, parts: readonly Resource[]): Merged {
  const name = mergedName(domain);
  const head = encodeResource({ name, domain, descriptors: [] });
  const bytes = Buffer.concat([...parts.map((part) => part.bytes), head]);
  return { parts, resource: { name, domain, bytes, hash: hashOf(bytes) } };
}

/** The domain; one with a slash is marked, since it may read like the name of an object, which holds no blank. */
function mergedName(domain: string): string {
  return domain.includes('/') ? `domain ${domain}` : domain;
}

function isSame(a: readonly Resource[], b: readonly Resource[]): boolean {
  return a.length === b.length && a.every((part, index) => part === b[index]);
}
