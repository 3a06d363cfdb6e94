/**
 * One source of rules as the bytes of a `ratelimit.config.ratelimit.v3.RateLimitConfig` and back. The same rules always
 * give the same bytes, because versions are hashes of them: fields in the order of their numbers, keys of metadata sorted.
 */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import {
  RateLimitCalendarSchema,
  type RateLimitConfig,
  RateLimitConfigSchema,
  type RateLimitDescriptor,
  RateLimitDescriptorSchema,
  type RateLimitExpiry,
  type RateLimitHitsUnit,
  type RateLimitPolicy,
  RateLimitPolicySchema,
  RateLimitReplaceSchema,
  type RateLimitReserve,
  RateLimitReserveSchema,
} from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import type { Algorithm } from '../algorithms/registry.ts';
import { expiries, readCalendar, readReserve, unknownHitsUnit } from '../budget-fields.ts';
import { ruleFlags } from '../language/tables.ts';
import { leaseFromText, leaseText, unknownLease } from '../lease.ts';
import {
  type Calendar,
  type HitsUnit,
  hitsUnits,
  type JsonObject,
  type JsonValue,
  makeLimit,
  makeRule,
  maxUint32,
  mostRequests,
  type RateLimit,
  type ReserveTerms,
  type Rule,
  type RuleSource,
  Unit,
  unitName,
  unitOf,
} from '../model.ts';
import { formatManifestError, type RuleError } from '../rule-error.ts';
import { listProblem } from '../validate-limits.ts';

export const rateLimitConfigTypeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig';

/**
 * Messages inside messages. Chosen: YAML files may nest 400 levels, and one of metadata is three messages.
 */
const maxDepth = 1_500;

/** For sources that the validator passed: a unit that is none is lost. */
export function encodeResource(source: RuleSource): Uint8Array {
  return toBinary(RateLimitConfigSchema, toMessage(source));
}

/** Something wrong with the form of a resource that the message has room for. */
export type ResourceProblem = Pick<RuleError, 'code' | 'text' | 'path'>;

function refuse({ path, text }: ResourceProblem): never {
  throw new Error(formatManifestError({ path, text }));
}

/** Throws on bytes that are no such message; also, unless it can report them, on problems. What the rules mean is not looked at. */
export function decodeResource(
  bytes: Uint8Array,
  report: (problem: ResourceProblem) => void = refuse,
): RuleSource {
  const options = { readUnknownFields: false, recursionLimit: maxDepth };
  domainOfResource(bytes);
  return fromMessage(fromBinary(RateLimitConfigSchema, bytes, options), report);
}

/** Without reading the rules. Throws where the message's own fields are damaged; the library takes some of these for sound. */
export function domainOfResource(bytes: Uint8Array): string {
  const { field } = RateLimitConfigSchema;
  const known = [field.name.number, field.domain.number, field.descriptors.number];
  const reader = new BinaryReader(bytes);
  let domain = '';
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    if (known.includes(number) && wireType !== WireType.LengthDelimited) {
      throw new Error(`field ${number} has wire type ${wireType}`);
    }
    if (number === field.domain.number) domain = reader.string();
    else reader.skip(wireType, number);
  }
  return domain;
}

/** The message itself, for encodings other than bytes. */
export function toMessage({ name, domain, descriptors }: RuleSource): RateLimitConfig {
  const config = create(RateLimitConfigSchema);
  config.name = name;
  config.domain = domain;
  config.descriptors = descriptors.map(toDescriptor);
  return config;
}

export function fromMessage({ name, domain, descriptors }: RateLimitConfig, report: Report): RuleSource {
  return { name, domain, descriptors: toRules(descriptors, [], report) };
}

