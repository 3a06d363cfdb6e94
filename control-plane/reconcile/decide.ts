/**
 * What follows from all objects: what each fleet is served, and what is said about each object. The result depends on
 * the objects and the kept specs alone, not on their order, nor on what was decided before; the `Decider` remembers
 * only what it need not work out again, and gives the same values for what did not change.
 */
import type { ConfigObject } from '../model/config-object.ts';
import type { Decision, KeptSpec } from '../model/decision.ts';
import type { Resource } from '../model/fleet-snapshot.ts';
import { Candidates } from './candidate.ts';
import type { Claim } from './claim.ts';
import { SettledClaims } from './claims.ts';
import type { DomainOwners } from './domain-owners.ts';
import { FleetSnapshots } from './fleet-snapshots.ts';
import { ResourceMerger } from './merged-resource.ts';
import { Verdicts } from './verdicts.ts';

export interface DeciderOptions {
  /** Whether several objects may hold rules for one domain of a fleet. */
  mergeDomains: boolean;
  domainOwners: DomainOwners;
}

export class Decider {
  readonly #options: DeciderOptions;
  readonly #candidates: Candidates;
  readonly #merger = new ResourceMerger();
  readonly #snapshots = new FleetSnapshots();
  readonly #verdicts = new Verdicts();

  constructor(options: DeciderOptions) {
    this.#options = options;
    this.#candidates = new Candidates(options);
  }

  /** `kept` by uid: see `nextKept`. */
  decide(objects: readonly ConfigObject[], kept: ReadonlyMap<string, KeptSpec>): Decision {
    const candidates = this.#candidates.of(objects, kept);
    const settled = new SettledClaims(
      candidates.map(({ claims }) => claims),
      this.#options,
    );
    const { resources, byFleet } = this.#serve(settled);
    return {
      fleets: this.#snapshots.make(byFleet),
      verdicts: this.#verdicts.on(candidates, { settled, resources }),
    };
  }

  #serve(settled: SettledClaims): { resources: Map<Claim, Resource>; byFleet: Map<string, Resource[]> } {
    const resources = new Map<Claim, Resource>();
    const byFleet = new Map<string, Resource[]>();
    for (const { fleet, holders } of settled.places()) {
      const { claims } = holders;
      const [first] = claims;
      if (first === undefined) continue;
      const resource = claims.length === 1 ? first.rules.resource : this.#merger.resourceOf(fleet, claims);
      for (const claim of claims) resources.set(claim, resource);
      const list = byFleet.get(fleet);
      if (list === undefined) byFleet.set(fleet, [resource]);
      else list.push(resource);
    }
    this.#merger.endRound();
    return { resources, byFleet };
  }
}
