/**
 * Decides about RateLimitOverrides: which of them are in force in which domain, until when, and the status of each. Pure: the time is
 * passed in, and results of the previous round are returned again while they are valid.
 */
import { isDeepStrictEqual } from 'node:util';
import { hasWindows } from '../../rules/algorithms/registry.ts';
import { calendarWindow } from '../../rules/calendar.ts';
import { limitLabel } from '../../rules/describe.ts';
import { defaultFleet, dnsLabelLength, dnsLabelPattern } from '../../rules/language/kinds.ts';
import { type Limit, Unit } from '../../rules/model.ts';
import { effectWords, type Override, type OverrideOrigin, overridePlace } from '../../rules/override.ts';
import { readOverride } from '../../rules/reader/read-override.ts';
import { decodeResource, encodeOverride } from '../../rules/reader/resource.ts';
import { effectNote, limitsOf, ruleProblem } from '../../rules/review/review-override.ts';
import { formatManifestError } from '../../rules/rule-error.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { secondsOfLimit } from '../../rules/window.ts';
import { byAge, type ConfigObject, findCondition, objectKey } from '../model/config-object.ts';
import {
  domainKey,
  type LastAcceptedSpec,
  type ObjectOutcome,
  type OverrideText,
} from '../model/decision.ts';
import { hashOf, type Resource } from '../model/fleet-snapshot.ts';
import { isEndReason } from '../model/reasons.ts';
import { neededForOverride } from '../model/supported-rules.ts';
import { endTimeText, shortened } from './conditions.ts';
import { type FieldsOfObject, isInDoubt } from './newer-schema.ts';
import { type InForce, name, type Rejection, rejected } from './rejections.ts';
import {
  fieldsOf,
  type ObjectPreview,
  type ObjectReadings,
  type ObjectSpecReading,
  type ReadingFacts,
  type ReadSpec,
  readingOf,
  readingsOf,
  type SpecMistakes,
  servedConfig,
} from './spec-reading.ts';

interface ReadOverride extends ReadSpec {
  override: Override;
  /** The key that two overrides may not share. Undefined for a grant, because grants add up. */
  key: string | undefined;
  text: Omit<OverrideText, 'idle' | 'note'>;
}

type Reading = ObjectSpecReading<ReadOverride>;

interface Candidate extends ObjectReadings<ReadOverride> {
  given: { outcome: ObjectOutcome; served: ReadOverride | undefined } | undefined;
}

interface FleetDomain {
  fleet: string;
  domain: string;
}

export interface OverrideFacts extends ReadingFacts {
  nowMs: number;
  /** The control plane whose leader also ends overrides, by its statuses. Undefined if only `nowMs` ends them. */
  followed?: string | undefined;
  /** The value of OVERRIDES_MAX_SECONDS. */
  maxSeconds: number;
  /** Returns the reason why the object's namespace may not set overrides in the domain. Undefined if it may. */
  rejection(object: ConfigObject, place: FleetDomain): Rejection | undefined;
  /** Returns the rules of the domain, from all of its RateLimitConfigs. Undefined if there are none. */
  rulesOf(place: FleetDomain): Resource | undefined;
}

export interface DecidedOverrides {
  /** Outcomes by uid. */
  outcomes: ReadonlyMap<string, ObjectOutcome>;
  /** Resources by fleet. */
  resources: ReadonlyMap<string, readonly Resource[]>;
  /** Counts by `domainKey`. */
  counts: ReadonlyMap<string, number>;
  /** Objects with fields of a newer CRD. */
  newer: readonly FieldsOfObject[];
  /** The time at which something changes without news. Undefined if nothing does. */
  dueMs: number | undefined;
}

/** Chosen: a text of this length fits into a column and a message. */
const longestMatch = 250;

export class OverrideDecider {
  #candidates: ReadonlyMap<string, Candidate> = new Map();
  /** Holders by `ReadOverride.key`. */
  #holders: ReadonlyMap<string, ConfigObject> = new Map();

