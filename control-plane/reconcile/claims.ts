/** Decides which object is served if several claim one domain. */

import { byAge, type ConfigObject, type ConfigStatus, findCondition } from '../model/config-object.ts';
import { type DomainRecord, type DomainRecords, domainKey, type FallbackSpec } from '../model/decision.ts';
import type { Resource } from '../model/fleet-snapshot.ts';
import type { ReadRules } from './spec-reading.ts';

/**
 * A spec of an object that claims its domain in its fleet. Served specs come first, so that no object loses rules to a new object, even
 * if the new one has an older creation time. The status, which all replicas read, and the memory of one process may rank two objects
 * differently. In this case, the status decides.
 */
export interface DomainClaim {
  object: ConfigObject;
  /** The generation of the claiming spec: the object's own, or that of the stored spec. */
  generation: number;
  rules: ReadRules;
  standing: ClaimRank;
  /** Fields of a newer CRD that are left out of the rules. Missing if there are none. */
  without?: readonly string[];
}

/** The rank of a claim. Lower ones are considered first. */
export const ClaimRank = {
  /** The status says that this very spec is served. */
  specServed: 0,
  /** This spec was stored for the object. It is served, although the status may not show it yet. */
  specStored: 1,
  /** The status says that another spec of the object is served for the same domain. */
  domainServed: 2,
  /** Another spec for the same domain was stored for the object. */
  domainStored: 3,
  newcomer: 4,
} as const;
export type ClaimRank = (typeof ClaimRank)[keyof typeof ClaimRank];

interface ClaimRankFacts {
  status: ConfigStatus | undefined;
  claimed: ReadRules;
  /** The generation of the claimed spec. */
  generation: number;
  lastAccepted: { rules: ReadRules; generation: number } | undefined;
}

export function claimRank({ status, generation, claimed, lastAccepted }: ClaimRankFacts): ClaimRank {
  const served = servedGeneration(status);
  const isServedHere = isServed(status, claimed);
  const isStoredHere = lastAccepted !== undefined && isSamePlace(claimed, lastAccepted.rules);
  if (isServedHere && served === generation) return ClaimRank.specServed;
  if (isStoredHere && lastAccepted.generation === generation) return ClaimRank.specStored;
  if (isServedHere) return ClaimRank.domainServed;
  return isStoredHere ? ClaimRank.domainStored : ClaimRank.newcomer;
}

/** Returns whether the status says that a spec of the object is served for this domain of this fleet. */
export function isServed(
  status: ConfigStatus | undefined,
  place: { fleet: string; domain: string },
): boolean {
  return status !== undefined && servedGeneration(status) !== undefined && isSamePlace(place, status);
}

/**
 * Returns the order in which claims to one domain are considered. Among newcomers, those whose namespace had the domain last come first.
 */
function byStanding(record: DomainRecord | undefined): (a: DomainClaim, b: DomainClaim) => number {
  const isStranger = ({ object }: DomainClaim) =>
    Number(record?.namespaces.includes(object.namespace) === false);
  return (a, b) => a.standing - b.standing || isStranger(a) - isStranger(b) || byAge(a.object, b.object);
}

export function servedGeneration(status: ConfigStatus | undefined): number | undefined {
  if (status?.servedGeneration !== undefined) return status.servedGeneration;
  return findCondition(status, 'Accepted')?.status === 'True' ? status?.observedGeneration : undefined;
}

function isSamePlace(a: { fleet: string; domain: string }, b: { fleet?: string; domain?: string }): boolean {
  return a.fleet === b.fleet && a.domain === b.domain;
}

/** The reason why a claim cannot coexist with the holders of the domain. */
export interface ClaimConflict {
  holder: DomainClaim;
  /** The top-level rule that both have. Undefined if the domain can have only one holder. */
  key: string | undefined;
}

/** The domain is free, and reserved for its last owners. */
export interface HeldDomain {
  held: DomainRecord;
}

export interface ClaimOptions {
  /** Whether several objects may define rules for one domain of a fleet. */
  mergeDomains: boolean;
  /** An object cannot newly get a domain if its record names other owners that could return to it. */
  records: DomainRecords;
  /** Returns whether a namespace that had the domain may still use it. */
  mayUse(namespace: string, place: { fleet: string; domain: string }): boolean;
}

/** The claims that hold a domain of a fleet: one, or, with merging, several without a common top-level rule. */
class DomainHolders {
  readonly #options: ClaimOptions;
  readonly #place: Pick<ClaimedDomain, 'fleet' | 'domain'>;
  #claims: DomainClaim[] = [];
  /** Holders by key, computed on first use, because most domains always have one holder. */
  #holderOfKey: Map<string, DomainClaim> | undefined;

  constructor(options: ClaimOptions, place: Pick<ClaimedDomain, 'fleet' | 'domain'>) {
    this.#options = options;
    this.#place = place;
  }

  /** The claims, in no particular order. */
  get claims(): readonly DomainClaim[] {
    return this.#claims;
  }

