/**
 * What follows from RateLimitOverrides: which of them lie over which domain, until when, and what is said of each. Pure: the
 * time is passed in, and what was worked out in the round before is given again as long as it holds.
 */
import { isDeepStrictEqual } from 'node:util';
import { bounds, defaultFleet, dnsLabelPattern } from '../../rules/manifest/manifest-bounds.ts';
import { overridesRulesVersion } from '../../rules/model.ts';
import { effectWords, type Override, overridePlace } from '../../rules/overrides/override.ts';
import { type OverrideOrigin, readOverride } from '../../rules/overrides/read-override.ts';
import { formatManifestError } from '../../rules/rule-error.ts';
import { encodeOverride } from '../../rules/xds/override-resource.ts';
import { byAge, type ConfigObject, objectKey } from '../model/config-object.ts';
import {
  domainKey,
  type KeptSpec,
  type OverrideText,
  type ServedConfig,
  type SpecGeneration,
  type Verdict,
} from '../model/decision.ts';
import { hashOf, type Resource } from '../model/fleet-snapshot.ts';
import { AcceptedReason, endText, joinedWithin, shortened } from './conditions.ts';
import { grantEnd } from './grant-end.ts';
import { longestError, name, type Rejection, rejected } from './rejections.ts';

interface ReadSpec {
  fleet: string;
  override: Override;
  /** What no two may have; undefined of a grant, which adds up. */
  key: string | undefined;
  resource: Resource;
  text: Omit<OverrideText, 'notes'>;
}

type Reading = ReadSpec | { problem: string };

interface Candidate {
  object: ConfigObject;
  kept: KeptSpec | undefined;
  newest: Reading;
  /** Of the kept spec, where that is another one. */
  older: Reading | undefined;
  given: { verdict: Verdict; served: ReadSpec | undefined } | undefined;
}

interface Place {
  fleet: string;
  domain: string;
}

export interface OverrideFacts {
  nowMs: number;
  /** OVERRIDES_MAX_SECONDS. */
  maxSeconds: number;
  /** Why the object's namespace may not lie anything over the domain. */
  rejection(object: ConfigObject, place: Place): Rejection | undefined;
  /** Of the domain, by all of its RateLimitConfigs; undefined: there are none. */
  rulesOf(place: Place): Resource | undefined;
}

export interface DecidedOverrides {
  /** By uid. */
  verdicts: ReadonlyMap<string, Verdict>;
  /** By fleet. */
  resources: ReadonlyMap<string, readonly Resource[]>;
  /** By `domainKey`. */
  counts: ReadonlyMap<string, number>;
  /** When time alone changes something; undefined: never. */
  dueMs: number | undefined;
}

/** Chosen: what fits into a column and a message. */
const longestMatch = 250;

export class OverrideDecider {
  #candidates: ReadonlyMap<string, Candidate> = new Map();
  /** By `ReadSpec.key`. */
  #holders: ReadonlyMap<string, ConfigObject> = new Map();

  decide(
    objects: readonly ConfigObject[],
    kept: ReadonlyMap<string, KeptSpec>,
    facts: OverrideFacts,
  ): DecidedOverrides {
    const candidates = new Map<string, Candidate>();
    const verdicts = new Map<string, Verdict>();
    const holders = new Map<string, ConfigObject>();
    const resources = new Map<string, Resource[]>();
    const counts = new Map<string, number>();
    let dueMs: number | undefined;
    for (const object of objects.toSorted(byAge)) {
      const last = this.#candidates.get(object.uid);
      const candidate = candidateOf({ object, kept: kept.get(object.uid), last }, facts);
      candidates.set(object.uid, candidate);
      const { verdict, served } = judge(candidate, holders, facts);
      verdicts.set(object.uid, verdict);
      const endsMs = verdict.override?.endsMs;
      for (const ms of [endsMs, served?.text.endsMs])
        if (ms !== undefined && ms > facts.nowMs) dueMs = Math.min(dueMs ?? ms, ms);
      if (served === undefined) continue;
      const { fleet, resource, key } = served;
      if (key !== undefined) holders.set(key, object);
      const ofFleet = resources.get(fleet) ?? [];
      ofFleet.push(resource);
      resources.set(fleet, ofFleet);
      const place = domainKey({ fleet, domain: resource.domain });
      counts.set(place, (counts.get(place) ?? 0) + 1);
    }
    this.#candidates = candidates;
    this.#holders = holders;
    return { verdicts, resources, counts, dueMs };
  }

