import type { ConfigObject } from '../model/config-object.ts';
import type { KeptSpec } from '../model/decision.ts';
import { type Claim, claimStanding } from './claim.ts';
import type { DomainOwners } from './domain-owners.ts';
import { domainNotAllowed, invalid, type Rejection } from './rejection.ts';
import { type ReadRules, SpecReader } from './spec-reader.ts';

/** An object and what it may be served, whatever others claim. */
export interface Candidate {
  object: ConfigObject;
  kept: KeptSpec | undefined;
  /** The claim of the newest spec; undefined: it cannot be accepted, for the reason in `rejection`. */
  newest: Claim | undefined;
  rejection: Rejection | undefined;
  /** The newest first, then that of the kept spec. */
  claims: readonly Claim[];
}

export interface CandidatesOptions {
  mergeDomains: boolean;
  domainOwners: DomainOwners;
}

/** Makes candidates of objects, and gives the last one again as long as an object and what was kept for it are the same. */
export class Candidates {
  readonly #options: CandidatesOptions;
  readonly #reader = new SpecReader();
  #last: ReadonlyMap<string, Candidate> = new Map();

  constructor(options: CandidatesOptions) {
    this.#options = options;
  }

  /** In the order of `objects`. */
  of(objects: readonly ConfigObject[], kept: ReadonlyMap<string, KeptSpec>): Candidate[] {
    const candidates = objects.map((object) => {
      const last = this.#last.get(object.uid);
      const keptSpec = kept.get(object.uid);
      const isSame = last !== undefined && last.object === object && last.kept === keptSpec;
      return isSame ? last : this.#candidate(object, keptSpec, last?.object);
    });
    this.#last = new Map(candidates.map((candidate) => [candidate.object.uid, candidate]));
    return candidates;
  }

  #candidate(object: ConfigObject, kept: KeptSpec | undefined, before: ConfigObject | undefined): Candidate {
    const { rules, rejection } = this.#allowed(object, object.spec, before);
    const keptRules = kept && this.#allowed(object, kept.spec, before).rules;
    const older = kept && keptRules && { rules: keptRules, generation: kept.generation };
    const claim = (generation: number, claimed: ReadRules): Claim => {
      const standing = claimStanding({ status: object.status, generation, claimed, kept: older });
      return { object, generation, rules: claimed, standing };
    };
    const newest = rules && claim(object.generation, rules);
    const claims = newest === undefined ? [] : [newest];
    if (older !== undefined && older.generation < object.generation) {
      const isHopeless = !this.#options.mergeDomains && isForSameDomain(older.rules, rules);
      if (!isHopeless) claims.push(claim(older.generation, older.rules));
    }
    return { object, kept, newest, rejection, claims };
  }

  /** The rules of a spec that may be served if its domain is free. */
  #allowed(
    object: ConfigObject,
    spec: unknown,
    before: ConfigObject | undefined,
  ): { rules?: ReadRules; rejection?: Rejection } {
    const reading = this.#reader.read(object, spec, before);
    if (!reading.ok) return { rejection: invalid(reading) };
    const { domainOwners } = this.#options;
    if (domainOwners.mayUse(object.namespace, reading.domain)) return { rules: reading };
    return { rejection: domainNotAllowed(reading.domain, domainOwners.ownersOf(reading.domain) ?? []) };
  }
}

/** Where a domain has one holder, what turns down the newer spec turns down the older one too. */
function isForSameDomain(a: ReadRules, b: ReadRules | undefined): boolean {
  return a.fleet === b?.fleet && a.domain === b.domain;
}
