import type { RuleError } from '../rule-error.ts';

/** `spec.descriptors[0].key: descriptor has empty key`; the text alone for an error of the whole. */
export function formatManifestError({ path, text }: Pick<RuleError, 'path' | 'text'>): string {
  return path.length === 0 ? text : `${fieldPath(path)}: ${text}`;
}

/** A path as the API server writes it: `spec.descriptors[0].key`. */
export function fieldPath(path: readonly (string | number)[]): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (!/^[A-Za-z_][\w-]*$/.test(step)) text += `[${JSON.stringify(step)}]`;
    else text += text === '' ? step : `.${step}`;
  }
  return text;
}

/** What one object may hold. Chosen: far above what rules in use need, low enough that nothing gets out of hand. */
export const bounds = {
  /** Levels of `descriptors` below `spec`. Each adds to the CRD, because its schema knows no recursion. */
  descriptorLevels: 8,
  /** Rules of one level. An object of such size is near what etcd takes (1.5 MiB). */
  descriptorsPerLevel: 10_000,
  /** Of a DNS label. */
  fleetLength: 63,
  domainLength: 253,
  keyLength: 1024,
  valueLength: 4096,
  limitNameLength: 253,
  replaces: 64,
  /** Nested objects and lists of `metadata`. Limiters read at most 100 nested messages, and each takes up to three. */
  metadataLevels: 16,
} as const;

/** The fleet of limiters that name none. */
export const defaultFleet = 'default';

/** Lower case letters, digits and inner hyphens, as in a DNS label. */
export const dnsLabelPattern = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$';
/** Labels joined by dots: what the API server takes as the name of a custom object. */
export const dnsNamePattern = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$';
/** Of a name of an object. */
export const objectNameLength = 253;

/** Why a value cannot be the metadata of a rule: it is no JSON, or nested too deeply. Undefined when it can. */
export function jsonProblem(value: unknown, levelsLeft: number = bounds.metadataLevels): string | undefined {
  switch (typeof value) {
    case 'string':
    case 'number':
    case 'boolean':
      return undefined;
    case 'object':
      break;
    default:
      return `must hold JSON values only, found a ${typeof value}`;
  }
  if (value === null) return undefined;
  if (levelsLeft === 0) return `must nest objects and lists at most ${bounds.metadataLevels} levels deep`;
  for (const member of Object.values(value)) {
    const problem = jsonProblem(member, levelsLeft - 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
