import { type Dirent, readdirSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { isSystemError, systemErrorCode, systemErrorReason } from '../../../process/log/error-text.ts';
import type { RuleError } from '../../../rules/rule-error.ts';
import { unplacedError } from '../config-source.ts';

/** The meaning of the settings: which files contain rules, and which path is watched. */
export interface FileLayout {
  /** The directory that is read, with its subdirectories. Config names are relative to it. */
  readDirectory: string;
  /** Only files whose config names begin with this text are read; empty: all files. */
  namePrefix: string;
  ignoreDotFiles: boolean;
  /** If false, a missing `readDirectory` means that there are no rules. */
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
  /** Rule files, sorted bytewise by config name. Wildcards of merged domains match in this order. */
  files: ListedFile[];
  /** Paths, by config name, of files that are not read because of their extension. Hidden files are left out. */
  others: ReadonlyMap<string, string>;
  errors: RuleError[];
  warnings: RuleError[];
  /** The paths of config names in errors and warnings. */
  reported: ReadonlyMap<RuleError, string>;
}

const ruleExtensions = ['.yaml', '.yml'];

/** Chosen: a larger directory tree does not contain rules, so the path is wrong. */
const maxEntries = 200_000;

/**
 * Lists the rule files: `*.yaml` and `*.yml`, also in subdirectories. Symbolic links to files are followed, and links to
 * directories are not. In a directory with a `..data` link, such as the mount of a Kubernetes ConfigMap, entries that begin with
 * `..` are skipped, because they hold the same files again. `directory` is the directory that the layout's path leads to now;
 * errors name the path of the layout. `extensions` replaces `.yaml` and `.yml`.
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

/** Returns the directories directly inside `directory` that are read, too. @throws the system's error */
export function directoriesIn(layout: FileLayout, directory: string): string[] {
  return readEntries(layout, readdirSync(directory, { withFileTypes: true }))
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(directory, entry.name));
}

/** Returns the entries of a directory that are not skipped. */
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
    if (stats.isDirectory()) this.#warn(name, path, 'symbolic link to a directory, skipped');
    else if (!name.startsWith(this.#layout.namePrefix)) return;
    else if (!this.#hasExtension(name)) {
      if (stats.isFile()) this.#passOver(name, path);
    } else if (!stats.isFile()) this.#warn(name, path, 'not a regular file, skipped');
    else this.files.push({ name, path, bytes: stats.size });
  }

  #passOver(name: string, path: string): void {
    // Config names have `.` in place of `/`, so two dots in a row mean a hidden file.
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

  /** Whether a subdirectory can hold files of the app directory, so that others are not walked. */
  #mayHoldRules(name: string): boolean {
    const { namePrefix } = this.#layout;
    return name.startsWith(namePrefix) || namePrefix.startsWith(`${name}.`);
  }
}

function compareBytewise(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
