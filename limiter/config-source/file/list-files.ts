import { type Dirent, readdirSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { isSystemError, systemErrorCode, systemErrorReason } from '../../../process/log/error-text.ts';
import type { RuleError } from '../../../rules/rule-error.ts';
import { unplacedError } from '../config-source.ts';

/** What the settings mean: which files are rules, and which path is watched. */
export interface FileLayout {
  /** Read with its subdirectories; config names are relative to it. */
  readDirectory: string;
  /** Only config names that begin with it are read; empty: all. */
  namePrefix: string;
  ignoreDotFiles: boolean;
  /** False: a missing `readDirectory` means no rules. */
  mustExist: boolean;
  watch: { kind: 'root' | 'directory'; path: string };
}

export interface ListedFile {
  /** The config name: the path relative to the directory read, with `.` for `/`. */
  name: string;
  path: string;
  bytes: number;
}

export interface FileListing {
  /** By config name, bytewise: the order in which wildcards of merged domains match. */
  files: ListedFile[];
  /** Files of other names, which are not read: their paths by config name. Hidden ones are not among them. */
  others: ReadonlyMap<string, string>;
  errors: RuleError[];
  warnings: RuleError[];
  /** The paths of what errors and warnings name by config name. */
  reported: ReadonlyMap<RuleError, string>;
}

const ruleExtensions = ['.yaml', '.yml'];

/** Chosen: a directory tree this large is not one of rules, but a wrong path. */
const maxEntries = 200_000;

/**
 * Lists the rule files: `*.yaml` and `*.yml`, in subdirectories as well. Symbolic links to files are followed, those
 * to directories are not. In a directory that has a `..data` link, as mounts of Kubernetes ConfigMaps do, entries
 * that begin with `..` are passed over: they hold the same files once more. `directory` is where the layout's leads to
 * now; errors name the latter. `extensions`: other names than those.
 */
export function listRuleFiles(
  layout: FileLayout,
  directory: string = layout.readDirectory,
  extensions: readonly string[] = ruleExtensions,
): FileListing {
  const lister = new Lister(layout, extensions);
  lister.listTop(directory);
  const { files, others, errors, warnings, reported } = lister;
  files.sort((a, b) => compareBytewise(a.name, b.name) || compareBytewise(a.path, b.path));
  return { files, others, errors, warnings, reported };
}

/** The directories directly inside `directory` that are read, too. Throws the system's error. */
export function directoriesIn(layout: FileLayout, directory: string): string[] {
  return readEntries(layout, readdirSync(directory, { withFileTypes: true }))
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(directory, entry.name));
}

/** Those of a directory's entries that are not passed over. */
function readEntries({ ignoreDotFiles }: FileLayout, entries: readonly Dirent[]): Dirent[] {
  const isConfigMap = entries.some((entry) => entry.name === '..data' && entry.isSymbolicLink());
  const passedOver = ignoreDotFiles ? '.' : '..';
  if (!ignoreDotFiles && !isConfigMap) return [...entries];
  return entries.filter((entry) => !entry.name.startsWith(passedOver));
}

class Lister {
  readonly files: ListedFile[] = [];
  readonly others = new Map<string, string>();
  readonly errors: RuleError[] = [];
  readonly warnings: RuleError[] = [];
  readonly reported = new Map<RuleError, string>();
  readonly #layout: FileLayout;
  readonly #extensions: readonly string[];
  #entries = 0;

  constructor(layout: FileLayout, extensions: readonly string[]) {
    this.#layout = layout;
    this.#extensions = extensions;
  }

  listTop(directory: string): void {
    const { readDirectory, mustExist } = this.#layout;
    try {
      this.#list(directory, '');
    } catch (error) {
      if (!isSystemError(error)) throw error;
      const problem = unplacedError('unreadable', readDirectory, systemErrorReason(error));
      const isOnlyMissing = systemErrorCode(error) === 'ENOENT' && !mustExist;
      (isOnlyMissing ? this.warnings : this.errors).push(problem);
    }
  }

  #list(directory: string, namePrefix: string): void {
    const entries = readdirSync(directory, { withFileTypes: true });
    this.#entries += entries.length;
    if (this.#entries > maxEntries) {
      if (this.errors.length === 0) {
        const text = `more than ${maxEntries} directory entries: not a directory of rules`;
        this.errors.push(unplacedError('too-large', this.#layout.readDirectory, text));
      }
      return;
    }
    for (const entry of readEntries(this.#layout, entries)) {
      this.#visit(entry, join(directory, entry.name), namePrefix + entry.name);
    }
  }

  #visit(entry: Dirent, path: string, name: string): void {
    const isDirectory = entry.isDirectory();
    const isLink = entry.isSymbolicLink();
    if (!this.#mayHoldRules(name)) return;
    if (!isDirectory && !isLink && !this.#hasExtension(name)) {
      if (entry.isFile()) this.#passOver(name, path);
      return;
    }
    try {
      if (isDirectory) this.#list(path, `${name}.`);
      else this.#add(name, path, statSync(path));
    } catch (error) {
      if (!isSystemError(error)) throw error;
      if (!isDirectory && !this.#hasExtension(name)) return;
      const isGone = systemErrorCode(error) === 'ENOENT';
      if (isGone) this.#warn(name, path, isLink ? 'dangling symbolic link, skipped' : 'gone, skipped');
      else this.#report(this.errors, name, path, systemErrorReason(error));
    }
  }

  #add(name: string, path: string, stats: Stats): void {
    if (stats.isDirectory()) this.#warn(name, path, 'symbolic link to a directory, which is not followed');
    else if (!name.startsWith(this.#layout.namePrefix)) return;
    else if (!this.#hasExtension(name)) {
      if (stats.isFile()) this.#passOver(name, path);
    } else if (!stats.isFile()) this.#warn(name, path, 'not a regular file, skipped');
    else this.files.push({ name, path, bytes: stats.size });
  }

  #passOver(name: string, path: string): void {
    // In a name that has `.` for `/`, what begins with a dot follows one.
    if (name.startsWith('.') || name.includes('..')) return;
    if (name.startsWith(this.#layout.namePrefix)) this.others.set(name, path);
  }

  #warn(name: string, path: string, text: string): void {
    this.#report(this.warnings, name, path, text);
  }

  #report(list: RuleError[], name: string, path: string, text: string): void {
    const error = unplacedError('unreadable', name, text);
    this.reported.set(error, path);
    list.push(error);
  }

  #hasExtension(name: string): boolean {
    return this.#extensions.some((extension) => name.endsWith(extension));
  }

  /** Spares the walk through everything beside the app directory. */
  #mayHoldRules(name: string): boolean {
    const { namePrefix } = this.#layout;
    return name.startsWith(namePrefix) || namePrefix.startsWith(`${name}.`);
  }
}

function compareBytewise(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
