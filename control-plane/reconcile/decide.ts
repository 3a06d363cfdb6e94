/**
 * What follows from all objects: what each fleet is served, and what is said about each object. The result depends on
 * the objects, the kept specs and the policy alone, not on their order, nor on what was decided before; the `Decider` remembers
 * only what it need not work out again, and gives the same values for what did not change.
 */
import { encodeResource } from '../../rules/xds/resource.ts';
import { byAge, type ConfigObject } from '../model/config-object.ts';
import type { Decision, DomainRecords, KeptSpec, ServedConfig, Verdict } from '../model/decision.ts';
import { type FleetSnapshot, fleetSnapshot, hashOf, type Resource } from '../model/fleet-snapshot.ts';
import {
  accessRejection,
  type Candidate,
  candidateOf,
  type DeciderOptions,
  domainConflict,
  type ReadRules,
  type Rejection,
  rejected,
} from './candidate.ts';
import { type Claim, type FleetAccesses, SettledClaims } from './claims.ts';

/** What is known beside the objects. */
export interface Policy {
  /** Another value whenever something in it is another one. */
  fleets: FleetAccesses;
  records: DomainRecords;
}

/** Where nobody says anything of fleets, and nothing is remembered of domains. */
export const noPolicy: Policy = { fleets: new Map(), records: new Map() };

/** What one decision worked out, for the next one; what that does not need any more is forgotten with it. */
interface Round {
  /** By uid. */
  candidates: ReadonlyMap<string, Candidate>;
  fleets: ReadonlyMap<string, ServedFleet>;
  accesses: FleetAccesses;
  /** Undefined before the first round. */
  settled: SettledClaims | undefined;
}

/** What would be said of an object. */
export interface Foresight {
  rejection: Rejection | undefined;
  /** Undefined: it cannot be accepted, whoever has its domain. */
  rules: ReadRules | undefined;
}

interface ServedFleet {
  resources: ReadonlySet<Resource>;
  snapshot: FleetSnapshot;
  /** By domain: what several objects have rules for. */
  merged: ReadonlyMap<string, Merged>;
}

interface Merged {
  parts: readonly Resource[];
  resource: Resource;
}

export class Decider {
  readonly #options: DeciderOptions;
  #last: Round = { candidates: new Map(), fleets: new Map(), accesses: new Map(), settled: undefined };

  constructor(options: DeciderOptions) {
    this.#options = options;
  }

