/** What one object may be served, its newest spec or the one that was kept, and in words for its owner why not. */
import { isDeepStrictEqual } from 'node:util';
import { readSpec } from '../../rules/manifest/read-spec.ts';
import type { RuleSource } from '../../rules/model.ts';
import { formatManifestError, type RuleError } from '../../rules/rule-error.ts';
import { encodeResource } from '../../rules/xds/resource.ts';
import { type ConfigObject, isOfOther, objectKey } from '../model/config-object.ts';
import type { Acceptance, Decision, KeptSpec, RejectionReason, Verdict } from '../model/decision.ts';
import { hashOf, type Resource } from '../model/fleet-snapshot.ts';
import { type Claim, type Clash, claimStanding, type DomainOwners } from './claims.ts';
import { AcceptedReason, joinedWithin, shortened } from './conditions.ts';

/** Why a newest spec is not accepted, in words for its owner. */
export interface Rejection {
  reason: RejectionReason;
  /** Without what stays in force. */
  problem: string;
}

/** Conditions take 32,768 characters; what stays in force comes after this. */
const longestProblem = 32_000;
/** Chosen: one long key leaves room for the other errors. */
const longestError = 2_000;

function invalid({ errors, errorCount }: UnreadableSpec): Rejection {
  const items = errors.map((error) => shortened(formatManifestError(error), longestError));
  return {
    reason: AcceptedReason.Invalid,
    problem: joinedWithin({ items, count: errorCount }, longestProblem),
  };
}

function domainNotAllowed(domain: string, owners: readonly string[]): Rejection {
  const whom =
    owners.length === 0
      ? 'no namespace: DOMAIN_OWNERS has no entry for it, and DOMAIN_OWNERSHIP is claimed'
      : `these namespaces only: ${name(owners.join(', '))}`;
  return { reason: AcceptedReason.DomainNotAllowed, problem: `domain '${name(domain)}' is for ${whom}` };
}

export function domainConflict({ rules: { domain, fleet } }: Claim, { holder, key }: Clash): Rejection {
  const place = `domain '${name(domain)}' of fleet '${name(fleet)}'`;
  const what = key === undefined ? place : `descriptor '${name(key)}' in ${place}`;
  return {
    reason: AcceptedReason.DomainConflict,
    problem: `${what} is taken by ${objectKey(holder.object)}`,
  };
}

export function rejected({ reason, problem }: Rejection, servedGeneration: number | undefined): Acceptance {
  const rest =
    servedGeneration === undefined ? 'nothing is in force' : `generation ${servedGeneration} stays in force`;
  return { status: false, reason, message: `${problem}; ${rest}` };
}

function name(text: string): string {
  return shortened(text, longestError);
}

/** A spec that validates, as limiters get it. */
export interface ReadRules {
  ok: true;
  fleet: string;
  domain: string;
  /** Rules of all levels. */
  rules: number;
  /** As `ServedConfig.ownFields`. */
  ownFields: readonly string[];
  /** The object's rules alone, whatever they are merged with. */
  resource: Resource;
  /** `key` or `key_value` of each rule on the top level: objects of one domain may not share any. */
  topKeys: readonly string[];
}

interface UnreadableSpec {
  ok: false;
  errors: readonly RuleError[];
  /** More than are listed, when there are very many. */
  errorCount: number;
}

type SpecReading = ReadRules | UnreadableSpec;

function readingOf(spec: unknown, name: string): SpecReading {
  const result = readSpec(spec, name);
  if (!result.ok) return { ok: false, errors: result.errors, errorCount: result.errorCount };
  const { fleet, source, rules, ownFields } = result;
  const bytes = encodeResource(source);
  const resource = { name, domain: source.domain, bytes, hash: hashOf(bytes) };
  return { ok: true, fleet, domain: source.domain, rules, ownFields, resource, topKeys: topKeysOf(source) };
}

function topKeysOf({ descriptors }: RuleSource): string[] {
  return descriptors.map(({ key, value }) => (value === '' ? key : `${key}_${value}`));
}

/** An object and what it may be served, whatever others claim. */
export interface Candidate {
  object: ConfigObject;
  kept: KeptSpec | undefined;
  /** Of the newest spec, and of the kept one. */
  readings: { newest: SpecReading; kept: SpecReading | undefined };
  /** The claim of the newest spec; undefined: it cannot be accepted, for the reason in `rejection`. */
  newest: Claim | undefined;
  rejection: Rejection | undefined;
  /** The newest first, then that of the kept spec. */
  claims: readonly Claim[];
  /** The last verdict on it, and the resource that it is served in. */
  given: { verdict: Verdict; resourceName: string | undefined } | undefined;
}