  decide(
    objects: readonly ConfigObject[],
    acceptedSpecs: ReadonlyMap<string, LastAcceptedSpec>,
    facts: OverrideFacts,
  ): DecidedOverrides {
    const candidates = new Map<string, Candidate>();
    const outcomes = new Map<string, ObjectOutcome>();
    const holders = new Map<string, ConfigObject>();
    const resources = new Map<string, Resource[]>();
    const counts = new Map<string, number>();
    let dueMs: number | undefined;
    for (const object of objects.toSorted(byAge)) {
      const lastAccepted = acceptedSpecs.get(object.uid);
      const candidate = candidateOf(object, lastAccepted, this.#candidates.get(object.uid), facts);
      candidates.set(object.uid, candidate);
      const { outcome, served } = judge(candidate, holders, facts);
      outcomes.set(object.uid, outcome);
      const endsMs = outcome.override?.endsMs;
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
    const newer = [...candidates.values()].flatMap((one) => fieldsOf(one) ?? []);
    return { outcomes, resources, counts, newer, dueMs };
  }

  /** Reviews an object that is not stored yet, after all decisions. */
  preview(object: ConfigObject, facts: OverrideFacts): ObjectPreview {
    const older = new Map([...this.#holders].filter(([, holder]) => byAge(holder, object) < 0));
    const newest = readOverrideOf(object, facts);
    const rejection = rejectionOf(object, newest, older, facts);
    const without = newest.ok ? [] : newest.unknown.map(({ text }) => text);
    const now = this.#candidates.get(object.uid)?.given?.outcome.served;
    const inForce = now !== undefined && now.without === undefined ? now : { ...object, without };
    return {
      rejection,
      inForce: { generation: inForce.generation, without: inForce.without },
      isDoubtful: !newest.ok && isInDoubt(newest.unknown),
      idle: newest.ok ? effectOf(newest, facts).idle : undefined,
    };
  }
}

function candidateOf(
  object: ConfigObject,
  lastAccepted: LastAcceptedSpec | undefined,
  last: Candidate | undefined,
  facts: OverrideFacts,
): Candidate {
  const { schemas } = facts;
  const isSame = last?.object === object && last.lastAccepted === lastAccepted && last.schemas === schemas;
  if (isSame) return last;
  const readings = readingsOf<ReadOverride>({ object, lastAccepted, schemas }, last, (spec) =>
    readOverrideOf({ ...object, spec }, facts),
  );
  return { object, lastAccepted, readings, schemas, given: undefined };
}

function readOverrideOf(object: ConfigObject, facts: OverrideFacts): Reading {
  return readingOf(object, facts, (spec, ignored) => readKnown({ ...object, spec }, ignored, facts));
}

function readKnown(
  object: ConfigObject,
  ignored: readonly string[],
  { nowMs, maxSeconds }: OverrideFacts,
): ReadOverride | SpecMistakes {
  const { spec, createdMs, uid } = object;
  const mistakes = (errors: string[], unknown: SpecMistakes['unknown'] = []): SpecMistakes => {
    return { ok: false, errors, errorCount: errors.length, unknown };
  };
  if (typeof spec !== 'object' || spec === null) return mistakes(['spec: is required']);
  const { className: _, fleet: asked, ...rest } = spec as Record<string, unknown>;
  // A manifest in a folder has no creation time.
  const isFile = createdMs === 0;
  const origin: OverrideOrigin = {
    source: isFile ? 'file' : 'object',
    id: uid,
    name: objectKey(object),
    createdMs,
    by: '',
    fromMs: isFile ? nowMs : createdMs,
    maxSeconds,
    rejectsPast: false,
  };
  const { override, problems = [], unknown } = readOverride(rest, origin);
  const fleet = asked ?? defaultFleet;
  const isFleet =
    typeof fleet === 'string' && fleet.length <= dnsLabelLength && new RegExp(dnsLabelPattern).test(fleet);
  if (!isFleet)
    return mistakes([`spec.fleet: must be a DNS label, found ${shortened(String(fleet), 100)}`], unknown);
  if (override === undefined)
    return mistakes(
      problems.map(({ path, text }) => formatManifestError({ path: ['spec', ...path], text })),
      unknown,
    );
  const { domain, effect, endsMs } = override;
  const bytes = encodeOverride(override);
  const resource = {
    name: objectKey(object),
    domain,
    bytes,
    hash: hashOf(bytes),
    needs: neededForOverride(override),
  };
  const parts = { spec, ignored, fleet, domain, rules: 0, ownFields: [], resource, override };
  return {
    ...parts,
    ok: true,
    key: effect.kind === 'grant' ? undefined : `${fleet} ${overridePlace(override)}`,
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

/** Decides which spec is served, and the status: the newest spec, or the one that was accepted before it, until that ends. */
function judge(
  candidate: Candidate,
  holders: ReadonlyMap<string, ConfigObject>,
  facts: OverrideFacts,
): { outcome: ObjectOutcome; served: ReadOverride | undefined } {
  const { object, lastAccepted, given } = candidate;
  const [{ reading: newest }, before] = candidate.readings;
  const older = before?.reading;
  const rejection = rejectionOf(object, newest, holders, facts);
  const isOver = isEndReason(rejection?.reason);
  const isIn = (reading: Reading | undefined): reading is ReadOverride =>
    reading !== undefined && rejectionOf(object, reading, holders, facts) === undefined;
  const rest = newest.ok ? undefined : newest.rest;
  const whole = newest.ok && rejection === undefined ? newest : undefined;
  const stays = rejection !== undefined && !isOver && isIn(older) ? older : undefined;
  const part = stays === undefined && rejection !== undefined && isIn(rest) ? rest : undefined;
  const served = whole ?? stays ?? part;
  const inForce: InForce = {
    generation: stays === undefined ? object.generation : lastAccepted!.generation,
    isSame: lastAccepted?.generation === object.generation,
    without: part && !newest.ok ? newest.unknown.map(({ text }) => text) : undefined,
  };
  const reported = served ?? rest ?? (newest.ok ? newest : undefined);
  const accepted: ObjectOutcome['accepted'] =
    rejection === undefined
      ? { status: true }
      : isOver
        ? { status: false, reason: rejection.reason, message: rejection.problem }
        : rejected(rejection, served && inForce);
  const override = reported && { ...reported.text, ...effectOf(reported, facts) };
  const isAsGiven =
    given?.served === served &&
    isDeepStrictEqual(given?.outcome.accepted, accepted) &&
    isDeepStrictEqual(given?.outcome.override, override);
  if (given !== undefined && isAsGiven) return given;
  const resource = { resource: served?.resource.name ?? '', fallback: undefined };
  const config = served && servedConfig(served, inForce, resource);
  candidate.given = { outcome: { object, accepted, served: config, override }, served };
  return candidate.given;
}

function rejectionOf(
  object: ConfigObject,
  reading: Reading,
  holders: ReadonlyMap<string, ConfigObject>,
  facts: OverrideFacts,
): Rejection | undefined {
  if (!reading.ok) {
    // If the override could not be in force even without the fields of a newer CRD, there is another reason.
    const ofRest = reading.rest && rejectionOf(object, reading.rest, holders, facts);
    return ofRest ?? reading.rejection;
  }
  const { fleet, domain, key, text } = reading;
  const endsMs = effectOf(reading, facts).endsMs;
  if (endsMs !== undefined && (endsMs <= facts.nowMs || isReportedEnded(object, facts)))
    return { reason: 'Expired', problem: `it ended at ${endTimeText(endsMs)}` };
  const rejection = facts.rejection(object, { fleet, domain });
  if (rejection !== undefined) return rejection;
  const holder = key === undefined ? undefined : holders.get(key);
  if (holder === undefined || holder.uid === object.uid) return undefined;
  const what = `'${text.match}' in domain '${name(domain)}' of fleet '${fleet}'`;
  return {
    reason: 'Conflicted',
    problem: `${what} has an older override: ${objectKey(holder)}`,
  };
}

/**
 * Returns whether the leader has reported the end of this generation. If the clock of this process is behind, its limiters would otherwise
 * get the override again, and not the one that has its place.
 */
function isReportedEnded({ generation, status }: ConfigObject, { followed }: OverrideFacts): boolean {
  const accepted = findCondition(status, 'Accepted');
  return (
    followed !== undefined &&
    status?.controllerName === followed &&
    accepted?.observedGeneration === generation &&
    isEndReason(accepted.reason)
  );
}

/** The effect of an override on the rules of its domain. */
type EffectByRules = Pick<OverrideText, 'endsMs' | 'idle' | 'note'>;

/** The last effect of each override, with the rules that it depends on. */
const effects = new WeakMap<ReadOverride, { rules: Resource | undefined; effect: EffectByRules }>();

function effectOf(reading: ReadOverride, { rulesOf }: OverrideFacts): EffectByRules {
  const rules = rulesOf(reading);
  const known = effects.get(reading);
  if (known !== undefined && known.rules === rules) return known.effect;
  const effect = rules === undefined ? effectAlone(reading) : effectWith(reading, tableOf(rules));
  effects.set(reading, { rules, effect });
  return effect;
}

/** Returns the effect without rules for the domain. */
function effectAlone({ override: { effect, limit }, text: { endsMs } }: ReadOverride): EffectByRules {
  const worksAlone =
    limit === '' &&
    (effect.kind === 'block' ||
      effect.kind === 'shadow' ||
      (effect.kind === 'limit' && effect.unit !== undefined));
  const absence = 'no RateLimitConfig has rules for the domain';
  return worksAlone
    ? { endsMs, idle: undefined, note: `${absence}: the override applies without one` }
    : { endsMs, idle: absence, note: '' };
}

function effectWith({ override, text: { endsMs } }: ReadOverride, table: RuleTable): EffectByRules {
  const limits = limitsOf(override, table);
  const idle = ruleProblem(override, table, limits);
  if (idle !== undefined) return { endsMs, idle, note: '' };
  const isOpenGrant = override.effect.kind === 'grant' && endsMs === undefined;
  return {
    endsMs: isOpenGrant ? grantEnd(override, limits) : endsMs,
    idle,
    note: effectNote(override, table, limits),
  };
}

/** Rule tables of domains with overrides, stored as long as their rules do not change. */
const tables = new WeakMap<Resource, RuleTable>();

function tableOf(rules: Resource): RuleTable {
  const table = tables.get(rules) ?? new RuleTable(compileRules([decodeResource(rules.bytes)]));
  tables.set(rules, table);
  return table;
}

/** Returns the end of a grant, in milliseconds since 1970. `limits`: the limits of its rule, of which one is the granted one. */
export function grantEnd({ limit: name, createdMs }: Override, limits: readonly Limit[]): number {
  const limit = limits.find((one) => name === '' || limitLabel(limits, one) === name)!;
  return endOfWindow(limit, createdMs);
}

/** Returns the end of the grant: the end of its window, or, for other algorithms, one window length later. */
function endOfWindow(limit: Limit, createdMs: number): number {
  const { unit, unitMultiplier, calendar } = limit;
  if (calendar !== undefined) return calendarWindow(calendar, Math.floor(createdMs / 1000)).endSeconds * 1000;
  const lengthMs = secondsOfLimit(limit) * 1_000;
  if (!hasWindows(limit)) return createdMs + lengthMs;
  const endMs = (Math.floor(createdMs / lengthMs) + 1) * lengthMs;
  if (unit !== Unit.MONTH) return endMs;
  // Limiters may count calendar months, and they do not report whether they do. The later end is certain.
  const created = new Date(createdMs);
  return Math.max(endMs, Date.UTC(created.getUTCFullYear(), created.getUTCMonth() + unitMultiplier, 1));
}
