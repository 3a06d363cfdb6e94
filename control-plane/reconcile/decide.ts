/**
 * What follows from all objects: what each fleet is served, and what is said about each object. The result depends on
 * the objects, the kept specs and the policy alone, not on their order, nor on what was decided before; the `Decider` remembers
 * only what it need not work out again, and gives the same values for what did not change.
 */
import { isDeepStrictEqual } from 'node:util';
import { overridesRulesVersion } from '../../rules/model.ts';
import { type ConfigObject, isOfOther, objectKey } from '../model/config-object.ts';
import {
  type Decision,
  type DomainRecords,
  domainKey,
  type KeptSpec,
  type ServedConfig,
  type SpecGeneration,
  type Verdict,
} from '../model/decision.ts';
import {
  type FleetSnapshot,
  fleetSnapshot,
  isOld,
  neededFor,
  type Resource,
} from '../model/fleet-snapshot.ts';
import type { NewerFields, PublishedSchemas } from '../model/newer-fields.ts';
import {
  type Claim,
  type Clash,
  claimStanding,
  type DomainOwners,
  type FleetAccesses,
  type Hold,
  isServed,
  SettledClaims,
} from './claims.ts';
import { timeText } from './conditions.ts';
import { isInDoubt, joinedFields, newerFields } from './newer-schema.ts';
import { OverrideDecider, type OverrideFacts, type OverrideForesight } from './overrides.ts';
import {
  accessRejection,
  domainNotAllowed,
  type InForce,
  isAssigned,
  name,
  type Rejection,
  rejected,
} from './rejections.ts';
import { type OldRules, type ServedClaims, type ServedFleet, serveClaims } from './served-fleets.ts';
import { followsFromSchemas, type ReadRules, readingOf, type SpecReading } from './spec-reading.ts';

/** Of a claim that was turned down. */
function domainConflict({ rules: { domain, fleet } }: Claim, clash: Clash | Hold): Rejection {
  const place = `domain '${name(domain)}' of fleet '${name(fleet)}'`;
  return { reason: 'DomainConflict', problem: conflictText(place, clash) };
}

function conflictText(place: string, clash: Clash | Hold): string {
  if ('held' in clash) {
    const { namespaces, heldUntilMs } = clash.held;
    const whom = `${namespaces.length === 1 ? 'namespace' : 'namespaces'} ${name(namespaces.join(', '))}`;
    // Rounded up: it is not given away before.
    const until = heldUntilMs === undefined ? '' : ` until ${timeText(heldUntilMs + 999)}`;
    return `${place} is held for ${whom}, which had it last,${until === '' ? ' for a while' : until}`;
  }
  const what = clash.key === undefined ? place : `descriptor '${name(clash.key)}' in ${place}`;
  return `${what} is taken by ${objectKey(clash.holder.object)}`;
}

/** An object and what it may be served, whatever others claim. */
export interface Candidate {
  object: ConfigObject;
  kept: KeptSpec | undefined;
  /** Of the newest spec, of the kept one, and of the one that was kept for old limiters. */
  readings: { newest: SpecReading; kept: SpecReading | undefined; forOld: SpecReading | undefined };
  /** The claim of the newest spec; undefined: it cannot be accepted, for the reason in `rejection`. */
  newest: Claim | undefined;
  rejection: Rejection | undefined;
  /** Of the newest spec without fields of a newer CRD, where that has some. */
  rest: Claim | undefined;
  /** The newest first, then that of the kept spec, then `rest`. */
  claims: readonly Claim[];
  /** The last rules that limiters of any version obey, where the claims are more than that. */
  forOld: OldRules | undefined;
  /** What `rejection` follows from. */
  fleets: FleetAccesses;
  schemas: PublishedSchemas | undefined;
  /** The last verdict on it, and the resource that it is served in. */
  given: { verdict: Verdict; resourceName: string | undefined } | undefined;
}

export interface DeciderOptions {
  /** Whether several objects may hold rules for one domain of a fleet. */
  mergeDomains: boolean;
  domainOwners: DomainOwners;
  /** Whose statuses say what is served: those of other control planes say nothing of it. */
  controllerName?: string | undefined;
  /** OVERRIDES_MAX_SECONDS; missing: no bound. */
  overridesMaxSeconds?: number;
  /** Of this program, for messages. */
  version?: string;
}

