import type { ServedConfig, Verdict } from '../model/decision.ts';
import type { Resource } from '../model/fleet-snapshot.ts';
import type { Candidate } from './candidate.ts';
import type { Claim } from './claim.ts';
import type { SettledClaims } from './claims.ts';
import { domainConflict, type Rejection, rejected } from './rejection.ts';

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
export class Verdicts {
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
