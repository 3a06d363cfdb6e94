import { apiVersion, defaultClass, defaultFleet, kind } from '../manifest/kinds.ts';
import type { JsonObject, RuleSource } from '../model.ts';
import { manifestRuleValue } from './rule-file-value.ts';

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
  const { domain, descriptors } = source;
  const metadata: JsonObject = { name };
  if (namespace !== undefined) metadata['namespace'] = namespace;
  if (Object.keys(labels).length > 0) metadata['labels'] = labels;
  const spec: JsonObject = className === defaultClass ? {} : { className };
  if (fleet !== defaultFleet) spec['fleet'] = fleet;
  spec['domain'] = domain;
  if (descriptors.length > 0) spec['descriptors'] = descriptors.map(manifestRuleValue);
  return { apiVersion, kind, metadata, spec };
}
