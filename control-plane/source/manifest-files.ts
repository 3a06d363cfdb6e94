import { formatManifestError, readManifests } from '../../rules/manifest/index.ts';
import type { RuleError } from '../../rules/rule-error.ts';
import { objectKey } from '../model/config-object.ts';
import { hashOf } from '../model/fleet-snapshot.ts';
import type { ManifestFile } from './manifest-folder.ts';

/** A RateLimitConfig of a file. */
export interface FileManifest {
  namespace: string;
  name: string;
  spec: unknown;
  /** Where it stands: `limits.yaml:12`. */
  place: string;
}

export interface ManifestProblem {
  /** `limits.yaml:12:3`, or the file's name alone. */
  place: string;
  text: string;
}

interface ReadFile {
  /** Of the text that was read last, or why there is none. */
  fingerprint: string;
  /** By `namespace/name`. */
  manifests: ReadonlyMap<string, FileManifest>;
}

/** What the files of a folder say. A file with errors keeps what it said before, apart from what can be read of it. */
export class ManifestFiles {
  #files = new Map<string, ReadFile>();

  /** In the order of the files' names, and of their places. */
  get manifests(): FileManifest[] {
    return [...this.#files.values()].flatMap(({ manifests }) => [...manifests.values()]);
  }

  /** Takes the files that there are now; those that are missing are gone. Returns what is wrong with changed files. */
  update(files: readonly ManifestFile[]): ManifestProblem[] {
    const problems: ManifestProblem[] = [];
    const next = new Map<string, ReadFile>();
    for (const file of files) next.set(file.name, readFile(file, this.#files.get(file.name), problems));
    this.#files = next;
    return problems;
  }
}

function readFile(file: ManifestFile, before: ReadFile | undefined, problems: ManifestProblem[]): ReadFile {
  const fingerprint = 'text' in file ? hashOf(file.text) : `unreadable ${file.unreadable}`;
  if (before?.fingerprint === fingerprint) return before;
  const lastGood = before?.manifests ?? new Map<string, FileManifest>();
  if (!('text' in file)) {
    problems.push({ place: file.name, text: file.unreadable });
    return { fingerprint, manifests: lastGood };
  }
  const { manifests, errors } = readManifests(file.text, file.name);
  problems.push(...errors.map(problemOf));
  const read = new Map<string, FileManifest>();
  for (const { metadata, spec, line } of manifests) {
    const { namespace, name } = metadata;
    const place = `${file.name}:${line}`;
    const key = objectKey({ namespace, name });
    const first = read.get(key);
    if (first === undefined) read.set(key, { namespace, name, spec, place });
    else problems.push(duplicate(place, key, first.place));
  }
  return { fingerprint, manifests: errors.length === 0 ? read : new Map([...lastGood, ...read]) };
}

/** Of two manifests of one object the first one counts. */
export function duplicate(place: string, key: string, firstPlace: string): ManifestProblem {
  return { place, text: `${key} is already defined at ${firstPlace}; this one is left out` };
}

function problemOf(error: RuleError): ManifestProblem {
  const { source, line, column } = error;
  const place = line === undefined ? source : `${source}:${line}:${column ?? 1}`;
  return { place, text: formatManifestError(error) };
}
