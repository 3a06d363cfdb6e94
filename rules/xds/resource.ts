/**
 * One source of rules as the bytes of a `ratelimit.config.ratelimit.v3.RateLimitConfig` and back. The same rules always
 * give the same bytes, because versions are hashes of them: fields in the order of their numbers, keys of metadata sorted.
 */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import {
  type RateLimitConfig,
  RateLimitConfigSchema,
  type RateLimitDescriptor,
  RateLimitDescriptorSchema,
  type RateLimitPolicy,
  RateLimitPolicySchema,
  RateLimitReplaceSchema,
} from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { leaseFromText, leaseText, unknownLease } from '../lease.ts';
import {
  type Algorithm,
  emptyLimit,
  type JsonObject,
  type JsonValue,
  type RateLimit,
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

export function fromMessage(
  { name, domain, descriptors }: RateLimitConfig,
  report: (problem: ResourceProblem) => void,
): RuleSource {
  return { name, domain, descriptors: toRules(descriptors, [], report) };
}

function toDescriptor(rule: Rule): RateLimitDescriptor {
  const descriptor = create(RateLimitDescriptorSchema);
  descriptor.key = rule.key;
  descriptor.value = rule.value;
  if (rule.limits.length > 1) descriptor.rateLimits = rule.limits.map(toPolicy);
  else if (rule.limits.length > 0) descriptor.rateLimit = toPolicy(rule.limits[0]!);
  descriptor.descriptors = rule.descriptors.map(toDescriptor);
  descriptor.shadowMode = rule.shadowMode;
  descriptor.detailedMetric = rule.detailedMetric;
  descriptor.quotaMode = rule.quotaMode;
  if (rule.metadata !== undefined) descriptor.metadata = sortedKeys(rule.metadata);
  descriptor.valueToMetric = rule.valueToMetric;
  descriptor.shareThreshold = rule.shareThreshold;
  descriptor.hideIdentity = rule.hideIdentity;
  if (rule.lease !== undefined) descriptor.lease = leaseText(rule.lease);
  return descriptor;
}

function toPolicy(limit: RateLimit): RateLimitPolicy {
  const policy = create(RateLimitPolicySchema);
  policy.unit = unitOf(limit);
  policy.requestsPerUnit = limit.requestsPerUnit;
  policy.unlimited = limit.unlimited;
  policy.name = limit.name;
  policy.replaces = limit.replaces.map((name) => create(RateLimitReplaceSchema, { name }));
  policy.unitMultiplier = limit.unitMultiplier === 1 ? 0 : limit.unitMultiplier;
  policy.algorithm = limit.algorithm;
  if (limit.burst !== undefined) policy.burst = limit.burst;
  return policy;
}

/** `path` leads to what the rules are in; it is the same list for all of them. */
function toRules(
  descriptors: readonly RateLimitDescriptor[],
  path: (string | number)[],
  report: (problem: ResourceProblem) => void,
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

function toRule(
  descriptor: RateLimitDescriptor,
  path: (string | number)[],
  report: (problem: ResourceProblem) => void,
): Rule {
  return {
    key: descriptor.key,
    value: descriptor.value,
    limits: toLimits(descriptor, path, report),
    shadowMode: descriptor.shadowMode,
    quotaMode: descriptor.quotaMode,
    detailedMetric: descriptor.detailedMetric,
    valueToMetric: descriptor.valueToMetric,
    shareThreshold: descriptor.shareThreshold,
    hideIdentity: descriptor.hideIdentity,
    lease: toLease(descriptor.lease, path, report),
    reserve: undefined,
    metadata: descriptor.metadata,
    descriptors: toRules(descriptor.descriptors, path, report),
  };
}

function toLease(
  text: string,
  path: readonly (string | number)[],
  report: (problem: ResourceProblem) => void,
): number | undefined {
  const lease = leaseFromText(text);
  if (lease === undefined && text !== '')
    report({ code: 'invalid-lease', text: unknownLease(text), path: [...path, 'lease'] });
  return lease;
}

/** Of a list that is not as it has to be nothing is kept. */
function toLimits(
  { rateLimit, rateLimits }: RateLimitDescriptor,
  path: readonly (string | number)[],
  report: (problem: ResourceProblem) => void,
): RateLimit[] {
  if (rateLimits.length === 0) return rateLimit === undefined ? [] : [toLimit(rateLimit)];
  const text = listProblem(rateLimits.length, rateLimit !== undefined);
  if (text === undefined) return rateLimits.map(toLimit);
  report({ code: 'invalid-limits', text, path: [...path, 'rate_limits'] });
  return [];
}

function toLimit(policy: RateLimitPolicy): RateLimit {
  const { unit, requestsPerUnit, unlimited, name, replaces, unitMultiplier, algorithm, burst } = policy;
  return {
    ...emptyLimit(),
    unit: unlimited && unit === Unit.UNKNOWN ? '' : (unitName(unit) ?? String(unit)),
    unitMultiplier: unitMultiplier === 0 ? 1 : unitMultiplier,
    requestsPerUnit,
    algorithm: algorithm as number as Algorithm,
    burst,
    unlimited,
    name,
    replaces: replaces.map((replaced) => replaced.name),
  };
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
