/**
 * Gives domains to claims: deferred acceptance (Gale and Shapley). Every object first claims with its newest spec; a
 * domain holds the best claims so far and turns the others down, and who is turned down claims with the spec that was
 * kept for it. Nobody is served a kept spec who could have the new one, no kept spec loses its domain to a newcomer, two
 * objects may swap their domains in one go, and the order in which objects are looked at does not matter.
 *
 * With merging, a claim may be turned down for the sake of one that is then turned down itself, which plain deferred
 * acceptance does not know; so at the end those that fit after all are let in, older objects first.
 */
import { byAge } from '../model/config-object.ts';
import { byStanding, type Claim } from './claim.ts';
import { DomainHolders } from './domain-holders.ts';

/** The claims of one object, the preferred one first. */
type ClaimList = readonly Claim[];

interface Place {
  asked: Claim[];
  holders: DomainHolders;
}

export class SettledClaims {
  readonly #isShared: boolean;
  /** By fleet and domain. */
  readonly #places = new Map<string, Map<string, Place>>();

  constructor(lists: readonly ClaimList[], { mergeDomains }: { mergeDomains: boolean }) {
    this.#isShared = mergeDomains;
    this.#defer(lists);
    if (mergeDomains) this.#letInWhoFits(lists);
  }

  /** A domain that nobody holds in the end may be among them. */
  *places(): Iterable<{ fleet: string; holders: DomainHolders }> {
    for (const [fleet, domains] of this.#places) {
      for (const { holders } of domains.values()) yield { fleet, holders };
    }
  }

  /** Of the domain that is claimed, whether the claim is among them or not. */
  holdersFor(claim: Claim): DomainHolders {
    return this.#placeOf(claim).holders;
  }

  /** In rounds: all claims turned down in one round make their next claim in the next one. */
  #defer(lists: readonly ClaimList[]): void {
    const nextClaim = new Map<Claim, Claim>();
    let asking: Claim[] = [];
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
      const touched = new Set<Place>();
      for (const claim of asking) {
        const place = this.#placeOf(claim);
        place.asked.push(claim);
        touched.add(place);
      }
      const refused = [...touched].flatMap((place) => this.#choose(place));
      asking = refused.flatMap((claim) => nextClaim.get(claim) ?? []);
    }
  }

  /** Returns those that are turned down. */
  #choose(place: Place): Claim[] {
    const refused: Claim[] = [];
    if (place.asked.length > 1) place.asked.sort(byStanding);
    place.holders = new DomainHolders(this.#isShared);
    for (const claim of place.asked) {
      if (place.holders.clash(claim) === undefined) place.holders.add(claim);
      else refused.push(claim);
    }
    if (refused.length > 0) place.asked = [...place.holders.claims];
    return refused;
  }

  #letInWhoFits(lists: readonly ClaimList[]): void {
    const held = new Set([...this.places()].flatMap(({ holders }) => holders.claims));
    const waiting = lists
      .filter(([first]) => first !== undefined && !held.has(first))
      .sort((a, b) => byAge(a[0]!.object, b[0]!.object));
    let moved = waiting.length > 0;
    while (moved) {
      moved = false;
      for (const claims of waiting) moved = this.#improve(claims, held) || moved;
    }
  }

  /** Whether one of the object's preferred claims could take the place of what it holds now. */
  #improve(claims: ClaimList, held: Set<Claim>): boolean {
    const rank = claims.findIndex((claim) => held.has(claim));
    const preferred = rank === -1 ? claims : claims.slice(0, rank);
    const better = preferred.find((claim) => this.holdersFor(claim).clash(claim) === undefined);
    if (better === undefined) return false;
    const current = claims[rank];
    if (current !== undefined) {
      this.holdersFor(current).remove(current);
      held.delete(current);
    }
    this.holdersFor(better).add(better);
    held.add(better);
    return true;
  }

  #placeOf({ rules: { fleet, domain } }: Claim): Place {
    let domains = this.#places.get(fleet);
    if (domains === undefined) {
      domains = new Map();
      this.#places.set(fleet, domains);
    }
    let place = domains.get(domain);
    if (place === undefined) {
      place = { asked: [], holders: new DomainHolders(this.#isShared) };
      domains.set(domain, place);
    }
    return place;
  }
}
