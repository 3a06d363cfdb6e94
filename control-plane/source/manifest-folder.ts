import { constants } from 'node:fs';
import { open, readdir, readlink, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { isSystemError, systemErrorCode, systemErrorReason } from '../../process/log/error-text.ts';
import { defaultFleet, overrideKind } from '../../rules/language/kinds.ts';
import { readManifests, textKind } from '../../rules/reader/read-manifests.ts';
import { isTestFile, looksLikeRules, readRuleFiles } from '../../rules/reader/read-rule-files.ts';
import { formatManifestError, type RuleError } from '../../rules/rule-error.ts';
import { manifestValue, objectName } from '../../rules/write-rules.ts';
import { type ConfigObject, type ConfigStatus, objectKey, UnreadSpec } from '../model/config-object.ts';
import { hashOf } from '../model/fleet-snapshot.ts';
import { VersionedMap } from '../model/versioned-map.ts';

/** A file of manifests, or the reason why it cannot be read. */
type ManifestFile = TextFile | { name: string; unreadable: string };

interface TextFile {
  name: string;
  text: string;
}

/** Chosen: swaps are minutes apart, and a new reading follows each of them. */
const maxAttempts = 3;

/** A folder that cannot be listed. The message contains the reason, but not the folder's name. */
export class ManifestFolderError extends Error {
  override readonly name = 'ManifestFolderError';
}

/**
 * Reads the files `*.yaml`, `*.yml` and `*.json` directly in a folder, by name, as one version. A folder behind a link is
 * followed once. The reading starts again after a swap of a Kubernetes volume's `..data`, or if a listed file is gone. Names that
 * begin with a dot are skipped, because editors and Kubernetes volumes use them. Files beyond a total of `maxBytes` are
 * unreadable. Rejects with a ManifestFolderError.
 */
export async function readManifestFolder(folder: string, maxBytes: number): Promise<ManifestFile[]> {
  for (let attempt = 1; ; attempt++) {
    const { files, gone, isSwapped } = await readOnce(folder, maxBytes);
    if (gone.length === 0 && !isSwapped) return files;
    if (attempt < maxAttempts) continue;
    if (isSwapped) throw new ManifestFolderError(`changed while it was read, ${maxAttempts} times in a row`);
    return [...files, ...gone.map((name) => ({ name, unreadable: 'it is a symbolic link to no file' }))].sort(
      byName,
    );
  }
}

interface FolderReading {
  files: ManifestFile[];
  /** Names that were listed and no longer lead to a file. */
  gone: string[];
  isSwapped: boolean;
}

async function readOnce(folder: string, maxBytes: number): Promise<FolderReading> {
  try {
    const directory = await realpath(folder);
    const before = await volumeVersion(directory);
    const names = (await readdir(directory)).filter((name) => /^[^.].*\.(yaml|yml|json)$/.test(name)).sort();
    const { files, gone } = await readFiles(directory, names, maxBytes);
    return { files, gone, isSwapped: (await volumeVersion(directory)) !== before };
  } catch (error) {
    if (!isSystemError(error)) throw error;
    throw new ManifestFolderError(systemErrorReason(error), { cause: error });
  }
}

/** Returns the target of `..data`. Empty if there is none. */
function volumeVersion(directory: string): Promise<string> {
  return readlink(join(directory, '..data')).catch(() => '');
}

async function readFiles(
  directory: string,
  names: readonly string[],
  maxBytes: number,
): Promise<Pick<FolderReading, 'files' | 'gone'>> {
  const files: ManifestFile[] = [];
  const gone: string[] = [];
  let bytes = 0;
  for (const name of names) {
    const file = await readFile(join(directory, name), maxBytes - bytes);
    if (file === 'gone') gone.push(name);
    else if (file === 'too-large') {
      files.push({ name, unreadable: `the manifests up to this one have more than ${maxBytes} bytes` });
    } else if (file !== 'directory') {
      files.push({ name, ...file });
      if ('text' in file) bytes += Buffer.byteLength(file.text);
    }
  }
  return { files, gone };
}

function byName(a: ManifestFile, b: ManifestFile): number {
  return a.name < b.name ? -1 : 1;
}

type FileReading = { text: string } | { unreadable: string } | 'directory' | 'gone' | 'too-large';

async function readFile(path: string, maxBytes: number): Promise<FileReading> {
  try {
    // Opened without blocking, because opening a named pipe would wait for a writer.
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = await file.stat();
    if (stats.isDirectory()) return 'directory';
    if (!stats.isFile()) return { unreadable: 'not a regular file' };
    if (stats.size > maxBytes) return 'too-large';
    return { text: await file.readFile('utf8') };
  } catch (error) {
    if (!isSystemError(error)) throw error;
    return systemErrorCode(error) === 'ENOENT' ? 'gone' : { unreadable: systemErrorReason(error) };
  }
}

/** An object of a file. */
export interface FileManifest extends Pick<ConfigObject, 'kind'> {
  namespace: string;
  name: string;
  /** The last object that could be read. Undefined: there is none. */
  spec: unknown;
  /** The place, such as `limits.yaml:12`. */
  place: string;
  /** The problem of its file, which currently does not contain the object in readable form. Missing: none. */
  problem?: string;
}

export interface ManifestFileProblem {
  /** The place, such as `limits.yaml:12:3`, or the file's name alone. */
  place: string;
  text: string;
}

interface ReadFile {
  /** The fingerprint of the text that was read last, or the reason why there is none. */
  fingerprint: string;
  /** The last good manifests by `objectKey`. */
  lastGood: ReadonlyMap<string, FileManifest>;
  /** The manifests of `lastGood`, with the current problem of the file. */
  manifests: readonly FileManifest[];
  isWrong: boolean;
}

/**
 * The files of a folder: manifests, and rule files, each of which counts as an object of its domain. A file with errors retains its
 * earlier content, except for the parts that can be read. If it had no content, it counts as an object with the name of the file, so that
 * pages show the problem.
 */
export class ManifestFiles {
  /** The class of rule files, which do not specify one. */
  readonly #className: string;
  #files = new Map<string, ReadFile>();

  constructor(className: string) {
    this.#className = className;
  }

  /** Returns the manifests in the order of the files' names, and of their places. */
  get manifests(): FileManifest[] {
    return [...this.#files.values()].flatMap(({ manifests }) => manifests);
  }

  /** Adopts the current files and drops missing ones. Returns the problems of changed files, and of files that had problems. */
  update(files: readonly ManifestFile[]): { problems: ManifestFileProblem[]; corrected: string[] } {
    const problems: ManifestFileProblem[] = [];
    const corrected: string[] = [];
    const next = new Map<string, ReadFile>();
    for (const file of files) {
      const read = this.#read(file, problems);
      if (this.#files.get(file.name)?.isWrong && !read.isWrong) corrected.push(file.name);
      next.set(file.name, read);
    }
    this.#files = next;
    return { problems, corrected };
  }

  #read(file: ManifestFile, problems: ManifestFileProblem[]): ReadFile {
    const before = this.#files.get(file.name);
    const fingerprint = 'text' in file ? hashOf(file.text) : `unreadable ${file.unreadable}`;
    if (before?.fingerprint === fingerprint) return before;
    const lastGood = before?.lastGood ?? new Map<string, FileManifest>();
    const { found, errors, remedy, isForeign } = this.#content(file);
    const read = new Map<string, FileManifest>();
    const duplicates: ManifestFileProblem[] = [];
    for (const manifest of found) {
      const key = objectKey(manifest);
      const first = read.get(key);
      if (first === undefined) read.set(key, manifest);
      else duplicates.push(duplicate(manifest.place, key, first.place));
    }
    const meanwhile =
      lastGood.size === 0 ? 'none of its rules are in force' : 'its last accepted rules stay in force';
    const advice = remedy?.(meanwhile) ?? '';
    problems.push(...errors.map(({ place, text }) => ({ place, text: `${text}${advice}` })), ...duplicates);
    if (errors.length === 0) {
      return { fingerprint, lastGood: read, manifests: [...read.values()], isWrong: false };
    }
    const known = new Map([...lastGood, ...read]);
    const problem = errors.map(({ place, text }) => `${place}: ${text}`).join('; ');
    const manifests = [...known].map(([key, manifest]) =>
      read.has(key) ? manifest : { ...manifest, problem },
    );
    const isShown = known.size > read.size || isForeign;
    return {
      fingerprint,
      lastGood: known,
      manifests: isShown ? manifests : [...manifests, unreadFile(file.name, problem)],
      isWrong: true,
    };
  }

  #content(file: ManifestFile): FileContent {
    if (!('text' in file)) return { found: [], errors: [{ place: file.name, text: file.unreadable }] };
    return isRuleFile(file.text) ? readRuleFile(file, this.#className) : readManifestFile(file);
  }
}

/** Returns an object with the name of the file, because its content is unknown. */
function unreadFile(file: string, problem: string): FileManifest {
  return { namespace: defaultNamespace, name: file, spec: undefined, place: file, problem };
}

interface FileContent {
  found: FileManifest[];
  errors: ManifestFileProblem[];
  /** Returns what to do about the errors. `meanwhile` describes the rules in force. */
  remedy?: (meanwhile: string) => string;
  /** Whether the file belongs to another program. */
  isForeign?: boolean;
}

function readManifestFile({ name: file, text }: TextFile): FileContent {
  const { manifests, overrides, errors } = readManifests(text, file);
  const found = [
    ...manifests.map((manifest) => ({ ...manifest, kind: undefined })),
    ...overrides.map((manifest) => ({ ...manifest, kind: overrideKind })),
  ].map(({ kind, metadata: { namespace, name }, spec, line }) => {
    return { ...(kind && { kind }), namespace, name, spec, place: `${file}:${line}` };
  });
  return { found, errors: errors.map(problemOf) };
}

/** Returns whether the text is a rule file. A file with only comments is an empty file of manifests. */
function isRuleFile(text: string): boolean {
  return textKind(text) === 'rule-file' && /^\s*[^#\s-]/m.test(text);
}

/** The namespace of manifests that specify none. */
const defaultNamespace = 'default';

/** Returns one object with the name of its domain. Tests of rules are skipped. */
function readRuleFile(file: TextFile, className: string): FileContent {
  if (isTestFile(file.name, file.text)) return { found: [], errors: [] };
  const { sources, errors } = readRuleFiles([file], { mergeDomains: false });
  const [source] = sources;
  if (source !== undefined) {
    const name = objectName(source.domain);
    const { spec } = manifestValue(source, {
      name,
      namespace: undefined,
      labels: {},
      fleet: defaultFleet,
      className,
    });
    return { found: [{ namespace: defaultNamespace, name, spec, place: `${file.name}:1` }], errors: [] };
  }
  const isForeign =
    !looksLikeRules(file.text) &&
    !/^["']?descriptors["']?[ \t]*:/m.test(file.text) &&
    errors.every(({ code }) => code !== 'syntax');
  return isForeign
    ? { found: [], errors: [{ place: file.name, text: foreign }], isForeign }
    : { found: [], errors: errors.map(ruleProblemOf), remedy: ruleRemedy };
}

const ruleRemedy = (meanwhile: string) =>
  `; correct the file: ${meanwhile}, and "weir check" shows all errors`;

const foreign =
  'is neither a rule file (domain and descriptors) nor a manifest (apiVersion and kind): correct it, or move it out of the folder';

function ruleProblemOf(error: RuleError): ManifestFileProblem {
  const { place, text: lines } = problemOf({ ...error, path: [] });
  return { place, text: lines.replaceAll(/\s*\n\s*/g, ' ') };
}

/** Reports the second of two manifests of the same object. The first one counts. */
export function duplicate(place: string, key: string, firstPlace: string): ManifestFileProblem {
  const remedy = 'put its rules into that file, or change its domain (of a manifest: its name)';
  return { place, text: `${key} is already defined at ${firstPlace}; this file is ignored: ${remedy}` };
}

function problemOf(error: RuleError): ManifestFileProblem {
  const { source, line, column } = error;
  const place = line === undefined ? source : `${source}:${line}:${column ?? 1}`;
  return { place, text: formatManifestError(error) };
}

/**
 * Gives manifests the properties that the Kubernetes API gives its objects: a uid that never changes, a generation that grows with each
 * change of `spec`, and a status. After a start, all of them are the same for the same files.
 */
export class ManifestObjects {
  /** Objects by uid. */
  #objects = VersionedMap.of<ConfigObject>();
  /** The number of times that an object of this name was created. */
  readonly #lives = new Map<string, number>();
  /** Places by `objectKey`. */
  #places: ReadonlyMap<string, string> = new Map();
  #duplicates = new Set<string>();

  /** Objects by uid. */
  get objects(): VersionedMap<ConfigObject> {
    return this.#objects;
  }

  /** Returns the place of an object's manifest: `limits.yaml:12`. */
  placeOf(object: ConfigObject): string | undefined {
    return this.#places.get(objectKey(object));
  }

  /** Adopts the current manifests, the first of each name. Returns those that are newly left out. */
  update(manifests: readonly FileManifest[]): { hasChanged: boolean; problems: ManifestFileProblem[] } {
    const before = new Map([...this.#objects.values()].map((object) => [objectKey(object), object]));
    const places = new Map<string, string>();
    const duplicates = new Map<string, ManifestFileProblem>();
    // All objects that are not set below are gone.
    const next = new Map<string, ConfigObject | undefined>();
    for (const uid of this.#objects.keys()) next.set(uid, undefined);
    for (const manifest of manifests) {
      const key = objectKey(manifest);
      const firstPlace = places.get(key);
      if (firstPlace === undefined) {
        places.set(key, manifest.place);
        const object = this.#object(key, manifest, before.get(key));
        next.set(object.uid, object);
      } else {
        const problem = duplicate(manifest.place, key, firstPlace);
        duplicates.set(`${problem.place} ${problem.text}`, problem);
      }
    }
    this.#places = places;
    const objects = this.#objects.with(next);
    const hasChanged = objects !== this.#objects;
    this.#objects = objects;
    const known = this.#duplicates;
    this.#duplicates = new Set(duplicates.keys());
    return {
      hasChanged,
      problems: [...duplicates].filter(([text]) => !known.has(text)).map(([, problem]) => problem),
    };
  }

  /** Returns whether it changed anything. A status of a deleted object changes nothing. */
  setStatus(uid: string, status: ConfigStatus): boolean {
    const object = this.#objects.get(uid);
    if (object === undefined || isDeepStrictEqual(object.status, status)) return false;
    this.#objects = this.#objects.with(new Map([[uid, { ...object, status }]]));
    return true;
  }

  #object(
    key: string,
    { kind, namespace, name, spec: read, problem }: FileManifest,
    before: ConfigObject | undefined,
  ): ConfigObject {
    const spec = problem === undefined ? read : new UnreadSpec(problem);
    if (before === undefined) {
      const life = (this.#lives.get(key) ?? 0) + 1;
      this.#lives.set(key, life);
      const uid = hashOf(`${key} ${life}`);
      const identity = { ...(kind && { kind }), namespace, name, uid };
      return { ...identity, generation: 1, createdMs: 0, spec, status: undefined };
    }
    if (isDeepStrictEqual(before.spec, spec)) return before;
    return { ...before, generation: before.generation + 1, spec };
  }
}