/**
 * `last` is the candidate of the object in the round before: it is given again as long as the object, what was kept
 * for it, who may use fleets and the schemas are the same. What was read of a generation is not read again.
 */
function candidateOf(
  { object, kept, fleets, schemas }: Pick<Candidate, 'object' | 'kept' | 'fleets' | 'schemas'>,
  last: Candidate | undefined,
  options: DeciderOptions,
): Candidate {
  const isSame = last !== undefined && last.object === object && last.kept === kept;
  if (isSame && last.fleets === fleets && last.schemas === schemas) return last;
  const { version = '' } = options;
  const read = (spec: SpecGeneration): SpecReading =>
    readBefore(spec, last, schemas) ?? readingOf(spec.spec, { name: objectKey(object), schemas, version });
  const newestReading = read(object);
  const keptReading = kept && (kept.spec === object.spec ? newestReading : read(kept));
  const oldReading = kept?.forOld && read(kept.forOld);
  const status = isOfOther(object.status, options.controllerName) ? undefined : object.status;
  const rejectionOf = (reading: SpecReading): Rejection | undefined => {
    const asked = reading.ok ? reading : reading.rest;
    const { namespace } = object;
    const wish = asked && { namespace, ...placeOf(asked), isServed: isServed(status, asked) };
    const refusal = wish && accessRejection(wish, options.domainOwners, fleets);
    return refusal ?? (reading.ok ? undefined : reading.rejection);
  };
  const rejection = rejectionOf(newestReading);
  const rules = newestReading.ok && rejection === undefined ? newestReading : undefined;
  const mayServeKept = keptReading?.ok && rejectionOf(keptReading) === undefined;
  const unread = newestReading.ok ? undefined : newestReading;
  const mayServeRest = unread?.rest && rejectionOf(unread.rest) === undefined;
  const older = kept && mayServeKept ? { rules: keptReading, generation: kept.generation } : undefined;
  const claim = (generation: number, claimed: ReadRules): Claim => {
    const standing = claimStanding({ status, generation, claimed, kept: older });
    return { object, generation, rules: claimed, standing };
  };
  const newest = rules && claim(object.generation, rules);
  const without = unread?.unknown.map(({ text }) => text) ?? [];
  const rest = mayServeRest ? { ...claim(object.generation, unread!.rest!), without } : undefined;
  const claims = newest === undefined ? [] : [newest];
  if (older !== undefined && keptReading !== newestReading) {
    // Where a domain has one holder, what turns down the newer spec turns down the older one too.
    const isHopeless = !options.mergeDomains && isForSameDomain(older.rules, rules);
    if (!isHopeless) claims.push(claim(older.generation, older.rules));
  }
  if (rest !== undefined) claims.push(rest);
  const forOld = oldRulesOf(kept, keptReading) ?? oldRulesOf(kept?.forOld, oldReading);
  const readings = { newest: newestReading, kept: keptReading, forOld: oldReading };
  const given = isSame ? last.given : undefined;
  return { object, kept, readings, newest, rejection, rest, claims, forOld, fleets, schemas, given };
}

/** What was read of the spec in the round before, unless other schemas may make another reading of it. */
function readBefore(
  spec: SpecGeneration,
  last: Candidate | undefined,
  schemas: PublishedSchemas | undefined,
): SpecReading | undefined {
  if (last === undefined) return undefined;
  const { object, kept, readings } = last;
  const pairs = [
    [object, readings.newest],
    [kept, readings.kept],
    [kept?.forOld, readings.forOld],
  ] as const;
  const [, reading] = pairs.find(([before]) => before !== undefined && isSameSpec(before, spec)) ?? [];
  const isOfSame = last.schemas === schemas || (reading !== undefined && !followsFromSchemas(reading));
  return isOfSame ? reading : undefined;
}

function placeOf({ fleet, domain }: ReadRules): { fleet: string; domain: string } {
  return { fleet, domain };
}

function oldRulesOf(spec: SpecGeneration | undefined, rules: SpecReading | undefined): OldRules | undefined {
  return spec !== undefined && rules?.ok && isOld(rules.rulesVersion) ? { spec, rules } : undefined;
}

/** A source may read a spec anew although only the status has changed; a backup that is restored has old generations. */
function isSameSpec(a: SpecGeneration, b: SpecGeneration): boolean {
  return a.generation === b.generation && isDeepStrictEqual(a.spec, b.spec);
}

