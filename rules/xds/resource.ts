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
import {
  emptyLimit,
  type JsonObject,
  type JsonValue,
  type RateLimit,
  type Rule,
  type RuleSource,
  Unit,
  unitFromText,
  unitName,
} from '../model.ts';

export const rateLimitConfigTypeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig';

/**
 * Messages inside messages. Chosen: YAML files may nest 400 levels, and one of metadata is three messages.
 */
const maxDepth = 1_500;

/** For sources that the validator passed: a unit that is none is lost. */
export function encodeResource(source: RuleSource): Uint8Array {
  return toBinary(RateLimitConfigSchema, toMessage(source));
}

/** Throws on bytes that are no such message. What the rules mean is not looked at. */
export function decodeResource(bytes: Uint8Array): RuleSource {
  const options = { readUnknownFields: false, recursionLimit: maxDepth };
  domainOfResource(bytes);
  return fromMessage(fromBinary(RateLimitConfigSchema, bytes, options));
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

export function fromMessage({ name, domain, descriptors }: RateLimitConfig): RuleSource {
  return { name, domain, descriptors: descriptors.map(toRule) };
}

function toDescriptor(rule: Rule): RateLimitDescriptor {
  const descriptor = create(RateLimitDescriptorSchema);
  descriptor.key = rule.key;
  descriptor.value = rule.value;
  const [limit, ...others] = rule.limits;
  if (others.length > 0) descriptor.rateLimits = rule.limits.map(toPolicy);
  else if (limit !== undefined) descriptor.rateLimit = toPolicy(limit);
  descriptor.descriptors = rule.descriptors.map(toDescriptor);
  descriptor.shadowMode = rule.shadowMode;
  descriptor.detailedMetric = rule.detailedMetric;
  descriptor.quotaMode = rule.quotaMode;
  if (rule.metadata !== undefined) descriptor.metadata = sortedKeys(rule.metadata);
  descriptor.valueToMetric = rule.valueToMetric;
  descriptor.shareThreshold = rule.shareThreshold;
  return descriptor;
}

function toPolicy(limit: RateLimit): RateLimitPolicy {
  const policy = create(RateLimitPolicySchema);
  policy.unit = unitFromText(limit.unit) ?? Unit.UNKNOWN;
  policy.requestsPerUnit = limit.requestsPerUnit;
  policy.unlimited = limit.unlimited;
  policy.name = limit.name;
  policy.replaces = limit.replaces.map((name) => create(RateLimitReplaceSchema, { name }));
  return policy;
}

function toRule(descriptor: RateLimitDescriptor): Rule {
  return {
    key: descriptor.key,
    value: descriptor.value,
    limits: descriptor.rateLimit === undefined ? [] : [toLimit(descriptor.rateLimit)],
    shadowMode: descriptor.shadowMode,
    quotaMode: descriptor.quotaMode,
    detailedMetric: descriptor.detailedMetric,
    valueToMetric: descriptor.valueToMetric,
    shareThreshold: descriptor.shareThreshold,
    metadata: descriptor.metadata,
    descriptors: descriptor.descriptors.map(toRule),
  };
}

function toLimit({ unit, requestsPerUnit, unlimited, name, replaces }: RateLimitPolicy): RateLimit {
  return {
    ...emptyLimit(),
    unit: unlimited && unit === Unit.UNKNOWN ? '' : (unitName(unit) ?? String(unit)),
    requestsPerUnit,
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
