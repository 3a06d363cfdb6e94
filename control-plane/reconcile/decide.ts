/**
 * Decides about all objects: the snapshot of each fleet, and the status of each object. The result depends only on the objects, the
 * stored specs and the policy, and not on their order or on earlier decisions. The `Decider` remembers only results that it need not
 * compute again, and returns the same values for unchanged inputs.
 */
import { isDeepStrictEqual } from 'node:util';
import { type ConfigObject, isOfOther, objectKey } from '../model/config-object.ts';
import {
  type ClusterDecision,
  type DomainRecords,
  domainKey,
  type LastAcceptedSpec,
  type ObjectOutcome,
  type PublishedSchemas,
} from '../model/decision.ts';
import type { FleetAccesses } from '../model/domain-owners.ts';
import { type FleetSnapshot, fleetSnapshot, type Resource } from '../model/fleet-snapshot.ts';
import type { AccessVersions } from '../model/object-versions.ts';
import { changedKeys, VersionedMap } from '../model/versioned-map.ts';
import { isSameValue } from './accepted-specs.ts';
import { type Candidate, type CandidateOptions, candidateOf, fallbacksOf } from './candidates.ts';
import {
  type ClaimConflict,
  type ClaimList,
  ClaimResolver,
  type DomainClaim,
  type HeldDomain,
  isServed,
} from './claims.ts';
import { timeText } from './conditions.ts';
import { type FieldsOfObject, isInDoubt, newerFields } from './newer-schema.ts';
import { OverrideDecider, type OverrideFacts } from './overrides.ts';
import {
  accessRejection,
  domainNotAllowed,
  type InForce,
  isAssigned,
  name,
  type Rejection,
  rejected,
} from './rejections.ts';
import { ServedFleets } from './served-fleets.ts';
import { fieldsOf, type ObjectPreview, servedConfig } from './spec-reading.ts';

/** The rejection of a claim. */
function domainConflict(
  { rules: { domain, fleet } }: DomainClaim,
  clash: ClaimConflict | HeldDomain,
): Rejection {
  const place = `domain '${name(domain)}' of fleet '${name(fleet)}'`;
  return { reason: 'DomainConflict', problem: conflictText(place, clash) };
}

function conflictText(place: string, clash: ClaimConflict | HeldDomain): string {
  if ('held' in clash) {
    const { namespaces, heldUntilMs } = clash.held;
    const whom = `${namespaces.length === 1 ? 'namespace' : 'namespaces'} ${name(namespaces.join(', '))}`;
    // Rounded up, so that the domain is not given to another object earlier.
    const until = heldUntilMs === undefined ? '' : ` until ${timeText(heldUntilMs + 999)}`;
    return `${place} is reserved for ${whom}, its last namespace,${until === '' ? ' for a while' : until}`;
  }
  const what = clash.key === undefined ? place : `descriptor '${name(clash.key)}' in ${place}`;
  return `${what} belongs to ${objectKey(clash.holder.object)}`;
}

export interface DeciderOptions extends CandidateOptions {
  /** The value of OVERRIDES_MAX_SECONDS. Missing if there is no bound. */
  overridesMaxSeconds?: number;
}

/** The facts other than the objects. */
export interface Policy {
  /** The value is replaced whenever an access has changed. */
  fleets: FleetAccesses;
  /** The versions that these accesses follow from. Missing if the source of objects has no versions. */
  accessVersions?: AccessVersions;
  records: DomainRecords;
  /** Missing if no API server has checked specs against a schema, so that unknown fields are errors. */
  schemas?: PublishedSchemas | undefined;
}

/** The policy without fleet objects and without records of domains. */
export const noPolicy: Policy = { fleets: new Map(), records: new Map() };

/** All facts that a decision depends on, by uid. */
export interface DecisionInputs {
  objects: ReadonlyMap<string, ConfigObject>;
  /** Specs that stay in force if an object's next spec is rejected: see `acceptedSpecChanges`. */
  acceptedSpecs: ReadonlyMap<string, LastAcceptedSpec>;
  policy: Policy;
  /** The time for overrides. */
  nowMs: number;
  /** Whether this process leads, which is the default. For the others, overrides also end as soon as the leader reports it. */
  leads?: boolean;
}

/**
 * Decides from its inputs alone, and remembers the results of the last inputs. Computes only results that a changed fact can affect, and
 * returns the same values for all others. Affected results are the claims and snapshots of the domains that an object claims or claimed,
 * and the outcomes of all objects that claim them.
 */
export class Decider {
  readonly #options: DeciderOptions;
  readonly #overrides = new OverrideDecider();
  readonly #claims: ClaimResolver;
  readonly #served: ServedFleets;
  /** Candidates by uid. */
  readonly #candidates = new Map<string, Candidate>();
  /** RateLimitOverrides by uid. */
  readonly #ofOverrides = new Map<string, ConfigObject>();
  /** Objects with fields of a newer CRD, by uid. */
  readonly #newer = new Map<string, FieldsOfObject>();
  /** Outcomes by uid. */
  #outcomes = VersionedMap.of<ObjectOutcome>();
  /** Namespaces that have rules of a domain, by `domainKey`. */
  #holders = VersionedMap.of<readonly string[]>();
  /** Served rules with overrides by fleet, and their inputs. */
  #overridden: ReadonlyMap<string, Overridden> = new Map();
  /** The inputs of these results. */
  #last: Omit<DecisionInputs, 'nowMs'> = { objects: new Map(), acceptedSpecs: new Map(), policy: noPolicy };

