import { type Dirent, readdirSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { isSystemError, systemErrorCode, systemErrorReason } from '../../../process/system-error.ts';
import type { RuleError } from '../../../rules/rule-error.ts';
import type { FileLayout } from './file-layout.ts';
import { fileProblem } from './file-problem.ts';

export interface ListedFile {
  /** The config name: the path relative to the directory read, with `.` for `/`. */
  name: string;
  path: string;
  bytes: number;
}

export interface FileListing {
  /** By config name, bytewise: the order in which wildcards of merged domains match. */
  files: ListedFile[];
  errors: RuleError[];
  warnings: RuleError[];
}

/** We chose it: a directory tree this large is not one of rules, but a wrong path. */
const maxEntries = 200_000;

/**
 * Lists the rule files: `*.yaml` and `*.yml`, in subdirectories as well. Symbolic links to files are followed, those
 * to directories are not. In a directory that has a `..data` link, as mounts of Kubernetes ConfigMaps do, entries
 * that begin with `..` are passed over: they hold the same files once more. `directory` is where the layout's leads to
 * now; errors name the latter.
 */
export function listRuleFiles(layout: FileLayout, directory: string = layout.readDirectory): FileListing {
  const lister = new Lister(layout);
  lister.listTop(directory);
  const { files, errors, warnings } = lister;
  files.sort((a, b) => compareBytewise(a.name, b.name) || compareBytewise(a.path, b.path));
  return { files, errors, warnings };
}

class Lister {
  readonly files: ListedFile[] = [];
  readonly errors: RuleError[] = [];
  readonly warnings: RuleError[] = [];
  readonly #layout: FileLayout;
  #entries = 0;

  constructor(layout: FileLayout) {
    this.#layout = layout;
  }

  listTop(directory: string): void {
    const { readDirectory, mustExist } = this.#layout;
    try {
      this.#list(directory, '');
    } catch (error) {
      if (!isSystemError(error)) throw error;
      const problem = fileProblem('unreadable', readDirectory, systemErrorReason(error));
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
        this.errors.push(fileProblem('too-large', this.#layout.readDirectory, text));
      }
      return;
    }
    const isConfigMap = entries.some((entry) => entry.name === '..data' && entry.isSymbolicLink());
    for (const entry of entries) {
      if (this.#layout.ignoreDotFiles && entry.name.startsWith('.')) continue;
      if (isConfigMap && entry.name.startsWith('..')) continue;
      this.#visit(entry, join(directory, entry.name), namePrefix + entry.name);
    }
  }

  #visit(entry: Dirent, path: string, name: string): void {
    const isDirectory = entry.isDirectory();
    const isLink = entry.isSymbolicLink();
    if (!isDirectory && !isLink && !hasRuleExtension(name)) return;
    if (!this.#mayHoldRules(name)) return;
    try {
      if (isDirectory) this.#list(path, `${name}.`);
      else this.#add(name, path, statSync(path));
    } catch (error) {
      if (!isSystemError(error)) throw error;
      if (!isDirectory && !hasRuleExtension(name)) return;
      const isGone = systemErrorCode(error) === 'ENOENT';
      if (isGone) this.#warn(name, isLink ? 'dangling symbolic link, skipped' : 'gone, skipped');
      else this.errors.push(fileProblem('unreadable', name, systemErrorReason(error)));
    }
  }

  #add(name: string, path: string, stats: Stats): void {
    if (stats.isDirectory()) this.#warn(name, 'symbolic link to a directory, which is not followed');
    else if (!hasRuleExtension(name) || !name.startsWith(this.#layout.namePrefix)) return;
    else if (!stats.isFile()) this.#warn(name, 'not a regular file, skipped');
    else this.files.push({ name, path, bytes: stats.size });
  }

  #warn(name: string, text: string): void {
    this.warnings.push(fileProblem('unreadable', name, text));
  }

  /** Spares the walk through everything beside the app directory. */
  #mayHoldRules(name: string): boolean {
    const { namePrefix } = this.#layout;
    return name.startsWith(namePrefix) || namePrefix.startsWith(`${name}.`);
  }
}

function hasRuleExtension(name: string): boolean {
  return name.endsWith('.yaml') || name.endsWith('.yml');
}

function compareBytewise(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
