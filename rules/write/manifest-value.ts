import { defaultClass, defaultFleet } from '../manifest/manifest-bounds.ts';
import { fieldName } from '../manifest/read-spec.ts';
import { apiVersion, enumName, kind } from '../manifest/spec-model.ts';
import type { JsonObject, JsonValue, RuleSource } from '../model.ts';
import { ruleFileValue } from './rule-file-value.ts';

/** What a manifest says beside its rules. */
export interface ManifestIdentity {
  name: string;
  /** Undefined: none is written, and whoever applies it chooses. */
  namespace: string | undefined;
  labels: Record<string, string>;
  fleet: string;
  /** Undefined: the usual one. */
  className?: string | undefined;
}

/** A source as a RateLimitConfig has it. Whether it fits into one is for `readSpec` to say. */
export function manifestValue(
  source: Pick<RuleSource, 'domain' | 'descriptors'>,
  { name, namespace, labels, fleet, className = defaultClass }: ManifestIdentity,
): JsonObject {
  const { domain, descriptors } = ruleFileValue(source);
  const metadata: JsonObject = { name };
  if (namespace !== undefined) metadata['namespace'] = namespace;
  if (Object.keys(labels).length > 0) metadata['labels'] = labels;
  const spec: JsonObject = className === defaultClass ? {} : { className };
  if (fleet !== defaultFleet) spec['fleet'] = fleet;
  spec['domain'] = domain!;
  if (descriptors !== undefined) spec['descriptors'] = (descriptors as JsonObject[]).map(camelCaseRule);
  return { apiVersion, kind, metadata, spec };
}

/** Metadata of rules is the owner's: its keys stay as they are. */
function camelCaseRule(rule: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(rule).map(([name, value]): [string, JsonValue] => {
      if (name === 'descriptors') return [name, (value as JsonObject[]).map(camelCaseRule)];
      if (name === 'rate_limit') return ['rateLimit', camelCase(value as JsonObject)];
      if (name === 'rate_limits') return ['rateLimits', (value as JsonObject[]).map(camelCase)];
      return [fieldName(name), name === 'reserve' ? camelCase(value as JsonObject) : value];
    }),
  );
}

const enums = ['algorithm', 'hits_unit', 'on_expiry'];

/** Of a limit, or what is in one, or in `reserve`. */
function camelCase(fields: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).map(([field, given]): [string, JsonValue] => {
      if (field === 'calendar') return [field, camelCase(given as JsonObject)];
      return [fieldName(field), enums.includes(field) ? enumName(String(given)) : given];
    }),
  );
}