function toDescriptor(rule: Rule): RateLimitDescriptor {
  const descriptor = create(RateLimitDescriptorSchema);
  descriptor.key = rule.key;
  descriptor.value = rule.value;
  if (rule.limits.length > 1) descriptor.rateLimits = rule.limits.map(toPolicy);
  else if (rule.limits.length > 0) descriptor.rateLimit = toPolicy(rule.limits[0]!);
  descriptor.descriptors = rule.descriptors.map(toDescriptor);
  for (const flag of ruleFlags) descriptor[flag] = rule[flag];
  if (rule.metadata !== undefined) descriptor.metadata = sortedKeys(rule.metadata);
  if (rule.lease !== undefined) descriptor.lease = leaseText(rule.lease);
  if (rule.reserve !== undefined) descriptor.reserve = toReserve(rule.reserve);
  return descriptor;
}

function toReserve({ ttlSeconds, estimate, onExpiry }: ReserveTerms): RateLimitReserve {
  const reserve = create(RateLimitReserveSchema, {
    ttlSeconds,
    onExpiry: expiries.indexOf(onExpiry) as RateLimitExpiry,
  });
  if (estimate !== undefined) reserve.estimate = BigInt(estimate);
  return reserve;
}

function toPolicy(limit: RateLimit): RateLimitPolicy {
  const policy = create(RateLimitPolicySchema);
  policy.unit = unitOf(limit);
  policy.requestsPerUnit = Math.min(limit.requestsPerUnit, maxUint32);
  policy.largeRequestsPerUnit = largePart(limit.requestsPerUnit);
  policy.unlimited = limit.unlimited;
  policy.name = limit.name;
  policy.replaces = limit.replaces.map((name) => create(RateLimitReplaceSchema, { name }));
  policy.unitMultiplier = limit.unitMultiplier === 1 ? 0 : limit.unitMultiplier;
  policy.algorithm = limit.algorithm;
  if (limit.burst !== undefined) policy.burst = Math.min(limit.burst, maxUint32);
  policy.largeBurst = largePart(limit.burst ?? 0);
  policy.hitsUnit = hitsUnits.indexOf(limit.hitsUnit) as RateLimitHitsUnit;
  policy.warnAt = [...limit.warnAt];
  const { calendar } = limit;
  if (calendar !== undefined) {
    const { timezone, startsOn } = calendar;
    policy.calendar = create(RateLimitCalendarSchema, { unit: policy.unit, timezone, startsOn });
  }
  return policy;
}

/** A number that 32 bits have no room for; else 0. */
export function largePart(number: number): bigint {
  return number > maxUint32 ? BigInt(number) : 0n;
}

/** `path` leads to what the rules are in; it is the same list for all of them. */
function toRules(
  descriptors: readonly RateLimitDescriptor[],
  path: (string | number)[],
  report: Report,
): Rule[] {
  const rules: Rule[] = [];
  path.push('descriptors', 0);
  for (let index = 0; index < descriptors.length; index++) {
    path[path.length - 1] = index;
    rules.push(toRule(descriptors[index]!, path, report));
  }
  path.length -= 2;
  return rules;
}

function toRule(descriptor: RateLimitDescriptor, path: (string | number)[], report: Report): Rule {
  const { key, value, metadata } = descriptor;
  const limits = toLimits(descriptor, path, report);
  const lease = toLease(descriptor.lease, path, report);
  const reserve = fromReserve(descriptor.reserve, path, report);
  const descriptors = toRules(descriptor.descriptors, path, report);
  const rule = makeRule({ key, value, lease, reserve, metadata, descriptors }, limits);
  for (const flag of ruleFlags) rule[flag] = descriptor[flag];
  return rule;
}

function toLease(text: string, path: readonly (string | number)[], report: Report): number | undefined {
  const lease = leaseFromText(text);
  if (lease === undefined && text !== '')
    report({ code: 'invalid-lease', text: unknownLease(text), path: [...path, 'lease'] });
  return lease;
}

type Report = (problem: ResourceProblem) => void;