  /** `kept` by uid: see `nextKept`. */
  decide(
    objects: readonly ConfigObject[],
    kept: ReadonlyMap<string, KeptSpec>,
    { fleets: accesses, records }: Policy = noPolicy,
  ): Decision {
    const { domainOwners, mergeDomains } = this.#options;
    const candidates = new Map<string, Candidate>();
    for (const object of objects) {
      const { uid } = object;
      const facts = { object, kept: kept.get(uid), fleets: accesses };
      candidates.set(uid, candidateOf(facts, this.#last.candidates.get(uid), this.#options));
    }
    const lists = [...candidates.values()].map(({ claims }) => claims);
    const settled = new SettledClaims(lists, {
      mergeDomains,
      records,
      mayUse: (namespace, place) =>
        accessRejection({ namespace, ...place, isServed: true }, domainOwners, accesses) === undefined,
    });
    const { resources, fleets } = this.#serve(settled);
    this.#last = { candidates, fleets, accesses, settled };
    const verdicts = new Map<string, Verdict>();
    for (const [uid, candidate] of candidates) verdicts.set(uid, verdictOn(candidate, settled, resources));
    return { fleets: new Map([...fleets].map(([fleet, { snapshot }]) => [fleet, snapshot])), verdicts };
  }

  /** Of an object that may come, or may come to this, after all that was decided. Nothing is remembered of it. */
  foresee(object: ConfigObject): Foresight {
    const { accesses, settled } = this.#last;
    const facts = { object, kept: undefined, fleets: accesses };
    const { newest, rejection } = candidateOf(facts, undefined, this.#options);
    const clash = newest && settled?.clashOf(newest);
    return {
      rejection: newest && clash ? domainConflict(newest, clash) : rejection,
      rules: newest?.rules,
    };
  }

  /** The resource that each served claim is in, and what fleets with any are served. */
  #serve(settled: SettledClaims): { resources: Map<Claim, Resource>; fleets: Map<string, ServedFleet> } {
    const resources = new Map<Claim, Resource>();
    const byFleet = new Map<string, { list: Resource[]; merged: Map<string, Merged> }>();
    for (const { fleet, holders } of settled.places()) {
      const { claims } = holders;
      const [first] = claims;
      if (first === undefined) continue;
      const { list, merged } = byFleet.get(fleet) ?? { list: [], merged: new Map<string, Merged>() };
      if (list.length === 0) byFleet.set(fleet, { list, merged });
      let { resource } = first.rules;
      if (claims.length > 1) {
        const { domain } = first.rules;
        const whole = merge(claims, this.#last.fleets.get(fleet)?.merged.get(domain));
        merged.set(domain, whole);
        resource = whole.resource;
      }
      for (const claim of claims) resources.set(claim, resource);
      list.push(resource);
    }
    const fleets = new Map<string, ServedFleet>();
    for (const [fleet, { list, merged }] of byFleet) {
      const last = this.#last.fleets.get(fleet);
      const isSame = last?.resources.size === list.length && list.every((one) => last.resources.has(one));
      const { resources: all, snapshot } = isSame
        ? last
        : { resources: new Set(list), snapshot: fleetSnapshot(fleet, list) };
      fleets.set(fleet, { resources: all, snapshot, merged });
    }
    return { resources, fleets };
  }
}

/** The last one again as long as it says the same. */
function verdictOn(
  candidate: Candidate,
  settled: SettledClaims,
  resources: ReadonlyMap<Claim, Resource>,
): Verdict {
  const { object, newest, claims, rejection, given } = candidate;
  const claim = claims.find((one) => resources.has(one));
  const resourceName = claim && resources.get(claim)!.name;
  const accepted: Verdict['accepted'] =
    claim !== undefined && claim === newest
      ? { status: true }
      : rejected(rejection ?? domainConflict(newest!, settled.clashOf(newest!)!), claim?.generation);
  if (given?.resourceName === resourceName && given && isSame(given.verdict.accepted, accepted)) {
    return given.verdict;
  }
  const verdict = { object, accepted, served: claim && servedConfig(claim, resourceName!) };
  candidate.given = { verdict, resourceName };
  return verdict;
}

/** The message names the generation that is served, so it tells about that too. */
function isSame(a: Verdict['accepted'], b: Verdict['accepted']): boolean {
  if (a.status || b.status) return a.status === b.status;
  return a.reason === b.reason && a.message === b.message;
}

function servedConfig({ generation, rules }: Claim, resource: string): ServedConfig {
  const { fleet, domain, ownFields } = rules;
  const { hash, bytes } = rules.resource;
  return { fleet, domain, generation, hash, bytes, resource, rules: rules.rules, ownFields };
}

/**
 * Encoded messages one after the other are their merge, as the encoding of Protocol Buffers has it: lists add up, and
 * of a single field the last value counts, here the name. The rules stand in the order of the objects' age, whoever was
 * accepted first: so their order never flips.
 */
function merge(claims: readonly Claim[], last: Merged | undefined): Merged {
  const parts = claims.toSorted((a, b) => byAge(a.object, b.object)).map(({ rules }) => rules.resource);
  const isKnown = last?.parts.length === parts.length && last.parts.every((part, i) => part === parts[i]);
  if (isKnown) return last;
  const { domain } = parts[0]!;
  // One with a slash is marked, since it may read like the name of an object, which holds no blank.
  const name = domain.includes('/') ? `domain ${domain}` : domain;
  const head = encodeResource({ name, domain, descriptors: [] });
  const bytes = Buffer.concat([...parts.map((part) => part.bytes), head]);
  return { parts, resource: { name, domain, bytes, hash: hashOf(bytes) } };
}
