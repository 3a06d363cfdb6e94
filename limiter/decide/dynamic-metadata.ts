/** What RESPONSE_DYNAMIC_METADATA tells the proxy: the request, and the metadata of the rules that let it pass. */
import { type JsonObject, type JsonValue, Unit, unitName } from '../../rules/model.ts';
import { Code, type Descriptor, type DescriptorStatus, type RateLimitRequest } from './messages.ts';
import type { Plan } from './plan.ts';

/** Reference section 5, last point. */
export function dynamicMetadata(
  request: RateLimitRequest,
  plans: readonly Plan[],
  statuses: readonly DescriptorStatus[],
): JsonObject {
  const metadata: JsonObject = {
    domain: request.domain,
    descriptors: request.descriptors.map(descriptorMetadata),
  };
  if (request.hitsAddend !== 0) metadata['hitsAddend'] = request.hitsAddend;
  const merged = emptyObject();
  for (const [index, plan] of plans.entries()) {
    if (plan.kind !== 'limited' || plan.rule.metadata === undefined) continue;
    if (statuses[index]?.code !== Code.OVER_LIMIT) mergeMetadata(merged, plan.rule.metadata);
  }
  if (Object.keys(merged).length > 0) metadata['metadata'] = merged;
  return metadata;
}

function descriptorMetadata(descriptor: Descriptor): JsonObject {
  const metadata: JsonObject = { entries: descriptor.entries.map(({ key, value }) => `${key}=${value}`) };
  if (descriptor.limit !== undefined) metadata['limit'] = overrideText(descriptor.limit);
  if (descriptor.hitsAddend !== undefined) metadata['hitsAddend'] = descriptor.hitsAddend;
  return metadata;
}

/** The text form of protobuf, with single spaces: `requests_per_unit:10 unit:DAY`. */
function overrideText(limit: NonNullable<Descriptor['limit']>): string {
  const fields: string[] = [];
  if (limit.requestsPerUnit !== 0) fields.push(`requests_per_unit:${limit.requestsPerUnit}`);
  if (limit.unit !== 0) fields.push(`unit:${overrideUnitName(limit.unit)}`);
  return fields.join(' ');
}

/** The enum of overrides has no name for WEEK. */
function overrideUnitName(unit: number): string {
  return (unit === Unit.WEEK ? undefined : unitName(unit)) ?? String(unit);
}

/**
 * Adds what `target` has not: new keys, and inside of objects that both have. Any other clash keeps the first value.
 * Objects are copied, so that no later merge writes into the rules.
 */
export function mergeMetadata(target: JsonObject, source: JsonObject): void {
  for (const key of Object.keys(source)) {
    const value = source[key]!;
    const present = Object.hasOwn(target, key) ? target[key] : undefined;
    if (present === undefined) target[key] = copy(value);
    else if (isObject(present) && isObject(value)) mergeMetadata(present, value);
  }
}

function copy(value: JsonValue): JsonValue {
  if (!isObject(value)) return value;
  const object = emptyObject();
  mergeMetadata(object, value);
  return object;
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Without prototype: the keys are the users' and may be called `__proto__`. */
function emptyObject(): JsonObject {
  return Object.create(null) as JsonObject;
}