  constructor(options: DeciderOptions) {
    this.#options = options;
    const { mergeDomains, domainOwners } = options;
    this.#served = new ServedFleets({ mergeDomains });
    const policy = () => this.#last.policy;
    this.#claims = new ClaimResolver({
      mergeDomains,
      get records() {
        return policy().records;
      },
      mayUse: (namespace, place) =>
        accessRejection({ namespace, ...place, isServed: true }, domainOwners, policy().fleets) === undefined,
    });
  }

  decide({ objects, acceptedSpecs, policy, nowMs, leads = true }: DecisionInputs): ClusterDecision {
    const last = this.#last;
    this.#last = { objects, acceptedSpecs, policy };
    const changed = changedKeys(objects, last.objects);
    const outcomes = this.#resolve(this.#take(changed, last));
    const overrides = [...this.#ofOverrides.values()];
    const followed = leads ? undefined : this.#options.controllerName;
    const decided = this.#overrides.decide(overrides, acceptedSpecs, {
      ...this.#overrideFacts(nowMs),
      followed,
    });
    for (const uid of changed) if (!objects.has(uid)) outcomes.set(uid, undefined);
    for (const [uid, outcome] of decided.outcomes) outcomes.set(uid, outcome);
    this.#outcomes = this.#outcomes.with(outcomes);
    this.#overridden = new Map(
      [...decided.resources].map(([fleet, resources]) => {
        const base = this.#served.snapshots.get(fleet) ?? fleetSnapshot(fleet, []);
        return [fleet, overridden(base, resources, this.#overridden.get(fleet))];
      }),
    );
    const snapshots = new Map(this.#served.snapshots);
    for (const [fleet, { snapshot }] of this.#overridden) snapshots.set(fleet, snapshot);
    return {
      fleets: snapshots,
      outcomes: this.#outcomes,
      holders: this.#holders,
      overrides: decided.counts,
      dueMs: decided.dueMs,
      newerFields: newerFields([...this.#newer.values(), ...decided.newer]),
    };
  }

  /** Returns the claims that may differ from the previous round. */
  #take(
    changed: ReadonlySet<string>,
    last: Pick<DecisionInputs, 'acceptedSpecs' | 'policy'>,
  ): Map<string, ClaimList | undefined> {
    const { objects, acceptedSpecs, policy } = this.#last;
    const { fleets, records, schemas } = policy;
    const { policy: before } = last;
    const isOther = fleets !== before.fleets || records !== before.records || schemas !== before.schemas;
    const affected = isOther ? this.#candidates.keys() : changedKeys(acceptedSpecs, last.acceptedSpecs);
    const due = new Set([...affected].filter((uid) => this.#candidates.has(uid)));
    const claims = new Map<string, ClaimList | undefined>();
    for (const uid of due.union(changed)) {
      const object = objects.get(uid);
      if (object?.kind !== undefined) {
        this.#ofOverrides.set(uid, object);
        continue;
      }
      if (object === undefined) {
        this.#ofOverrides.delete(uid);
        if (this.#candidates.delete(uid)) claims.set(uid, undefined);
        continue;
      }
      const known = this.#candidates.get(uid);
      const candidate = candidateOf(
        { object, lastAccepted: acceptedSpecs.get(uid), fleets, schemas },
        known,
        this.#options,
      );
      if (candidate === known && !isOther) continue;
      this.#candidates.set(uid, candidate);
      claims.set(uid, candidate.claims);
    }
    return claims;
  }

  /** Returns the outcomes of objects whose outcome may have changed. */
  #resolve(claims: ReadonlyMap<string, ClaimList | undefined>): Map<string, ObjectOutcome | undefined> {
    const { uids, places } = this.#claims.resolve(claims);
    this.#served.serve(places, (claim) => {
      const candidate = this.#candidates.get(claim.object.uid);
      return candidate === undefined ? [] : fallbacksOf(candidate, claim);
    });
    const holders = new Map<string, readonly string[] | undefined>();
    for (const place of places) {
      const namespaces = namespacesOf(place.holders.claims);
      const key = domainKey(place);
      const isSame = isDeepStrictEqual(this.#holders.get(key), namespaces);
      if (!isSame) holders.set(key, namespaces);
    }
    this.#holders = this.#holders.with(holders);
    const changed = new Map<string, ObjectOutcome | undefined>();
    for (const uid of uids) {
      const candidate = this.#candidates.get(uid);
      changed.set(uid, candidate && outcomeOn(candidate, this.#claims));
      const fields = candidate && fieldsOf(candidate);
      if (fields === undefined) this.#newer.delete(uid);
      else this.#newer.set(uid, fields);
    }
    return changed;
  }

  #overrideFacts(nowMs: number): OverrideFacts {
    const { domainOwners, controllerName, overridesMaxSeconds } = this.#options;
    const maxSeconds = overridesMaxSeconds ?? Number.POSITIVE_INFINITY;
    const { fleets: accesses, records, schemas } = this.#last.policy;
    return {
      nowMs,
      maxSeconds,
      schemas,
      version: this.#options.version ?? '',
      rulesOf: (place) => this.#claims.placeAt(place)?.served?.resource,
      rejection: ({ namespace, status }, place) => {
        const own = isOfOther(status, controllerName) ? undefined : status;
        const wish = { namespace, ...place, isServed: isServed(own, place) };
        const rejection = accessRejection(wish, domainOwners, accesses);
        if (rejection !== undefined || isAssigned(place, domainOwners, accesses)) return rejection;
        // Without a configured owner, a domain belongs to the namespaces that have its rules, or had them last.
        const key = domainKey(place);
        const owners = this.#holders.get(key) ?? records.get(key)?.namespaces;
        if (owners === undefined || owners.includes(namespace)) return undefined;
        return domainNotAllowed(`domain '${name(place.domain)}' of fleet '${name(place.fleet)}'`, owners);
      },
    };
  }

  /** Reviews an object that is not stored yet, after all decisions. Stores nothing about the object. */
  preview(object: ConfigObject, nowMs: number, schemas = this.#last.policy.schemas): ObjectPreview {
    if (object.kind !== undefined)
      return this.#overrides.preview(object, { ...this.#overrideFacts(nowMs), schemas });
    const facts = { object, lastAccepted: undefined, fleets: this.#last.policy.fleets, schemas };
    const { newest, rest, rejection, readings } = candidateOf(facts, undefined, this.#options);
    const claim = newest ?? rest;
    const [{ reading }] = readings;
    const clash = claim && this.#claims.clashOf(claim);
    const now = this.#candidates.get(object.uid)?.given?.outcome.served;
    const older = now?.without === undefined ? now : undefined;
    return {
      rejection: claim && clash ? domainConflict(claim, clash) : rejection,
      rules: claim?.rules,
      inForce: older ? { generation: older.generation } : rest && inForceOf(rest),
      isDoubtful: !reading.ok && isInDoubt(reading.unknown),
    };
  }
}

/** Returns the sorted namespaces, or undefined if there are none. */
function namespacesOf(claims: readonly DomainClaim[]): string[] | undefined {
  if (claims.length === 0) return undefined;
  return [...new Set(claims.map(({ object }) => object.namespace))].sort();
}

/** Returns the snapshot of a fleet with its overrides. */
interface Overridden {
  base: FleetSnapshot;
  overrides: readonly Resource[];
  snapshot: FleetSnapshot;
}

/** Returns `last` as long as its inputs are the same. */
function overridden(
  base: FleetSnapshot,
  overrides: readonly Resource[],
  last: Overridden | undefined,
): Overridden {
  const isSame =
    last?.base === base &&
    last.overrides.length === overrides.length &&
    last.overrides.every((one, i) => one === overrides[i]);
  if (isSame) return last;
  const snapshot = fleetSnapshot(base.fleet, [...base.resources, ...overrides]);
  return { base, overrides, snapshot };
}

/** Returns the last one as long as it has the same content. */
function outcomeOn(candidate: Candidate, settled: ClaimResolver): ObjectOutcome {
  const { object, newest, rest, claims, rejection, given } = candidate;
  const servedAt = ({ rules }: DomainClaim) => settled.placeAt(rules)?.served;
  const claim = claims.find((one) => servedAt(one)?.claims.has(one));
  const served = claim && servedAt(claim);
  const resourceName = served?.resource.name;
  const fallback = claim && served?.fallbacks.get(claim)?.spec;
  const accepted: ObjectOutcome['accepted'] =
    claim !== undefined && claim === newest
      ? { status: true }
      : rejected(rejectionNow(), claim && inForceOf(claim));
  function rejectionNow(): Rejection {
    // If the object cannot be served even without the fields of a newer CRD, there is another reason.
    const turnedDown = newest ?? (claim === undefined ? rest : undefined);
    const clash = turnedDown && settled.clashOf(turnedDown);
    return turnedDown && clash ? domainConflict(turnedDown, clash) : rejection!;
  }
  const isServedAsBefore =
    given?.resourceName === resourceName && isSameValue(given?.outcome.served?.fallback, fallback);
  if (given && isServedAsBefore && isSame(given.outcome.accepted, accepted)) return given.outcome;
  const config = claim && servedConfig(claim.rules, claim, { resource: resourceName!, fallback });
  const outcome = { object, accepted, served: config };
  candidate.given = { outcome, resourceName };
  return outcome;
}

/** The message names the generation that is served, so it reports this generation, too. */
function isSame(a: ObjectOutcome['accepted'], b: ObjectOutcome['accepted']): boolean {
  if (a.status || b.status) return a.status === b.status;
  return a.reason === b.reason && a.message === b.message;
}

/** Describes a claim that is served in place of the newest spec. */
function inForceOf({ object, generation, without }: DomainClaim): InForce {
  return { generation, isSame: generation === object.generation, without };
}
