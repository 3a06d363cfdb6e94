import { loadAll, YAMLException } from 'js-yaml';
import type { RuleError, RuleErrorCode } from '../rule-error.ts';
import type { TextPlace } from '../yaml/line-index.ts';
import { kubectlSchema } from './kubectl-schema.ts';
import { type ManifestMetadata, type ManifestProblem, readMetadata } from './manifest-metadata.ts';
import { isObject } from './read-spec.ts';
import { apiVersion, group, kind, listKind } from './spec-model.ts';
import { ValuePlaces } from './value-places.ts';

/** One document of a file, as text, and the number of its first line, from 1. */
export interface DocumentText {
  text: string;
  firstLine: number;
}

/** Splits a file at lines of `---`, as kubectl does, so that a document that cannot be read spoils no other. */
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

/** A document's value; `empty` when it holds nothing but comments. */
export type YamlDocument =
  | { ok: true; value: unknown }
  | { ok: false; empty: true }
  | { ok: false; empty: false; text: string; line: number; column: number };

/** Reads the text of one document. Lines and columns count from 1. Never throws. */
export function readYamlDocument(text: string): YamlDocument {
  let values: unknown[];
  try {
    values = loadAll(text, { schema: kubectlSchema });
  } catch (error) {
    if (!(error instanceof YAMLException)) return unreadable(`yaml: ${error}`);
    return unreadable(`yaml: ${error.reason}`, error.mark);
  }
  const [value = null, ...others] = values;
  if (others.length > 0) return unreadable("documents must be separated by a line of '---'");
  if (value === null) return { ok: false, empty: true };
  if (!isExpansionBounded(value, 10 * text.length + 10_000)) {
    return unreadable('aliases make the document more than ten times as large as it is written');
  }
  return { ok: true, value };
}

function unreadable(
  text: string,
  mark: { line: number; column: number } = { line: 0, column: 0 },
): YamlDocument {
  return { ok: false, empty: false, text, line: mark.line + 1, column: mark.column + 1 };
}

/** Whether there are at most `limit` values when each alias counts as what it stands for. */
function isExpansionBounded(value: unknown, limit: number): boolean {
  const open: unknown[] = [value];
  for (let count = 0; count < limit; count++) {
    const next = open.pop();
    if (typeof next === 'object' && next !== null) {
      for (const member of Object.values(next)) open.push(member);
      if (open.length > limit) return false;
    }
    if (open.length === 0) return true;
  }
  return false;
}

/** A RateLimitConfig as a file has it. */
export interface Manifest {
  metadata: ManifestMetadata;
  /** As it was read, unchecked: for `readSpec`. */
  spec: unknown;
  /** Where it begins in the file, from 1. */
  line: number;
  /** Of the value at a path of the manifest (`['spec', 'domain']`), or of the map that lacks it. */
  placeOf(path: readonly (string | number)[]): TextPlace;
}

/** An object of another kind, which is none of this project's business. */
export interface SkippedDocument {
  /** `v1 ConfigMap`. */
  type: string;
  line: number;
  value: Readonly<Record<string, unknown>>;
}

export interface ManifestReading {
  manifests: Manifest[];
  /** With errors of their own, apart from their spec's: left out, and kept for what more is wrong with them. */
  refused: Manifest[];
  /** Of documents that are left out. */
  errors: RuleError[];
  skipped: SkippedDocument[];
}

/**
 * Reads the manifests of a file of YAML or JSON, of one document or several; lists are unpacked. A document with errors
 * is left out, the others are read.
 */
export function readManifests(text: string, fileName: string): ManifestReading {
  const reader = new ManifestReader(fileName);
  for (const document of documentTexts(text)) reader.read(document);
  return reader.reading;
}

const topLevelFields = new Set(['apiVersion', 'kind', 'metadata', 'spec', 'status']);

class ManifestReader {
  readonly reading: ManifestReading = { manifests: [], refused: [], errors: [], skipped: [] };
  readonly #fileName: string;

  constructor(fileName: string) {
    this.#fileName = fileName;
  }

