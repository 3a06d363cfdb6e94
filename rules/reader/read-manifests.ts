import {
  apiVersion,
  dnsLabelLength,
  dnsLabelPattern,
  dnsNamePattern,
  fleetKind,
  group,
  kind,
  listKind,
  objectNameLength,
  overrideKind,
} from '../language/kinds.ts';
import { isObject } from '../model.ts';
import { quoted, type RuleError, type RuleErrorCode, type ValueProblem } from '../rule-error.ts';
import { readDocument } from '../yaml/document.ts';
import { LineIndex, type TextPlace, valuePlacer } from '../yaml/places.ts';
import type { YamlTape } from '../yaml/tape.ts';

/** The text of one document of a file, and the number of its first line, from 1. */
export interface DocumentText {
  text: string;
  firstLine: number;
}

/** Splits a file at lines of `---`, as kubectl does, so that a document that cannot be read does not affect the others. */
export function documentTexts(text: string): DocumentText[] {
  const documents: DocumentText[] = [];
  const lines = text.split(/(?<=\r\n|\n|\r(?!\n))/);
  let document: DocumentText = { text: '', firstLine: 1 };
  for (const [index, line] of lines.entries()) {
    if (/^---(?:\s|$)/.test(line)) {
      documents.push(document);
      document = { text: '', firstLine: index + 1 };
    }
    document.text += line;
  }
  documents.push(document);
  return documents;
}

/** The value of a document, or `empty` if it contains only comments. */
export type ManifestDocument =
  | { ok: true; value: unknown; tape: YamlTape }
  | { ok: false; empty: true }
  | { ok: false; empty: false; text: string; line: number; column: number };

/**
 * Reads the text of one document. Scalars have the types that kubectl gives them: `y` and `off` are booleans, 010 is 8, dates are
 * texts. Lines and columns count from 1. Never throws.
 */
export function readManifestDocument(text: string): ManifestDocument {
  const document = readDocument(text, 'typed');
  if (!('tape' in document)) {
    const place = new LineIndex(text).placeOf(document.offset);
    return { ok: false, empty: false, text: `yaml: ${document.text}`, ...place };
  }
  const { value, tape, hasMore } = document;
  if (hasMore) {
    const problem = "documents must be separated by a line of '---'";
    return { ok: false, empty: false, text: problem, line: 1, column: 1 };
  }
  return value === null ? { ok: false, empty: true } : { ok: true, value, tape };
}

/** A RateLimitConfig or RateLimitOverride as it is written in a file. */
export interface Manifest {
  metadata: ManifestMetadata;
  /** The unchecked spec, for `readSpec`, or for `readOverride` if the object is an override. */
  spec: unknown;
  /** The line where it begins in the file, from 1. */
  line: number;
  /** Returns the place of the value at a path of the manifest (`['spec', 'domain']`), or of the map that lacks it. */
  placeOf(path: readonly (string | number)[]): TextPlace;
}

/** An object without rules: an object of another kind, or a RateLimitFleet. */
export interface SkippedDocument {
  /** The type, such as `v1 ConfigMap`. */
  type: string;
  line: number;
  value: Readonly<Record<string, unknown>>;
}

export interface ManifestReading {
  manifests: Manifest[];
  /** Manifests of RateLimitOverrides. */
  overrides: Manifest[];
  /** Manifests with errors outside their spec. They are left out, but their specs are still checked. */
  rejected: Manifest[];
  /** Errors of documents that are left out. */
  errors: RuleError[];
  skipped: SkippedDocument[];
}

/**
 * Reads the manifests of a YAML or JSON file with one or more documents. Lists are unpacked. A document with errors is left out, and the
 * others are read.
 */
export function readManifests(text: string, fileName: string): ManifestReading {
  const reader = new ManifestReader(fileName);
  for (const document of documentTexts(text)) reader.read(document);
  return reader.reading;
}

const topLevelFields = new Set(['apiVersion', 'kind', 'metadata', 'spec', 'status']);

class ManifestReader {
  readonly reading: ManifestReading = {
    manifests: [],
    overrides: [],
    rejected: [],
    errors: [],
    skipped: [],
  };
  readonly #fileName: string;

  constructor(fileName: string) {
    this.#fileName = fileName;
  }

  read(document: DocumentText): void {
    const yaml = readManifestDocument(document.text);
    if (yaml.ok) {
      this.#object(yaml.value, valuePlacer(yaml.tape, document.firstLine));
    } else if (!yaml.empty) {
      const { text, line, column } = yaml;
      this.#fail('syntax', { text, path: [] }, { line: line + document.firstLine - 1, column });
    }
  }

