/** The rules that may be served of each object, regardless of the claims of others. Pure. */
import { type Capabilities, capabilities, supports } from '../../rules/language/capabilities.ts';
import { isOfOther } from '../model/config-object.ts';
import type { ObjectOutcome } from '../model/decision.ts';
import type { DomainOwners, FleetAccesses } from '../model/domain-owners.ts';
import { claimRank, type DomainClaim, type Fallback, isServed } from './claims.ts';
import { accessRejection, type Rejection } from './rejections.ts';
import {
  type ObjectReadings,
  type ObjectSpecReading,
  type ReadRules,
  readingsOf,
  readRules,
} from './spec-reading.ts';

export interface CandidateOptions {
  /** True if several objects may hold rules for one domain of a fleet. */
  mergeDomains: boolean;
  domainOwners: DomainOwners;
  /** The controller whose statuses show which rules are served. Statuses of other control planes do not. */
  controllerName?: string | undefined;
  /** The version of this program, for messages. */
  version?: string;
}

/** An object, and the rules that may be served of it, regardless of the claims of others. */
export interface Candidate extends ObjectReadings<ReadRules> {
  /** The claim of the newest spec; undefined: it cannot be accepted, for the reason in `rejection`. */
  newest: DomainClaim | undefined;
  rejection: Rejection | undefined;
  /** The claim of the newest spec without fields of a newer CRD, if it has some. */
  rest: DomainClaim | undefined;
  /** The claims: the newest first, then that of the stored spec, then `rest`. */
  claims: readonly DomainClaim[];
  /** The accesses on which `rejection` depends. */
  fleets: FleetAccesses;
  /** The last outcome of the candidate, and the resource in which it is served. */
  given: { outcome: ObjectOutcome; resourceName: string | undefined } | undefined;
}

/**
 * Returns the candidate of an object. `last` is its candidate of the previous round, which is returned again as long as the object, its
 * stored spec, the access to fleets and the schemas are the same. A generation is read only once.
 */
export function candidateOf(
  facts: Pick<Candidate, 'object' | 'lastAccepted' | 'fleets' | 'schemas'>,
  last: Candidate | undefined,
  options: CandidateOptions,
): Candidate {
  const { object, lastAccepted, fleets, schemas } = facts;
  const isSame = last !== undefined && last.object === object && last.lastAccepted === lastAccepted;
  if (isSame && last.fleets === fleets && last.schemas === schemas) return last;
  const { version = '' } = options;
  const readings = readingsOf<ReadRules>({ object, lastAccepted, schemas }, last, (spec) =>
    readRules({ ...object, spec }, { schemas, version }),
  );
  const [{ reading: newestReading }] = readings;
  const status = isOfOther(object.status, options.controllerName) ? undefined : object.status;
  const rejectionOf = (reading: ObjectSpecReading<ReadRules>): Rejection | undefined => {
    const asked = reading.ok ? reading : reading.rest;
    const { namespace } = object;
    const wish = asked && { ...asked, namespace, isServed: isServed(status, asked) };
    const accessProblem = wish && accessRejection(wish, options.domainOwners, fleets);
    return accessProblem ?? (reading.ok ? undefined : reading.rejection);
  };
  const rejection = rejectionOf(newestReading);
  const rules = newestReading.ok && rejection === undefined ? newestReading : undefined;
  const unread = newestReading.ok ? undefined : newestReading;
  const mayServeRest = unread?.rest && rejectionOf(unread.rest) === undefined;
  // A control plane of an earlier version may be unable to read the stored spec.
  const older = acceptedBefore({ readings }).find(({ rules }) => rejectionOf(rules) === undefined);
  const claim = (generation: number, claimed: ReadRules): DomainClaim => {
    const lastAccepted = older && { rules: older.rules, generation: older.spec.generation };
    const standing = claimRank({ status, generation, claimed, lastAccepted });
    return { object, generation, rules: claimed, standing };
  };
  const newest = rules && claim(object.generation, rules);
  const without = unread?.unknown.map(({ text }) => text) ?? [];
  const rest = mayServeRest ? { ...claim(object.generation, unread!.rest!), without } : undefined;
  const claims = newest === undefined ? [] : [newest];
  if (older !== undefined && older.rules !== newestReading) {
    // If a domain has a single holder, the reason to reject the newer spec also applies to the older one.
    const isHopeless = !options.mergeDomains && isForSameDomain(older.rules, rules);
    if (!isHopeless) claims.push(claim(older.spec.generation, older.rules));
  }
  if (rest !== undefined) claims.push(rest);
  const given = isSame ? last.given : undefined;
  return { object, lastAccepted, readings, newest, rejection, rest, claims, fleets, schemas, given };
}

/** Returns generations that were accepted and can be read, the newest first. */
function acceptedBefore({ readings: [, ...older] }: Pick<Candidate, 'readings'>): Fallback[] {
  return older.flatMap(({ generation, spec, reading }) =>
    reading.ok ? { spec: { generation, spec, needs: reading.resource.needs }, rules: reading } : [],
  );
}

/**
 * Returns the possible fallbacks for limiters that do not support a claim: the earlier generations that some of them support. The
 * one that most support is first, or the newest of several. So every limiter that had a generation of the object before still has one.
 */
export function fallbacksOf(candidate: Candidate, { rules }: DomainClaim): Fallback[] {
  return acceptedBefore(candidate)
    .filter((one) => isForSameDomain(rules, one.rules) && !supports(one.spec.needs, rules.resource.needs))
    .toSorted((a, b) => newestNeed(a.spec.needs) - newestNeed(b.spec.needs));
}

/** The place of the newest needed capability, -1 for none: of two generations, more limiters support the one with the lower place. */
function newestNeed(needs: Capabilities): number {
  return capabilities.findLastIndex((capability) => needs.includes(capability));
}

function isForSameDomain(a: ReadRules, b: ReadRules | undefined): boolean {
  return a.fleet === b?.fleet && a.domain === b.domain;
}
