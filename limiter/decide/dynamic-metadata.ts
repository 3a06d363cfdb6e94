/** Creates the dynamic metadata for the proxy (RESPONSE_DYNAMIC_METADATA), which filters after the rate limit filter read. */

import { unitOfHits } from '../../rules/describe.ts';
import type { MatchedRule } from '../../rules/match-result.ts';
import { isObject, type JsonObject, type JsonValue, Unit, unitName } from '../../rules/model.ts';
import { shownLimit, shownPath } from './extra-headers.ts';
import type { Plan } from './limit-plan.ts';
import { unmarkedOf } from './marker.ts';
import { Code, type Descriptor, type RateLimitRequest } from './messages.ts';
import { isQuota } from './plan.ts';
import type { DescriptorStatus } from './response-message.ts';

/** One plan and one status for each descriptor of the request. */
export interface DecidedRequest {
  readonly request: RateLimitRequest;
  readonly plans: readonly Plan[];
  readonly statuses: DescriptorStatus[];
}

/**
 * Returns the request, the metadata of the rules that let it pass, and the quotas that have something left. `quotaModeForAll`:
 * QUOTA_MODE.
 */
export function dynamicMetadata(decided: DecidedRequest, quotaModeForAll: boolean): JsonObject {
  const { request, plans, statuses } = decided;
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
  const quotas = quotasLeft(decided, quotaModeForAll);
  if (quotas !== undefined) metadata['quotas'] = quotas;
  return metadata;
}

/**
 * Returns the fallback group: the request's quotas that have something left, in the order of their rules. A proxy tries the first quota,
 * and the next one if that fails. Returns undefined if the request has no quotas.
 */
function quotasLeft(
  { request, plans, statuses }: DecidedRequest,
  quotaModeForAll: boolean,
): JsonObject[] | undefined {
  const indices = [...plans.keys()].filter((index) => isFallback(plans[index]!, quotaModeForAll));
  if (indices.length === 0) return undefined;
  return indices
    .filter((index) => hasLeft(request.descriptors[index]!, statuses[index]!, plans[index]!))
    .sort((one, other) => plans[one]!.rule!.order - plans[other]!.rule!.order)
    .map((index) => quotaMetadata(request.descriptors[index]!, statuses[index]!, plans[index]!.rule!));
}

/** Whether a plan belongs to the fallback group. A status without a limit is the last choice. */
function isFallback(plan: Plan, quotaModeForAll: boolean): boolean {
  if (plan.kind === 'limited') return isQuota(plan, quotaModeForAll);
  return plan.kind === 'unlimited' && plan.rule.quotaMode;
}

/** Whether something was left for these hits. A request with 0 hits asks whether something is left for the next request. */
function hasLeft(
  { hitsAddend }: Descriptor,
  { code, limitRemaining }: DescriptorStatus,
  plan: Plan,
): boolean {
  return code !== Code.OVER_LIMIT && (hitsAddend !== 0 || limitRemaining > 0 || plan.kind === 'unlimited');
}

/** Returns the metadata of a quota. It has numbers only if there is a limit whose counter could be counted. */
function quotaMetadata(descriptor: Descriptor, status: DescriptorStatus, rule: MatchedRule): JsonObject {
  const { plan, used = 0, limitRemaining, durationUntilResetSeconds = 0 } = status;
  const unmarked = rule.reserve === undefined ? undefined : unmarkedOf(descriptor.entries);
  const last = (unmarked ?? descriptor.entries).at(-1);
  const quota: JsonObject = { name: last?.value || last?.key || '' };
  const path = shownPath(rule);
  if (path !== undefined) quota['rule'] = path;
  if (plan !== undefined) {
    const { name, requestsPerUnit } = shownLimit(rule, plan.limit);
    if (name !== '') quota['name'] = name;
    quota['limit'] = requestsPerUnit;
    quota['unit'] = unitOfHits(plan.limit);
    quota['used'] = used;
    if (status.reserved !== undefined) quota['reserved'] = status.reserved;
    quota['left'] = limitRemaining;
    quota['reset'] = durationUntilResetSeconds;
  }
  if (rule.metadata !== undefined) quota['metadata'] = rule.metadata;
  return quota;
}

function descriptorMetadata(descriptor: Descriptor): JsonObject {
  const metadata: JsonObject = { entries: descriptor.entries.map(({ key, value }) => `${key}=${value}`) };
  if (descriptor.limit !== undefined) metadata['limit'] = overrideText(descriptor.limit);
  if (descriptor.hitsAddend !== undefined) metadata['hitsAddend'] = descriptor.hitsAddend;
  return metadata;
}

/** Returns the text form of protobuf, with single spaces: `requests_per_unit:10 unit:DAY`. */
function overrideText(limit: NonNullable<Descriptor['limit']>): string {
  const fields: string[] = [];
  if (limit.requestsPerUnit !== 0) fields.push(`requests_per_unit:${limit.requestsPerUnit}`);
  if (limit.unit !== 0) fields.push(`unit:${overrideUnitName(limit.unit)}`);
  if (limit.unitMultiplier !== undefined) {
    fields.push(`unit_multiplier:{${limit.unitMultiplier === 0 ? '' : `value:${limit.unitMultiplier}`}}`);
  }
  return fields.join(' ');
}

/** Returns the name of an override's unit. Their enum has no name for WEEK. */
function overrideUnitName(unit: number): string {
  return (unit === Unit.WEEK ? undefined : unitName(unit)) ?? String(unit);
}

/**
 * Adds the keys that `target` lacks, also within objects that both have. If both have a value, the value of `target` stays. Objects are
 * copied, so that no later merge writes into the rules.
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

/** Returns an object without a prototype: the keys come from users and may be `__proto__`. */
function emptyObject(): JsonObject {
  return Object.create(null) as JsonObject;
}