  #object(value: unknown, placeOf: Manifest['placeOf']): void {
    if (!isObject(value)) {
      this.#fail('wrong-type', { text: 'must be an object with apiVersion and kind', path: [] }, placeOf([]));
      return;
    }
    const problems = ['apiVersion', 'kind']
      .filter((field) => typeof value[field] !== 'string' || value[field] === '')
      .map((field) => ({ path: [field], text: value[field] == null ? 'is required' : 'must be a string' }));
    if (problems.length > 0) this.#failAll(problems, placeOf);
    else this.#typed(value, placeOf);
  }

  #typed(value: Record<string, unknown>, placeOf: Manifest['placeOf']): void {
    const type = { apiVersion: String(value['apiVersion']), kind: String(value['kind']) };
    const isOurs = type.apiVersion.startsWith(`${group}/`);
    if (type.kind === 'List' || (isOurs && [listKind, `${overrideKind}List`].includes(type.kind))) {
      this.#items(value['items'], placeOf);
    } else if (!isOurs || (type.apiVersion === apiVersion && type.kind === fleetKind)) {
      const { line } = placeOf([]);
      this.reading.skipped.push({ type: `${type.apiVersion} ${type.kind}`, line, value });
    } else if (type.apiVersion !== apiVersion) {
      this.#failAll(
        [{ path: ['apiVersion'], text: `must be ${apiVersion}, found ${type.apiVersion}` }],
        placeOf,
      );
    } else if (type.kind !== kind && type.kind !== overrideKind) {
      const text = `must be ${kind} or ${overrideKind}, found ${type.kind}`;
      this.#failAll([{ path: ['kind'], text }], placeOf);
    } else {
      this.#own(value, type.kind === kind ? this.reading.manifests : this.reading.overrides, placeOf);
    }
  }

  #items(items: unknown, placeOf: Manifest['placeOf']): void {
    if (items == null) return;
    if (!Array.isArray(items)) {
      this.#failAll([{ path: ['items'], text: 'must be a list' }], placeOf);
      return;
    }
    for (const [index, item] of items.entries()) {
      this.#object(item, (path) => placeOf(['items', index, ...path]));
    }
  }

  #own(value: Record<string, unknown>, read: Manifest[], placeOf: Manifest['placeOf']): void {
    const problems: ValueProblem[] = [];
    for (const field of Object.keys(value)) {
      if (!topLevelFields.has(field)) problems.push({ path: [field], text: 'unknown field' });
    }
    const metadata = readMetadata(value['metadata'], (problem) => problems.push(problem));
    this.#failAll(problems, placeOf);
    const { spec } = value;
    const manifest = { metadata, spec, line: placeOf([]).line, placeOf };
    (problems.length === 0 ? read : this.reading.rejected).push(manifest);
  }

  #failAll(problems: readonly ValueProblem[], placeOf: Manifest['placeOf']): void {
    for (const problem of problems) {
      const code = problem.text === 'unknown field' ? 'unknown-key' : 'wrong-type';
      this.#fail(code, problem, placeOf(problem.path));
    }
  }

  #fail(code: RuleErrorCode, { text, path }: ValueProblem, place: TextPlace): void {
    this.reading.errors.push({ code, source: this.#fileName, text, path, ...place });
  }
}

export interface ManifestMetadata {
  name: string;
  /** The namespace; `default` if none is written. */
  namespace: string;
  labels: Record<string, string>;
}

const namePattern = new RegExp(dnsNamePattern);
const labelPattern = new RegExp(dnsLabelPattern);

/** Returns the reason why the API server would reject an object with this name. */
export function objectNameProblem(name: unknown): string | undefined {
  if (typeof name === 'string' && name.length <= objectNameLength && namePattern.test(name)) return undefined;
  const rule = `lower case letters, digits, '-' and '.', at most ${objectNameLength} characters`;
  return `must be a DNS name (${rule}), found ${quoted(name)}`;
}

/** Returns the reason why such a namespace cannot exist. */
export function namespaceProblem(space: unknown): string | undefined {
  if (typeof space === 'string' && space.length <= dnsLabelLength && labelPattern.test(space))
    return undefined;
  const rule = `lower case letters, digits and '-', at most ${dnsLabelLength} characters`;
  return `must be a DNS label (${rule}), found ${quoted(space)}`;
}

/** Reads the fields of `metadata` that this project uses. Rejects names that the API server would reject. */
export function readMetadata(metadata: unknown, report: (problem: ValueProblem) => void): ManifestMetadata {
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

function labelsOf(labels: unknown, report: (problem: ValueProblem) => void): Record<string, string> {
  if (labels == null) return {};
  if (!isObject(labels)) {
    report({ path: ['metadata', 'labels'], text: 'must be an object' });
    return {};
  }
  const entries: [string, string][] = [];
  for (const [label, value] of Object.entries(labels)) {
    if (typeof value === 'string') entries.push([label, value]);
    else report({ path: ['metadata', 'labels', label], text: `must be a string, found ${quoted(value)}` });
  }
  return Object.fromEntries(entries);
}
/**
 * The three forms in which rules are written. A text's form is determined before the text is read, so that its mistakes are reported in
 * that form.
 */
export type TextKind = 'rule-file' | 'manifests' | 'resources';

const objectField = /^["']?(?:apiVersion|kind)["']?[ \t]*:/m;
const objectFieldInJson = /"(?:apiVersion|kind)"\s*:/;
const resourceFieldInJson = /"(?:@type|typeUrl|type_url|resources)"\s*:/;

/**
 * Returns `manifests` for Kubernetes objects of any kind, `resources` for JSON of xDS (a resource with its `@type`, or a
 * discovery response), and `rule-file` for all other texts.
 */
export function textKind(text: string): TextKind {
  if (!/^\uFEFF?\s*[{[]/.test(text)) return objectField.test(text) ? 'manifests' : 'rule-file';
  if (objectFieldInJson.test(text)) return 'manifests';
  return resourceFieldInJson.test(text) ? 'resources' : 'rule-file';
}
