/** Reports when rules or tests may have changed. Each folder that is searched for tests has one watch. */

import { fstatSync, globSync, readFileSync, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { DirectoryWatch } from '../../process/files/directory-watch.ts';
import { systemTimers } from '../../process/time/clock.ts';
import { textKind } from '../../rules/reader/read-manifests.ts';

/** Chosen: the interval at which a folder that was moved or restored is noticed. */
const lookEveryMs = 500;
/** Chosen: an editor saves in several steps. */
const settleMs = 50;

/** Packages and hidden folders have no tests of the user. */
export function isPassedOver(name: string): boolean {
  return name === 'node_modules' || (name.startsWith('.') && name.length > 1);
}

export class FolderWatch {
  readonly #changed: () => void;
  readonly #folders = new Map<string, DirectoryWatch>();
  #due: NodeJS.Timeout | undefined;
  #files: ReadonlySet<string> = new Set();

  constructor(changed: () => void) {
    this.#changed = changed;
  }

  /** Watches these folders and all folders below instead of the former ones. All `files` count, whatever their names are. */
  follow(roots: Iterable<string>, files: Iterable<string>): void {
    this.#files = new Set(Array.from(files, (file) => resolve(file)));
    const wanted = new Set(Array.from(roots, (root) => foldersBelow(resolve(root))).flat());
    for (const [folder, watch] of this.#folders) {
      if (wanted.has(folder)) continue;
      watch.close();
      this.#folders.delete(folder);
    }
    for (const folder of wanted)
      if (!this.#folders.has(folder)) this.#folders.set(folder, this.#open(folder));
  }

  close(): void {
    clearTimeout(this.#due);
    for (const watch of this.#folders.values()) watch.close();
  }

  #open(folder: string): DirectoryWatch {
    const watch = new DirectoryWatch({
      directory: folder,
      timers: systemTimers,
      checkIntervalMs: lookEveryMs,
      mayBeMissing: true,
      listener: {
        changed: (entry) => {
          if (entry === undefined || this.#matters(join(folder, entry))) this.#soon();
        },
        lost: () => this.#soon(),
        found: () => this.#soon(),
      },
    });
    watch.start();
    return watch;
  }

  #matters(path: string): boolean {
    if (isOutput(path)) return false;
    if (/\.ya?ml$/.test(path) || this.#files.has(path)) return true;
    if (path.endsWith('.json')) return !isOtherJson(path);
    return !isPassedOver(basename(path)) && isFolder(path) && !this.#folders.has(path);
  }

  #soon(): void {
    clearTimeout(this.#due);
    this.#due = setTimeout(this.#changed, settleMs);
  }
}

function foldersBelow(folder: string): string[] {
  const found = globSync('**/', { cwd: folder, exclude: isPassedOver });
  return [folder, ...found.map((path) => resolve(folder, path))];
}

/** Whether this process writes to the file, so that each run would start the next one. */
function isOutput(path: string): boolean {
  const file = statSync(path, { throwIfNoEntry: false });
  return [1, 2].some((descriptor) => {
    try {
      const { dev, ino } = fstatSync(descriptor);
      return file !== undefined && file.dev === dev && file.ino === ino;
    } catch {
      return false;
    }
  });
}

/** Whether a JSON file is neither a manifest nor a resource, for example the report of a run. */
function isOtherJson(path: string): boolean {
  try {
    return textKind(readFileSync(path, 'utf8')) === 'rule-file';
  } catch {
    // The file is gone and may have held rules.
    return false;
  }
}

export function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
