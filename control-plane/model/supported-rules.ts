/**
 * Selects the rules for a limiter: every resource that it supports, and the fallbacks of the others. Derives the capabilities that rules
 * need from the rows of the rule language. Pure.
 */
import {
  type Capabilities,
  knownCapabilities,
  noCapabilities,
  type RuleCapability,
  supports,
} from '../../rules/language/capabilities.ts';
import { type FieldRow, type FieldRows, limitFields, ruleFields } from '../../rules/language/fields.ts';
import {
  compositeOf,
  isDefault,
  type Limit,
  makeLimit,
  maxUint32,
  noTraits,
  type Rule,
  rulesOfAllLevels,
} from '../../rules/model.ts';
import type { Override } from '../../rules/override.ts';
import { decodeResource, encodeResource } from '../../rules/reader/resource.ts';
import {
  emptySnapshot,
  type FleetSnapshot,
  hashOf,
  type LimiterReport,
  type Resource,
  versionOf,
} from './fleet-snapshot.ts';

/** Served snapshots by snapshot and capabilities. There are at most 64 sets of capabilities. */
const served = new WeakMap<FleetSnapshot, Map<string, FleetSnapshot>>();
const needed = new WeakMap<FleetSnapshot, Capabilities>();

/** Returns the snapshot for limiters with these capabilities. It is the same value if they support all of it. */
export function snapshotFor(snapshot: FleetSnapshot, has: Capabilities): FleetSnapshot {
  if (supports(has, neededFor(snapshot))) return snapshot;
  const known = served.get(snapshot) ?? new Map<string, FleetSnapshot>();
  served.set(snapshot, known);
  const key = has.join();
  const reduced = known.get(key) ?? reducedTo(snapshot, has);
  known.set(key, reduced);
  return reduced;
}

/** The rules that a limiter should have. */
interface RulesOfLimiter {
  version: string;
  /** Whether the limiter has accepted this version. */
  isCurrent: boolean;
  /** Whether the limiter does not support all rules of the fleet, and gets others. */
  isTooOld: boolean;
}

/** Returns the rules that a limiter should have. Undefined before the first decision. */
export function rulesOfLimiter(
  { fleet, capabilities, acceptedVersion }: LimiterReport,
  decision: { fleets: ReadonlyMap<string, FleetSnapshot> } | undefined,
): RulesOfLimiter | undefined {
  if (decision === undefined) return undefined;
  const snapshot = decision.fleets.get(fleet) ?? emptySnapshot;
  const own = snapshotFor(snapshot, capabilities);
  return { version: own.version, isCurrent: acceptedVersion === own.version, isTooOld: own !== snapshot };
}

/** Returns the capabilities that a limiter needs for all of the snapshot. */
export function neededFor(snapshot: FleetSnapshot): Capabilities {
  const known = needed.get(snapshot) ?? joinedNeeds(snapshot.resources);
  needed.set(snapshot, known);
  return known;
}

function joinedNeeds(resources: readonly Resource[]): Capabilities {
  const names = new Set<RuleCapability>();
  for (const { needs } of resources) for (const capability of needs) names.add(capability);
  return names.size === 0 ? noCapabilities : knownCapabilities(names);
}

function reducedTo({ fleet, resources }: FleetSnapshot, has: Capabilities): FleetSnapshot {
  const supported = resources.flatMap((resource) => resourceFor(resource, has) ?? []);
  return { fleet, version: versionOf(supported), resources: supported };
}

/** Returns undefined if the limiter gets nothing. A fallback has the name of its resource. */
export function resourceFor(resource: Resource, has: Capabilities): Resource | undefined {
  const { needs, fallback, parts } = resource;
  if (supports(has, needs)) return resource;
  if (parts !== undefined) return mergedOf(partsFor(parts, has));
  return fallback && resourceFor(fallback, has);
}