function fromReserve(
  reserve: RateLimitReserve | undefined,
  path: readonly (string | number)[],
  report: Report,
): ReserveTerms | undefined {
  if (reserve === undefined) return undefined;
  const { ttlSeconds, estimate, onExpiry } = reserve;
  const below = [...path, 'reserve'];
  const written = {
    ttl: `${ttlSeconds}s`,
    estimate: estimate === undefined ? undefined : wholeOf(estimate, [...below, 'estimate'], report),
    onExpiry: expiries[onExpiry] ?? String(onExpiry),
  };
  return readReserve(written, (field, text) => {
    report({ code: 'invalid-reserve', text, path: [...below, field] });
  });
}

/** 0 for what is too large, which is reported. */
function wholeOf(number: bigint, path: readonly (string | number)[], report: Report): number {
  if (number <= mostRequests) return Number(number);
  const text = `${path.at(-1)} can be at most ${mostRequests} (2^53 - 1), found ${number}`;
  report({ code: 'wrong-type', text, path: [...path] });
  return 0;
}

/** Of a list that is not as it has to be nothing is kept. */
function toLimits(
  { rateLimit, rateLimits }: RateLimitDescriptor,
  path: readonly (string | number)[],
  report: Report,
): RateLimit[] {
  if (rateLimits.length === 0)
    return rateLimit === undefined ? [] : [toLimit(rateLimit, [...path, 'rate_limit'], report)];
  const text = listProblem(rateLimits.length, rateLimit !== undefined);
  if (text === undefined)
    return rateLimits.map((one, index) => toLimit(one, [...path, 'rate_limits', index], report));
  report({ code: 'invalid-limits', text, path: [...path, 'rate_limits'] });
  return [];
}

function toLimit(policy: RateLimitPolicy, path: readonly (string | number)[], report: Report): RateLimit {
  const { unit, requestsPerUnit, unlimited, name, replaces, unitMultiplier, algorithm, burst } = policy;
  const { largeRequestsPerUnit, largeBurst, warnAt } = policy;
  const whole = (field: string, large: bigint, small: number): number =>
    large === 0n ? small : wholeOf(large, [...path, field], report);
  return {
    ...makeLimit({}),
    unit: unlimited && unit === Unit.UNKNOWN ? '' : (unitName(unit) ?? String(unit)),
    unitMultiplier: unitMultiplier === 0 ? 1 : unitMultiplier,
    calendar: toCalendar(policy, path, report),
    requestsPerUnit: whole('requests_per_unit', largeRequestsPerUnit, requestsPerUnit),
    hitsUnit: toHitsUnit(policy, path, report),
    warnAt,
    algorithm: algorithm as number as Algorithm,
    burst: burst === undefined ? undefined : whole('burst', largeBurst, burst),
    unlimited,
    name,
    replaces: replaces.map((replaced) => replaced.name),
  };
}

function toHitsUnit(
  { hitsUnit }: RateLimitPolicy,
  path: readonly (string | number)[],
  report: Report,
): HitsUnit {
  const found = hitsUnits[hitsUnit];
  if (found === undefined)
    report({
      code: 'invalid-hits-unit',
      text: unknownHitsUnit(String(hitsUnit)),
      path: [...path, 'hits_unit'],
    });
  return found ?? 'requests';
}

/** Its unit has to be that of the limit, which limiters go by that do not know calendars. */
function toCalendar(
  { calendar, unit }: RateLimitPolicy,
  path: readonly (string | number)[],
  report: Report,
): Calendar | undefined {
  if (calendar === undefined) return undefined;
  const { timezone, startsOn } = calendar;
  const problem = (field: string, text: string): void =>
    report({ code: 'invalid-calendar', text, path: [...path, 'calendar', field] });
  if (calendar.unit !== unit) problem('unit', 'the unit of a calendar must be that of its limit');
  return readCalendar({ unit: unitName(calendar.unit), timezone, startsOn }, problem);
}

function sortedKeys(object: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.keys(object)
      .sort()
      .map((key) => [key, sortedValue(object[key] as JsonValue)]),
  );
}

function sortedValue(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sortedValue);
  return value !== null && typeof value === 'object' ? sortedKeys(value) : value;
}