  /** Why an object would not be in force that may come to this, after all that was decided. */
  foresee(object: ConfigObject, facts: OverrideFacts): Rejection | undefined {
    const older = new Map([...this.#holders].filter(([, holder]) => byAge(holder, object) < 0));
    const { newest } = candidateOf({ object, kept: undefined, last: undefined }, facts);
    return rejectionOf(object, newest, older, facts);
  }
}

interface CandidateParts {
  object: ConfigObject;
  kept: KeptSpec | undefined;
  last: Candidate | undefined;
}

/** What was read of a generation is not read again. */
function candidateOf({ object, kept, last }: CandidateParts, facts: OverrideFacts): Candidate {
  if (last !== undefined && last.object === object && last.kept === kept) return last;
  const read = (spec: SpecGeneration): Reading => {
    const isSame = (one: SpecGeneration | undefined) =>
      one?.generation === spec.generation && isDeepStrictEqual(one.spec, spec.spec);
    if (last !== undefined && isSame(last.object)) return last.newest;
    if (last?.older !== undefined && isSame(last.kept)) return last.older;
    return readingOf(object, spec.spec, facts);
  };
  const older = kept !== undefined && kept.generation < object.generation ? read(kept) : undefined;
  return { object, kept, newest: read(object), older, given: undefined };
}

function readingOf(object: ConfigObject, spec: unknown, { nowMs, maxSeconds }: OverrideFacts): Reading {
  if (typeof spec !== 'object' || spec === null) return { problem: 'spec: is required' };
  const { className: _, fleet: asked, ...rest } = spec as Record<string, unknown>;
  const fleet = asked ?? defaultFleet;
  const isFleet =
    typeof fleet === 'string' &&
    fleet.length <= bounds.fleetLength &&
    new RegExp(dnsLabelPattern).test(fleet);
  if (!isFleet) return { problem: `spec.fleet: must be a DNS label, found ${shortened(String(fleet), 100)}` };
  const { createdMs, uid } = object;
  // A manifest of a folder says nothing of when it was made.
  const isFile = createdMs === 0;
  const origin: OverrideOrigin = {
    source: isFile ? 'file' : 'object',
    id: uid,
    name: objectKey(object),
    createdMs,
    by: '',
    fromMs: isFile ? nowMs : createdMs,
    maxSeconds,
    refusesPast: false,
  };
  const { override, problems } = readOverride(rest, origin);
  if (override === undefined) {
    const items = problems.map(({ path, text }) =>
      shortened(formatManifestError({ path: ['spec', ...path], text }), longestError),
    );
    return { problem: joinedWithin({ items, count: items.length }, 32_000) };
  }
  const { domain, effect, endsMs } = override;
  const bytes = encodeOverride(override);
  return {
    fleet,
    override,
    key: effect.kind === 'grant' ? undefined : `${fleet} ${overridePlace(override)}`,
    resource: { name: objectKey(object), domain, bytes, hash: hashOf(bytes) },
    text: { match: matchText(override), effect: effectText(override), endsMs },
  };
}

function matchText({ match }: Override): string {
  return shortened(
    match.map(({ key, value }) => (value === '' ? key : `${key}=${value}`)).join(','),
    longestMatch,
  );
}

function effectText({ effect, limit }: Override): string {
  return `${effectWords(effect)}${limit === '' ? '' : ` of limit ${limit}`}`;
}

/** What of it is served, and what is said: the newest spec, else the one that was accepted before it, until that ends. */
function judge(
  candidate: Candidate,
  holders: ReadonlyMap<string, ConfigObject>,
  facts: OverrideFacts,
): { verdict: Verdict; served: ReadSpec | undefined } {
  const { object, kept, newest, older, given } = candidate;
  const rejection = rejectionOf(object, newest, holders, facts);
  const isOver = rejection?.reason === AcceptedReason.Expired;
  const mayStay =
    rejection !== undefined && !isOver && older && rejectionOf(object, older, holders, facts) === undefined;
  const reading = rejection === undefined ? newest : mayStay ? older : undefined;
  const served = reading !== undefined && !('problem' in reading) ? reading : undefined;
  const generation = rejection === undefined ? object.generation : kept?.generation;
  const told = served ?? ('problem' in newest ? undefined : newest);
  const accepted: Verdict['accepted'] =
    rejection === undefined
      ? { status: true }
      : isOver
        ? { status: false, reason: rejection.reason, message: rejection.problem }
        : rejected(rejection, served && generation);
  const override = told && { ...told.text, ...endOf(told, facts) };
  const isAsGiven =
    given?.served === served &&
    isDeepStrictEqual(given?.verdict.accepted, accepted) &&
    isDeepStrictEqual(given?.verdict.override, override);
  if (given !== undefined && isAsGiven) return given;
  const verdict = { object, accepted, served: served && servedConfig(served, generation!), override };
  candidate.given = { verdict, served };
  return candidate.given;
}

function servedConfig({ fleet, resource }: ReadSpec, generation: number): ServedConfig {
  const { domain, hash, bytes, name: resourceName } = resource;
  return {
    fleet,
    domain,
    generation,
    hash,
    bytes,
    resource: resourceName,
    rules: 0,
    ownFields: [],
    rulesVersion: overridesRulesVersion,
    forOld: undefined,
  };
}

function rejectionOf(
  object: ConfigObject,
  reading: Reading,
  holders: ReadonlyMap<string, ConfigObject>,
  facts: OverrideFacts,
): Rejection | undefined {
  if ('problem' in reading) return { reason: AcceptedReason.Invalid, problem: reading.problem };
  const { fleet, key, text, resource } = reading;
  const endsMs = endOf(reading, facts).endsMs;
  if (endsMs !== undefined && endsMs <= facts.nowMs)
    return { reason: AcceptedReason.Expired, problem: `it ended at ${endText(endsMs)}` };
  const { domain } = resource;
  const refusal = facts.rejection(object, { fleet, domain });
  if (refusal !== undefined) return refusal;
  const holder = key === undefined ? undefined : holders.get(key);
  if (holder === undefined || holder.uid === object.uid) return undefined;
  const what = `'${text.match}' in domain '${name(domain)}' of fleet '${fleet}'`;
  return {
    reason: AcceptedReason.Conflicted,
    problem: `${what} has an older override: ${objectKey(holder)}`,
  };
}

/** By the override itself, or of a grant by the rules; and what its owner should know of them. */
function endOf(
  { fleet, resource: { domain }, override, text }: ReadSpec,
  { rulesOf }: OverrideFacts,
): Pick<OverrideText, 'endsMs' | 'notes'> {
  const { effect, endsMs } = override;
  const rules = rulesOf({ fleet, domain });
  if (effect.kind === 'grant' && endsMs === undefined) {
    const end = grantEnd(override, rules);
    return typeof end === 'number'
      ? { endsMs: end, notes: [] }
      : { endsMs: undefined, notes: [`it does nothing: ${end.problem}`] };
  }
  if (rules !== undefined) return { endsMs: text.endsMs, notes: [] };
  const worksAlone =
    effect.kind === 'block' ||
    effect.kind === 'shadow' ||
    (effect.kind === 'limit' && effect.unit !== undefined);
  const then = worksAlone ? 'it works by itself' : 'it does nothing until one has';
  return { endsMs: text.endsMs, notes: [`no RateLimitConfig has rules for the domain: ${then}`] };
}