/** A fallback does not include top-level rules that another object has by now, because they must be unique in a domain. */
function partsFor(parts: readonly Resource[], has: Capabilities): Resource[] {
  const chosen = parts.map((part) => ({ part, given: resourceFor(part, has) }));
  const isOlder = chosen.some(({ part, given }) => given !== undefined && given !== part);
  const taken = new Set(
    isOlder ? chosen.flatMap(({ part, given }) => (given === part ? topKeysOf(part) : [])) : [],
  );
  return chosen.flatMap(({ part, given }) => {
    if (given === part || given === undefined) return given ?? [];
    const rest = withoutRules(given, taken);
    for (const key of rest === undefined ? [] : topKeysOf(rest)) taken.add(key);
    return rest ?? [];
  });
}

function topKeysOf({ bytes }: Resource): string[] {
  return decodeResource(bytes).descriptors.map(compositeOf);
}

/** Returns undefined if no rules are left. */
function withoutRules(resource: Resource, keys: ReadonlySet<string>): Resource | undefined {
  const source = decodeResource(resource.bytes);
  const descriptors = source.descriptors.filter((rule) => !keys.has(compositeOf(rule)));
  if (descriptors.length === source.descriptors.length) return resource;
  if (descriptors.length === 0) return undefined;
  const bytes = encodeResource({ ...source, descriptors });
  return { ...resource, bytes, hash: hashOf(bytes) };
}

/**
 * Returns the merge of encoded messages, which is their concatenation. In Protocol Buffers, lists are joined, and for a single field the
 * last value counts, which is the name here. Returns undefined if there are none.
 */
export function mergedOf(parts: readonly Resource[]): Resource | undefined {
  const [first] = parts;
  if (first === undefined) return undefined;
  const { domain } = first;
  // A domain with a slash gets a prefix, because it may look like the name of an object, which contains no blanks.
  const name = domain.includes('/') ? `domain ${domain}` : domain;
  const head = encodeResource({ name, domain, descriptors: [] });
  const bytes = Buffer.concat([...parts.map((part) => part.bytes), head]);
  return { name, domain, bytes, hash: hashOf(bytes), needs: joinedNeeds(parts), parts };
}

export function neededForOverride({ effect }: Override): Capabilities {
  const hits = effect.kind === 'grant' ? effect.hits : effect.kind === 'limit' ? effect.requestsPerUnit : 0;
  return hits > maxUint32 ? ['overrides', 'wide-numbers'] : ['overrides'];
}

type Needs = readonly (readonly [property: string, capability: RuleCapability])[];

/** Properties that need a capability unless they have their default. */
const ruleNeeds = needsOf(ruleFields);
const limitNeeds = needsOf(limitFields);
/** Numbers that need a capability above 32 bits. */
const wideNeeds: Needs = Object.entries<FieldRow>(limitFields).flatMap(([name, { ifWide }]) =>
  ifWide === undefined ? [] : [[name, ifWide.withhold] as const],
);
const severalLimits = ruleFields.rateLimits.ifUnknown.withhold;
const defaultLimit = makeLimit({});

function needsOf(rows: FieldRows): Needs {
  return Object.entries(rows).flatMap(([name, { ifUnknown, isSpelling }]) =>
    typeof ifUnknown !== 'object' || isSpelling === true ? [] : [[name, ifUnknown.withhold] as const],
  );
}

export function neededCapabilities(rules: readonly Rule[]): Capabilities {
  const needed = new Set<RuleCapability>();
  for (const [rule, own] of rulesOfAllLevels(rules)) {
    addWritten(needed, ruleNeeds, rule, noTraits);
    if (own.length > 1) needed.add(severalLimits);
    for (const limit of own) {
      addWritten(needed, limitNeeds, limit, defaultLimit);
      addWide(needed, limit);
    }
  }
  return needed.size === 0 ? noCapabilities : knownCapabilities(needed);
}

function addWritten<Values extends object>(
  needed: Set<RuleCapability>,
  needs: Needs,
  values: Values,
  defaults: Partial<Values>,
): void {
  for (const [name, capability] of needs)
    if (!isDefault(values[name as keyof Values], defaults[name as keyof Values])) needed.add(capability);
}

function addWide(needed: Set<RuleCapability>, limit: Limit): void {
  for (const [name, capability] of wideNeeds)
    if (Number(limit[name as keyof Limit]) > maxUint32) needed.add(capability);
}