export interface DeciderOptions {
  /** Whether several objects may hold rules for one domain of a fleet. */
  mergeDomains: boolean;
  domainOwners: DomainOwners;
  /** Whose statuses say what is served: those of other control planes say nothing of it. */
  controllerName?: string | undefined;
}

/**
 * `last` is the candidate of the object in the round before: it is given again as long as the object and what was kept
 * for it are the same. What was read of a generation is not read again.
 */
export function candidateOf(
  object: ConfigObject,
  kept: KeptSpec | undefined,
  last: Candidate | undefined,
  options: DeciderOptions,
): Candidate {
  if (last !== undefined && last.object === object && last.kept === kept) return last;
  const read = (spec: KeptSpec): SpecReading => {
    if (last !== undefined && isSameSpec(last.object, spec)) return last.readings.newest;
    const keptBefore = last?.kept && isSameSpec(last.kept, spec) ? last.readings.kept : undefined;
    return keptBefore ?? readingOf(spec.spec, objectKey(object));
  };
  const newestReading = read(object);
  const keptReading = kept && (kept.spec === object.spec ? newestReading : read(kept));
  const rejection = rejectionOf(object, newestReading, options);
  const rules = newestReading.ok && rejection === undefined ? newestReading : undefined;
  const mayServeKept = keptReading?.ok && rejectionOf(object, keptReading, options) === undefined;
  const older = kept && mayServeKept ? { rules: keptReading, generation: kept.generation } : undefined;
  const status = isOfOther(object.status, options.controllerName) ? undefined : object.status;
  const claim = (generation: number, claimed: ReadRules): Claim => {
    const standing = claimStanding({ status, generation, claimed, kept: older });
    return { object, generation, rules: claimed, standing };
  };
  const newest = rules && claim(object.generation, rules);
  const claims = newest === undefined ? [] : [newest];
  if (older !== undefined && older.generation < object.generation) {
    const isHopeless = !options.mergeDomains && isForSameDomain(older.rules, rules);
    if (!isHopeless) claims.push(claim(older.generation, older.rules));
  }
  const readings = { newest: newestReading, kept: keptReading };
  return { object, kept, readings, newest, rejection, claims, given: undefined };
}

/** A source may read a spec anew although only the status has changed; a backup that is restored has old generations. */
function isSameSpec(a: KeptSpec, b: KeptSpec): boolean {
  return a.generation === b.generation && isDeepStrictEqual(a.spec, b.spec);
}

/** Why a spec may not be served, even if its domain is free. */
function rejectionOf(
  { namespace }: ConfigObject,
  reading: SpecReading,
  { domainOwners }: DeciderOptions,
): Rejection | undefined {
  if (!reading.ok) return invalid(reading);
  if (domainOwners.mayUse(namespace, reading.domain)) return undefined;
  return domainNotAllowed(reading.domain, domainOwners.ownersOf(reading.domain) ?? []);
}

/** Where a domain has one holder, what turns down the newer spec turns down the older one too. */
function isForSameDomain(a: ReadRules, b: ReadRules | undefined): boolean {
  return a.fleet === b?.fleet && a.domain === b.domain;
}

/** By uid: what stays in force should an object's next spec not be accepted. What is neither accepted nor served goes. */
export function nextKept(decision: Decision, kept: ReadonlyMap<string, KeptSpec>): Map<string, KeptSpec> {
  const next = new Map<string, KeptSpec>();
  for (const [uid, { object, accepted, served }] of decision.verdicts) {
    const before = kept.get(uid);
    const { generation, spec } = object;
    if (!accepted.status) {
      if (served !== undefined && before !== undefined) next.set(uid, before);
    } else {
      const isKnown = before?.generation === generation && before.spec === spec;
      next.set(uid, isKnown ? before : { generation, spec });
    }
  }
  return next;
}

/** By uid: the kept specs that are served in place of a newer one. These alone must outlive the process. */
export function persistedKept(
  decision: Decision,
  kept: ReadonlyMap<string, KeptSpec>,
): Map<string, KeptSpec & Pick<ConfigObject, 'namespace' | 'name'>> {
  const persisted = new Map<string, KeptSpec & Pick<ConfigObject, 'namespace' | 'name'>>();
  for (const [uid, { object, accepted, served }] of decision.verdicts) {
    const spec = kept.get(uid);
    if (accepted.status || served === undefined || spec === undefined) continue;
    persisted.set(uid, { ...spec, namespace: object.namespace, name: object.name });
  }
  return persisted;
}
