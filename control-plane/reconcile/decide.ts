import type { ConfigObject } from '../model/config-object.ts';
import type { Decision, KeptSpec, ServedConfig, Verdict } from '../model/decision.ts';
import type { Resource } from '../model/fleet-snapshot.ts';
import { type Candidate, Candidates, domainConflict, type Rejection, rejected } from './candidate.ts';
import { type Claim, type DomainOwners, SettledClaims } from './claims.ts';
import { FleetSnapshots, ResourceMerger } from './fleet-snapshots.ts';

/** Who holds what, and the resource that each served claim is in. */
export interface Outcome {
  settled: SettledClaims;
  resources: ReadonlyMap<Claim, Resource>;
}

interface Given {
  verdict: Verdict;
  candidate: Candidate;
  resourceName: string | undefined;
}

/** Gives verdicts, and the last one of an object again as long as it says the same. */
class Verdicts {
  #last: ReadonlyMap<string, Given> = new Map();

  /** By uid. */
  on(candidates: readonly Candidate[], outcome: Outcome): Map<string, Verdict> {
    const next = new Map<string, Given>();
    const verdicts = new Map<string, Verdict>();
    for (const candidate of candidates) {
      const { uid } = candidate.object;
      const given = verdictOn(candidate, outcome, this.#last.get(uid));
      next.set(uid, given);
      verdicts.set(uid, given.verdict);
    }
    this.#last = next;
    return verdicts;
  }
}

function verdictOn(candidate: Candidate, { settled, resources }: Outcome, last: Given | undefined): Given {
  const { object, newest, claims, rejection } = candidate;
  const claim = claims.find((one) => resources.has(one));
  const resourceName = claim && resources.get(claim)!.name;
  if (claim !== undefined && claim === newest) {
    if (last?.candidate === candidate && last.verdict.accepted.status && last.resourceName === resourceName) {
      return last;
    }
    const served = servedConfig(claim, resourceName!);
    return { candidate, resourceName, verdict: { object, accepted: { status: true }, served } };
  }
  const accepted = rejected(rejection ?? conflict(newest!, settled), claim?.generation);
  if (last?.candidate === candidate && last.resourceName === resourceName && isSame(last, accepted))
    return last;
  const served = claim && servedConfig(claim, resourceName!);
  return { candidate, resourceName, verdict: { object, accepted, served } };
}

/** The message names the generation that is served, so it tells about that too. */
function isSame({ verdict: { accepted } }: Given, next: Verdict['accepted']): boolean {
  if (accepted.status || next.status) return false;
  return accepted.reason === next.reason && accepted.message === next.message;
}

function conflict(newest: Claim, settled: SettledClaims): Rejection {
  return domainConflict(newest, settled.holdersFor(newest).clash(newest)!);
}

function servedConfig({ generation, rules }: Claim, resource: string): ServedConfig {
  const { fleet, domain, ownFields } = rules;
  const { hash, bytes } = rules.resource;
  return { fleet, domain, generation, hash, bytes, resource, rules: rules.rules, ownFields };
}

/**
 * What follows from all objects: what each fleet is served, and what is said about each object. The result depends on
 * the objects and the kept specs alone, not on their order, nor on what was decided before; the `Decider` remembers
 * only what it need not work out again, and gives the same values for what did not change.
 */

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