  get record(): DomainRecord | undefined {
    const { records } = this.#options;
    return records.size === 0 ? undefined : records.get(domainKey(this.#place));
  }

  /** Returns the conflict that prevents the claim. Returns undefined if there is none. */
  clash(claim: DomainClaim): ClaimConflict | HeldDomain | undefined {
    return this.#taken(claim) ?? this.#hold(claim);
  }

  /** Returns the hold on the domain. With merging, any object that may share the domain gets it while it is not free. */
  #hold({ standing, object }: DomainClaim): HeldDomain | undefined {
    const held = standing === ClaimRank.newcomer ? this.record : undefined;
    if (held === undefined || held.namespaces.includes(object.namespace)) return undefined;
    const { namespaces } = held;
    if (this.#claims.some((claim) => namespaces.includes(claim.object.namespace))) return undefined;
    const isWanted = namespaces.some((namespace) => this.#options.mayUse(namespace, this.#place));
    return isWanted ? { held } : undefined;
  }

  /** Returns the claim of another object that conflicts with `claim`. If there are several, returns the oldest one. */
  #taken(claim: DomainClaim): ClaimConflict | undefined {
    const [first] = this.#claims;
    if (first === undefined) return undefined;
    if (!this.#options.mergeDomains)
      return isOneObject(first, claim) ? undefined : { holder: first, key: undefined };
    this.#holderOfKey ??= holdersByKey(this.#claims);
    let clash: ClaimConflict | undefined;
    for (const key of claim.rules.topKeys) {
      const holder = this.#holderOfKey.get(key);
      if (holder === undefined || isOneObject(holder, claim)) continue;
      if (clash === undefined || byAge(holder.object, clash.holder.object) < 0) clash = { holder, key };
    }
    return clash;
  }

  /** Adds a claim without a conflict. */
  add(claim: DomainClaim): void {
    this.#claims.push(claim);
    if (this.#holderOfKey === undefined) return;
    for (const key of claim.rules.topKeys) this.#holderOfKey.set(key, claim);
  }

  remove(claim: DomainClaim): void {
    this.#claims = this.#claims.filter((one) => one !== claim);
    this.#holderOfKey = undefined;
  }
}

function holdersByKey(claims: readonly DomainClaim[]): Map<string, DomainClaim> {
  return new Map(claims.flatMap((claim) => claim.rules.topKeys.map((key) => [key, claim] as const)));
}

function isOneObject(a: DomainClaim, b: DomainClaim): boolean {
  return a.object.uid === b.object.uid;
}

/** The claims of one object, the preferred one first. */
export type ClaimList = readonly DomainClaim[];

/** The rules for limiters that do not support a claim. */
export interface Fallback {
  spec: FallbackSpec;
  rules: ReadRules;
}

/** The resource for a domain of a fleet, and the claims that it was made from. */
export interface ServedDomain {
  claims: ReadonlySet<DomainClaim>;
  fallbacks: ReadonlyMap<DomainClaim, Fallback>;
  resource: Resource;
}

export interface ClaimedDomain {
  readonly fleet: string;
  readonly domain: string;
  /** Uids of objects with a claim to the domain. */
  readonly claimants: Set<string>;
  asked: DomainClaim[];
  holders: DomainHolders;
  /** Undefined if nothing is served: see `ServedFleets`. */
  served: ServedDomain | undefined;
}

/** `places` may include a domain that no object holds in the end. */
export interface ResolvedClaims {
  uids: ReadonlySet<string>;
  places: ReadonlySet<ClaimedDomain>;
}

/**
 * Assigns domains to claims by deferred acceptance (Gale and Shapley). Every object first claims with its newest spec. A domain holds the
 * best claims so far and rejects the others. A rejected object claims with the spec that is stored for it. So no object is served with
 * its stored spec if it could have the new one, no stored spec loses its domain to a newcomer, two objects may swap their domains in one
 * step, and the order of the objects does not matter.
 *
 * With merging, a claim may be rejected in favor of a claim that is rejected later, which does not happen in plain deferred acceptance.
 * So at the end, rejected claims that fit after all are accepted, older objects first.
 *
 * Objects that claim one domain depend on each other, and, transitively, on objects that claim another domain of one of them. When an
 * object's claims change, only these objects are settled again.
 */
export class ClaimResolver {
  readonly #options: ClaimOptions;
  /** Claimed domains by `domainKey`. */
  readonly #places = new Map<string, ClaimedDomain>();
  /** Lists of claims by uid. */
  readonly #lists = new Map<string, ClaimList>();

  constructor(options: ClaimOptions) {
    this.#options = options;
  }

  /**
   * Settles the claims that `changed` affects. `changed` has the new claims by uid; undefined if the object was deleted. It must
   * contain all objects if the options changed. Returns the results that may differ.
   */
  resolve(changed: ReadonlyMap<string, ClaimList | undefined>): ResolvedClaims {
    const resolved = this.#reached(changed);
    for (const place of resolved.places) {
      place.asked = [];
      place.holders = new DomainHolders(this.#options, place);
      if (place.claimants.size === 0) this.#places.delete(domainKey(place));
    }
    const lists = [...resolved.uids].flatMap((uid) => [this.#lists.get(uid) ?? []]);
    this.#defer(lists);
    if (this.#options.mergeDomains) this.#letInWhoFits(lists, resolved.places);
    return resolved;
  }

  #reached(changed: ReadonlyMap<string, ClaimList | undefined>): ResolvedClaims {
    const uids = new Set(changed.keys());
    const places = new Set<ClaimedDomain>();
    for (const [uid, list] of changed) {
      for (const claim of this.#lists.get(uid) ?? []) {
        const place = this.#placeOf(claim);
        place.claimants.delete(uid);
        places.add(place);
      }
      if (list === undefined) this.#lists.delete(uid);
      else this.#lists.set(uid, list);
      for (const claim of list ?? []) {
        const place = this.#placeOf(claim);
        place.claimants.add(uid);
        places.add(place);
      }
    }
    // A loop over a set also visits elements that are added during the loop.
    for (const { claimants } of places) {
      for (const uid of claimants) {
        if (uids.has(uid)) continue;
        uids.add(uid);
        for (const claim of this.#lists.get(uid)!) places.add(this.#placeOf(claim));
      }
    }
    return { uids, places };
  }

  /** Returns undefined if no object claims the domain. */
  placeAt(place: { fleet: string; domain: string }): ClaimedDomain | undefined {
    return this.#places.get(domainKey(place));
  }

  /** Returns the reason against a claim that was rejected, or that was not decided. */
  clashOf(claim: DomainClaim): ClaimConflict | HeldDomain | undefined {
    const place = this.placeAt(claim.rules) ?? this.#newPlace(claim.rules);
    return place.holders.clash(claim);
  }

  /** Works in rounds: claims that are rejected in one round make their next claim in the next round. */
  #defer(lists: readonly ClaimList[]): void {
    const nextClaim = new Map<DomainClaim, DomainClaim>();
    let asking: DomainClaim[] = [];
    for (const [first, ...others] of lists) {
      if (first === undefined) continue;
      asking.push(first);
      let before = first;
      for (const claim of others) {
        nextClaim.set(before, claim);
        before = claim;
      }
    }
    while (asking.length > 0) {
      const touched = new Set<ClaimedDomain>();
      for (const claim of asking) {
        const place = this.#placeOf(claim);
        place.asked.push(claim);
        touched.add(place);
      }
      const rejected = [...touched].flatMap((place) => this.#choose(place));
      asking = rejected.flatMap((claim) => nextClaim.get(claim) ?? []);
    }
  }

  /** Returns the rejected claims. */
  #choose(place: ClaimedDomain): DomainClaim[] {
    const rejected: DomainClaim[] = [];
    if (place.asked.length > 1) place.asked.sort(byStanding(place.holders.record));
    place.holders = new DomainHolders(this.#options, place);
    for (const claim of place.asked) {
      if (place.holders.clash(claim) === undefined) place.holders.add(claim);
      else rejected.push(claim);
    }
    if (rejected.length > 0) place.asked = [...place.holders.claims];
    return rejected;
  }

  #letInWhoFits(lists: readonly ClaimList[], places: ReadonlySet<ClaimedDomain>): void {
    const held = new Set([...places].flatMap(({ holders }) => holders.claims));
    const waiting = lists
      .filter(([first]) => first !== undefined && !held.has(first))
      .sort((a, b) => byAge(a[0]!.object, b[0]!.object));
    let moved = waiting.length > 0;
    while (moved) {
      moved = false;
      for (const claims of waiting) moved = this.#improve(claims, held) || moved;
    }
  }

  /** Returns whether one of the object's preferred claims could replace its current claim. */
  #improve(claims: ClaimList, held: Set<DomainClaim>): boolean {
    const rank = claims.findIndex((claim) => held.has(claim));
    const preferred = rank === -1 ? claims : claims.slice(0, rank);
    const better = preferred.find((claim) => this.#placeOf(claim).holders.clash(claim) === undefined);
    if (better === undefined) return false;
    const current = claims[rank];
    if (current !== undefined) {
      this.#placeOf(current).holders.remove(current);
      held.delete(current);
    }
    this.#placeOf(better).holders.add(better);
    held.add(better);
    return true;
  }

  #newPlace({ fleet, domain }: ReadRules): ClaimedDomain {
    const holders = new DomainHolders(this.#options, { fleet, domain });
    return { fleet, domain, claimants: new Set(), asked: [], holders, served: undefined };
  }

  #placeOf({ rules }: DomainClaim): ClaimedDomain {
    const place = this.placeAt(rules) ?? this.#newPlace(rules);
    this.#places.set(domainKey(rules), place);
    return place;
  }
}