function isForSameDomain(a: ReadRules, b: ReadRules | undefined): boolean {
  return a.fleet === b?.fleet && a.domain === b.domain;
}

/** By uid: what stays in force should an object's next spec not be accepted. What is neither accepted nor served goes. */
export function nextKept(decision: Decision, kept: ReadonlyMap<string, KeptSpec>): Map<string, KeptSpec> {
  const next = new Map<string, KeptSpec>();
  for (const [uid, { object, accepted, served }] of decision.verdicts) {
    const before = kept.get(uid);
    const { generation } = object;
    if (!accepted.status) {
      const isKept = served !== undefined && served.without === undefined;
      if (isKept && before !== undefined) next.set(uid, before);
    } else {
      const { forOld, spec } = served!;
      const isKnown = before?.generation === generation && before.spec === spec && before.forOld === forOld;
      next.set(uid, isKnown ? before : { generation, spec, forOld });
    }
  }
  return next;
}

/** What is known of an object here, and what another process stored of it. */
export function joinedKept(known: KeptSpec | undefined, stored: KeptSpec): KeptSpec {
  if (known === undefined || known.generation < stored.generation) return stored;
  const { generation, spec } = stored.forOld ?? stored;
  const isNews = known.forOld === undefined && generation < known.generation;
  return isNews ? { ...known, forOld: { generation, spec } } : known;
}

/** By uid: the specs that are served in place of a newer one, to all or to old limiters. These alone must outlive the process. */
export function persistedKept(
  decision: Decision,
  kept: ReadonlyMap<string, KeptSpec>,
): Map<string, KeptSpec & Pick<ConfigObject, 'namespace' | 'name'>> {
  const persisted = new Map<string, KeptSpec & Pick<ConfigObject, 'namespace' | 'name'>>();
  for (const [uid, { object, accepted, served }] of decision.verdicts) {
    const spec = accepted.status ? served?.forOld : kept.get(uid);
    if (served === undefined || spec === undefined) continue;
    persisted.set(uid, { ...spec, namespace: object.namespace, name: object.name });
  }
  return persisted;
}

/** What is known beside the objects. */
export interface Policy {
  /** Another value whenever something in it is another one. */
  fleets: FleetAccesses;
  records: DomainRecords;
  /** Missing: no API server has held specs to a schema, so unknown fields are errors. */
  schemas?: PublishedSchemas | undefined;
}

/** Where nobody says anything of fleets, and nothing is remembered of domains. */
export const noPolicy: Policy = { fleets: new Map(), records: new Map() };

/** What one decision worked out, for the next one; what that does not need any more is forgotten with it. */
interface Round {
  /** By uid. */
  candidates: ReadonlyMap<string, Candidate>;
  fleets: ReadonlyMap<string, ServedFleet>;
  accesses: FleetAccesses;
  records: DomainRecords;
  schemas: PublishedSchemas | undefined;
  /** By `domainKey`: whose namespaces have rules of a domain. */
  holders: ReadonlyMap<string, ReadonlySet<string>>;
  /** By `domainKey`. */
  rules: ReadonlyMap<string, Resource>;
  /** By fleet: what is served with overrides. */
  snapshots: ReadonlyMap<string, FleetSnapshot>;
  /** Undefined before the first round. */
  settled: SettledClaims | undefined;
}

/** What would be said of an object. */
export interface Foresight {
  rejection: Rejection | undefined;
  /** What would be served of it; undefined: it cannot be accepted, whoever has its domain. */
  rules: ReadRules | undefined;
  /** What would be in force although it is not accepted, where that is not nothing. */
  inForce?: InForce | undefined;
  /** Whether newer schemas might end the rejection. */
  isDoubtful?: boolean;
}