  read(document: DocumentText): void {
    const yaml = readYamlDocument(document.text);
    if (yaml.ok) {
      this.#object(yaml.value, new ObjectPlaces(placesOf(document), []));
    } else if (!yaml.empty) {
      const { text, line, column } = yaml;
      this.#fail('syntax', { text, path: [] }, { line: line + document.firstLine - 1, column });
    }
  }

  #object(value: unknown, places: ObjectPlaces): void {
    if (!isObject(value)) {
      this.#fail(
        'wrong-type',
        { text: 'must be an object with apiVersion and kind', path: [] },
        places.placeOf([]),
      );
      return;
    }
    const { apiVersion: givenVersion, kind: givenKind } = value;
    const problems: ManifestProblem[] = [];
    for (const field of ['apiVersion', 'kind']) {
      if (typeof value[field] !== 'string' || value[field] === '') {
        problems.push({ path: [field], text: value[field] == null ? 'is required' : 'must be a string' });
      }
    }
    if (problems.length > 0) this.#failAll(problems, places);
    else this.#typed(value, { apiVersion: givenVersion as string, kind: givenKind as string }, places);
  }

  #typed(
    value: Record<string, unknown>,
    type: { apiVersion: string; kind: string },
    places: ObjectPlaces,
  ): void {
    const isOurs = type.apiVersion.startsWith(`${group}/`);
    if (type.kind === 'List' || (isOurs && type.kind === listKind)) {
      this.#items(value['items'], places);
    } else if (!isOurs) {
      const { line } = places.placeOf([]);
      this.reading.skipped.push({ type: `${type.apiVersion} ${type.kind}`, line, value });
    } else if (type.apiVersion !== apiVersion) {
      this.#failAll(
        [{ path: ['apiVersion'], text: `must be ${apiVersion}, found ${type.apiVersion}` }],
        places,
      );
    } else if (type.kind !== kind) {
      this.#failAll([{ path: ['kind'], text: `must be ${kind}, found ${type.kind}` }], places);
    } else {
      this.#config(value, places);
    }
  }

  #items(items: unknown, places: ObjectPlaces): void {
    if (items == null) return;
    if (!Array.isArray(items)) {
      this.#failAll([{ path: ['items'], text: 'must be a list' }], places);
      return;
    }
    for (const [index, item] of items.entries()) this.#object(item, places.below(['items', index]));
  }

  #config(value: Record<string, unknown>, places: ObjectPlaces): void {
    const problems: ManifestProblem[] = [];
    for (const field of Object.keys(value)) {
      if (!topLevelFields.has(field)) problems.push({ path: [field], text: 'unknown field' });
    }
    const metadata = readMetadata(value['metadata'], (problem) => problems.push(problem));
    this.#failAll(problems, places);
    const { spec } = value;
    const placeOf = (path: readonly (string | number)[]): TextPlace => places.placeOf(path);
    const manifest = { metadata, spec, line: placeOf([]).line, placeOf };
    (problems.length === 0 ? this.reading.manifests : this.reading.refused).push(manifest);
  }

  #failAll(problems: readonly ManifestProblem[], places: ObjectPlaces): void {
    for (const problem of problems) {
      const code = problem.text === 'unknown field' ? 'unknown-key' : 'wrong-type';
      this.#fail(code, problem, places.placeOf(problem.path));
    }
  }

  #fail(code: RuleErrorCode, { text, path }: ManifestProblem, place: TextPlace): void {
    this.reading.errors.push({ code, source: this.#fileName, text, path, ...place });
  }
}

/** Places of one object in a document: of the whole, or of an element of a list in it. */
class ObjectPlaces {
  readonly #places: () => ValuePlaces;
  readonly #base: readonly (string | number)[];

  constructor(places: () => ValuePlaces, base: readonly (string | number)[]) {
    this.#places = places;
    this.#base = base;
  }

  below(path: readonly (string | number)[]): ObjectPlaces {
    return new ObjectPlaces(this.#places, [...this.#base, ...path]);
  }

  placeOf(path: readonly (string | number)[]): TextPlace {
    return this.#places().placeOf([...this.#base, ...path]);
  }
}

/** Looks through a document at the first question, and once. */
function placesOf(document: DocumentText): () => ValuePlaces {
  let places: ValuePlaces | undefined;
  return () => {
    places ??= new ValuePlaces(document);
    return places;
  };
}
