/** Why a newest spec is not accepted, in words for its owner. */

import { isDeepStrictEqual } from 'node:util';
import { formatManifestError } from '../../rules/manifest/manifest-bounds.ts';
import { readSpec } from '../../rules/manifest/read-spec.ts';
import type { RuleSource } from '../../rules/model.ts';
import type { RuleError } from '../../rules/rule-error.ts';
import { encodeResource } from '../../rules/xds/resource.ts';
import { type ConfigObject, objectKey } from '../model/config-object.ts';
import type { Acceptance, Decision, KeptSpec, RejectionReason } from '../model/decision.ts';
import { hashOf, type Resource } from '../model/fleet-snapshot.ts';
import { type Claim, type Clash, claimStanding, type DomainOwners } from './claims.ts';
import { AcceptedReason, joinedWithin, shortened } from './conditions.ts';

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
  const names = name(owners.join(', '));
  return {
    reason: AcceptedReason.DomainNotAllowed,
    problem: `domain '${name(domain)}' is for these namespaces only: ${names}`,
  };
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

export type SpecReading = ReadRules | UnreadableSpec;

/** Reads and encodes each spec once: specs never change, so what was read of one stays true. */
class SpecReader {
  readonly #readings = new WeakMap<object, { name: string; reading: SpecReading }>();

  /**
   * `spec` is the object's own or the one kept for it. `before` is what the object was the last time: a source may read
   * a spec anew although only the status has changed.
   */
  read(object: ConfigObject, spec: unknown, before: ConfigObject | undefined): SpecReading {
    const name = objectKey(object);
    if (typeof spec !== 'object' || spec === null) return readingOf(spec, name);
    let known = this.#readings.get(spec);
    if (
      known === undefined &&
      before?.generation === object.generation &&
      isDeepStrictEqual(before.spec, spec)
    ) {
      known = this.#readings.get(before.spec as object);
    }
    if (known?.name !== name) known = { name, reading: readingOf(spec, name) };
    this.#readings.set(spec, known);
    return known.reading;
  }
}

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
