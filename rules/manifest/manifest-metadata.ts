import { bounds, dnsLabelPattern, dnsNamePattern, objectNameLength } from './manifest-bounds.ts';
import { isObject } from './read-spec.ts';

export interface ManifestMetadata {
  name: string;
  /** `default` where none is written. */
  namespace: string;
  labels: Record<string, string>;
}

/** Something wrong with a manifest apart from its spec. */
export interface ManifestProblem {
  text: string;
  path: (string | number)[];
}

const namePattern = new RegExp(dnsNamePattern);
const labelPattern = new RegExp(dnsLabelPattern);

/** Why the API server would refuse an object of that name. */
export function objectNameProblem(name: unknown): string | undefined {
  if (typeof name === 'string' && name.length <= objectNameLength && namePattern.test(name)) return undefined;
  const rule = `lower case letters, digits, '-' and '.', at most ${objectNameLength} characters`;
  return `must be a DNS name (${rule}), found ${printed(name)}`;
}

/** Why there can be no such namespace. */
export function namespaceProblem(space: unknown): string | undefined {
  if (typeof space === 'string' && space.length <= bounds.fleetLength && labelPattern.test(space))
    return undefined;
  const rule = `lower case letters, digits and '-', at most ${bounds.fleetLength} characters`;
  return `must be a DNS label (${rule}), found ${printed(space)}`;
}

/** Reads `metadata` as far as this project uses it; refuses names that the API server would. */
export function readMetadata(
  metadata: unknown,
  report: (problem: ManifestProblem) => void,
): ManifestMetadata {
  const given = isObject(metadata) ? metadata : {};
  const { name, namespace = 'default' } = given;
  if (name == null) {
    report({ path: ['metadata', 'name'], text: 'is required' });
  } else {
    const text = objectNameProblem(name);
    if (text !== undefined) report({ path: ['metadata', 'name'], text });
  }
  const space = namespace ?? 'default';
  const text = namespaceProblem(space);
  if (text !== undefined) report({ path: ['metadata', 'namespace'], text });
  return { name: String(name), namespace: String(space), labels: labelsOf(given['labels'], report) };
}

function labelsOf(labels: unknown, report: (problem: ManifestProblem) => void): Record<string, string> {
  if (labels == null) return {};
  if (!isObject(labels)) {
    report({ path: ['metadata', 'labels'], text: 'must be an object' });
    return {};
  }
  const entries: [string, string][] = [];
  for (const [label, value] of Object.entries(labels)) {
    if (typeof value === 'string') entries.push([label, value]);
    else report({ path: ['metadata', 'labels', label], text: `must be a string, found ${printed(value)}` });
  }
  return Object.fromEntries(entries);
}

function printed(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}