export class Decider {
  readonly #options: DeciderOptions;
  readonly #overrides = new OverrideDecider();
  #last: Round = {
    candidates: new Map(),
    fleets: new Map(),
    accesses: new Map(),
    records: new Map(),
    schemas: undefined,
    holders: new Map(),
    rules: new Map(),
    snapshots: new Map(),
    settled: undefined,
  };

  constructor(options: DeciderOptions) {
    this.#options = options;
  }

  get mergesDomains(): boolean {
    return this.#options.mergeDomains;
  }

  /** `kept` by uid: see `nextKept`. `nowMs` is for overrides; by default none of them has ended. */
  decide(
    objects: readonly ConfigObject[],
    kept: ReadonlyMap<string, KeptSpec>,
    { fleets: accesses, records, schemas }: Policy = noPolicy,
    nowMs = 0,
  ): Decision {
    const { domainOwners, mergeDomains } = this.#options;
    const candidates = new Map<string, Candidate>();
    const configs = objects.filter(({ kind }) => kind === undefined);
    for (const object of configs) {
      const { uid } = object;
      const facts = { object, kept: kept.get(uid), fleets: accesses, schemas };
      candidates.set(uid, candidateOf(facts, this.#last.candidates.get(uid), this.#options));
    }
    const lists = [...candidates.values()].map(({ claims }) => claims);
    const settled = new SettledClaims(lists, {
      mergeDomains,
      records,
      mayUse: (namespace, place) =>
        accessRejection({ namespace, ...place, isServed: true }, domainOwners, accesses) === undefined,
    });
    const oldRulesOf = ({ object, rules }: Claim) => {
      const old = candidates.get(object.uid)?.forOld;
      return isForSameDomain(rules, old?.rules) ? old : undefined;
    };
    const served = serveClaims({ places: settled.places(), oldRulesOf }, this.#last.fleets);
    const { fleets } = served;
    const verdicts = new Map<string, Verdict>();
    for (const [uid, candidate] of candidates) verdicts.set(uid, verdictOn(candidate, settled, served));
    const { snapshots: before } = this.#last;
    const holders = namespacesByDomain(verdicts.values());
    const rules = new Map(
      [...served.resources].map(([claim, resource]) => [domainKey(claim.rules), resource] as const),
    );
    this.#last = {
      candidates,
      fleets,
      accesses,
      records,
      schemas,
      holders,
      rules,
      settled,
      snapshots: before,
    };
    const overrides = objects.filter(({ kind }) => kind !== undefined);
    const decided = this.#overrides.decide(overrides, kept, this.#overrideFacts(nowMs));
    for (const [uid, verdict] of decided.verdicts) verdicts.set(uid, verdict);
    const snapshots = new Map([...fleets].map(([fleet, { snapshot }]) => [fleet, snapshot]));
    for (const [fleet, resources] of decided.resources) {
      const base = snapshots.get(fleet) ?? fleetSnapshot(fleet, []);
      snapshots.set(fleet, withOverrides(base, resources, before.get(fleet)));
    }
    this.#last = { ...this.#last, snapshots };
    const newerFields = joinedFields(newerFieldsOf(candidates), decided.newerFields);
    return { fleets: snapshots, verdicts, overrides: decided.counts, dueMs: decided.dueMs, newerFields };
  }

  #overrideFacts(nowMs: number): OverrideFacts {
    const { domainOwners, overridesMaxSeconds: maxSeconds = Number.POSITIVE_INFINITY } = this.#options;
    const { accesses, records, schemas, holders, rules } = this.#last;
    return {
      nowMs,
      maxSeconds,
      schemas,
      version: this.#options.version ?? '',
      rulesOf: (place) => rules.get(domainKey(place)),
      rejection: ({ namespace, status }, place) => {
        const wish = { namespace, ...place, isServed: isServed(status, place) };
        const refusal = accessRejection(wish, domainOwners, accesses);
        if (refusal !== undefined || isAssigned(place, domainOwners, accesses)) return refusal;
        // Nobody says whose it is: it is theirs who have its rules, or had them last.
        const key = domainKey(place);
        const owners = holders.get(key) ?? records.get(key)?.namespaces;
        if (owners === undefined || [...owners].includes(namespace)) return undefined;
        return domainNotAllowed(`domain '${name(place.domain)}' of fleet '${name(place.fleet)}'`, [
          ...owners,
        ]);
      },
    };
  }

  /** As `foresee`, of a RateLimitOverride. */
  foreseeOverride(object: ConfigObject, nowMs: number, schemas = this.#last.schemas): OverrideForesight {
    return this.#overrides.foresee(object, { ...this.#overrideFacts(nowMs), schemas });
  }

  /** Of an object that may come, or may come to this, after all that was decided. Nothing is remembered of it. */
  foresee(object: ConfigObject, schemas = this.#last.schemas): Foresight {
    const { accesses, settled, candidates } = this.#last;
    const facts = { object, kept: undefined, fleets: accesses, schemas };
    const { newest, rest, rejection, readings } = candidateOf(facts, undefined, this.#options);
    const claim = newest ?? rest;
    const clash = claim && settled?.clashOf(claim);
    const now = candidates.get(object.uid)?.given?.verdict.served;
    const older = now?.without === undefined ? now : undefined;
    return {
      rejection: claim && clash ? domainConflict(claim, clash) : rejection,
      rules: claim?.rules,
      inForce: older ? { generation: older.generation } : rest && inForceOf(rest),
      isDoubtful: !readings.newest.ok && isInDoubt(readings.newest.unknown),
    };
  }
}

/** Of the newest specs. */
function newerFieldsOf(candidates: ReadonlyMap<string, Candidate>): NewerFields {
  return newerFields(
    [...candidates.values()].map(({ object, readings: { newest } }) => ({
      object,
      ignored: newest.ok ? newest.ignored : (newest.rest?.ignored ?? []),
      unknown: newest.ok ? [] : newest.unknown,
    })),
  );
}

/** By `domainKey`. */
function namespacesByDomain(verdicts: Iterable<Verdict>): Map<string, Set<string>> {
  const namespaces = new Map<string, Set<string>>();
  for (const { object, served } of verdicts) {
    if (served === undefined) continue;
    const key = domainKey(served);
    const known = namespaces.get(key);
    if (known === undefined) namespaces.set(key, new Set([object.namespace]));
    else known.add(object.namespace);
  }
  return namespaces;
}

/** `last` again, as long as it is the same. Limiters that take overrides and not all of the rules get both as far as they can. */
function withOverrides(
  base: FleetSnapshot,
  overrides: readonly Resource[],
  last: FleetSnapshot | undefined,
): FleetSnapshot {
  const { version, resources } = fleetSnapshot(base.fleet, [...base.resources, ...overrides]);
  const rulesVersion = Math.max(overridesRulesVersion, neededFor(base));
  const forOld =
    rulesVersion > overridesRulesVersion ? withOverrides(base.forOld!, overrides, last?.forOld) : base;
  const isSame =
    last?.version === version &&
    last.forOld?.version === forOld.version &&
    last.forOld.forOld === forOld.forOld;
  return isSame ? last : { fleet: base.fleet, version, resources, forOld, rulesVersion };
}

/** The last one again as long as it says the same. */
function verdictOn(
  candidate: Candidate,
  settled: SettledClaims,
  { resources, forOld: forOldOf }: ServedClaims,
): Verdict {
  const { object, newest, rest, claims, rejection, given } = candidate;
  const claim = claims.find((one) => resources.has(one));
  const resourceName = claim && resources.get(claim)!.name;
  const forOld = claim && forOldOf.get(claim)?.spec;
  const accepted: Verdict['accepted'] =
    claim !== undefined && claim === newest
      ? { status: true }
      : rejected(rejectionNow(), claim && inForceOf(claim));
  function rejectionNow(): Rejection {
    // What cannot be served even without the fields of a newer CRD has another reason.
    const turnedDown = newest ?? (claim === undefined ? rest : undefined);
    const clash = turnedDown && settled.clashOf(turnedDown);
    return turnedDown && clash ? domainConflict(turnedDown, clash) : rejection!;
  }
  const isServedAsBefore = given?.resourceName === resourceName && given?.verdict.served?.forOld === forOld;
  if (given && isServedAsBefore && isSame(given.verdict.accepted, accepted)) return given.verdict;
  const served = claim && { ...servedConfig(claim, resourceName!), forOld };
  const verdict = { object, accepted, served };
  candidate.given = { verdict, resourceName };
  return verdict;
}

/** The message names the generation that is served, so it tells about that too. */
function isSame(a: Verdict['accepted'], b: Verdict['accepted']): boolean {
  if (a.status || b.status) return a.status === b.status;
  return a.reason === b.reason && a.message === b.message;
}

/** Of a claim that is served in place of the newest spec. */
function inForceOf({ object, generation, without }: Claim): InForce {
  return { generation, isSame: generation === object.generation, without };
}

function servedConfig(
  { generation, rules: read, without }: Claim,
  resource: string,
): Omit<ServedConfig, 'forOld'> {
  const { fleet, domain, rules, ownFields, rulesVersion, spec } = read;
  const { hash, bytes } = read.resource;
  const served = { fleet, domain, generation, spec, hash, bytes, resource, rules, ownFields, rulesVersion };
  return without === undefined ? served : { ...served, without };
}
