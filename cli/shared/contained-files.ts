/**
 * Decides which files a command may read. Rules come from people who may open a pull request and see the log of its checks. A symbolic
 * link in it must not make a command print a file from elsewhere.
 */
import { realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, relative, sep } from 'node:path';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { type ParsedFlags, UsageError } from './flags.ts';

/** The folders of `--root`, with links resolved. @throws UsageError */
export function rootsOf(flags: ParsedFlags): string[] {
  return flags.list('root').map((folder) => {
    try {
      const real = realpathSync(folder);
      if (statSync(real).isDirectory()) return real;
    } catch (error) {
      throw new UsageError(`--root ${folder}: ${systemErrorReason(error)}`, { cause: error });
    }
    throw new UsageError(`--root ${folder} is not a folder`);
  });
}

/** Standard input, pipes of the shell and the empty file. Rules cannot name these, only the command line can. */
const streams = /^(?:-|\/dev\/(?:null|stdin|fd\/\d+)|\/proc\/(?:self|\d+)\/fd\/\d+)$/;

/** Decides whether a command may read an argument, and the files in it. */
export class Containment {
  readonly #given: string;
  readonly #roots: readonly string[];
  readonly #isFolder: boolean;
  /** The folder with links resolved. Undefined if it is a file or missing. */
  readonly #folder: string | undefined;

  /** `given` is a file or a folder; `roots` are resolved, and empty without `--root`. */
  constructor(given: string, roots: readonly string[]) {
    this.#given = given;
    this.#roots = roots;
    this.#isFolder = statSync(given, { throwIfNoEntry: false })?.isDirectory() ?? false;
    this.#folder = this.#isFolder ? realPath(given) : undefined;
  }

  /** Returns why the argument itself must not be read. A missing file is reported by the code that reads it. */
  problem(): string | undefined {
    if (streams.test(this.#given)) return undefined;
    const real = realPath(this.#given);
    if (real === undefined || (this.#isFolder && this.#roots.length === 0)) return undefined;
    const roots = this.#roots.length === 0 ? [realPath(dirname(this.#given))] : this.#roots;
    if (roots.some((root) => root !== undefined && isWithin(root, real, this.#given))) return undefined;
    const where = this.#roots.length === 0 ? 'the folder that contains it' : 'the folder of --root';
    return `leads out of ${where} by a symbolic link, or is elsewhere, so it is not read: give a --root that contains it`;
  }

  /** Returns why a file in the folder must not be read. */
  problemOf(file: string): string | undefined {
    const real = this.#folder === undefined ? undefined : realPath(file);
    if (this.#folder === undefined || real === undefined) return undefined;
    if (isWithin(this.#folder, real, relative(this.#given, file))) return undefined;
    return `is a symbolic link that leads out of ${this.#given}, so it is not read: put the file itself there`;
  }
}

/** @throws UsageError that begins with `name` */
export function rejectOutside(name: string, path: string, roots: readonly string[]): void {
  const problem = new Containment(path, roots).problem();
  if (problem !== undefined) throw new UsageError(`${name}: ${problem}`);
}

/** `written` is the name of the file as given. A link from outside cannot reach git's own files, which may hold tokens. */
function isWithin(root: string, real: string, written: string): boolean {
  const way = relative(root, real);
  if (way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way)) return false;
  return !hasGitFolder(way) || hasGitFolder(written);
}

function hasGitFolder(path: string): boolean {
  return path.split(sep).some((part) => part.toLowerCase() === '.git');
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
}
