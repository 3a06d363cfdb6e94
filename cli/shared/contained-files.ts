/**
 * Which files a command reads. Rules come from people who may open a pull request and see the log of its checks: a symbolic
 * link of theirs must not make a command print a file from elsewhere.
 */
import { realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, relative, sep } from 'node:path';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { type ParsedFlags, UsageError } from './flags.ts';

/** Of commands that read files. A comparison has two sides, which may need one each. */
export const rootFlag = { root: { type: 'string', multiple: true } } as const;

/** The folders of `--root`, with links resolved. @throws UsageError */
export function rootsOf(flags: ParsedFlags): string[] {
  return flags.list('root').map((folder) => {
    try {
      const real = realpathSync(folder);
      if (statSync(real).isDirectory()) return real;
    } catch (error) {
      throw new UsageError(`--root ${folder}: ${systemErrorReason(error)}`, { cause: error });
    }
    throw new UsageError(`--root ${folder}: is no folder`);
  });
}

/** Standard input, pipes of the shell and the empty file: anyone who writes the command line names these, not who writes rules. */
const streams = /^(?:-|\/dev\/(?:null|stdin|fd\/\d+)|\/proc\/(?:self|\d+)\/fd\/\d+)$/;

/** Whether a command may read what was named on its command line, and what lies in it. */
export class Containment {
  readonly #given: string;
  readonly #roots: readonly string[];
  readonly #isFolder: boolean;

  /** `given` is a file or a folder; `roots` are resolved, and empty without `--root`. */
  constructor(given: string, roots: readonly string[]) {
    this.#given = given;
    this.#roots = roots;
    this.#isFolder = statSync(given, { throwIfNoEntry: false })?.isDirectory() ?? false;
  }

  /** Why the argument itself must not be read. What is not there is a problem of anyone who reads it. */
  problem(): string | undefined {
    if (streams.test(this.#given)) return undefined;
    const real = realPath(this.#given);
    if (real === undefined || (this.#isFolder && this.#roots.length === 0)) return undefined;
    const roots = this.#roots.length === 0 ? [realPath(dirname(this.#given))] : this.#roots;
    if (roots.some((root) => root !== undefined && isWithin(root, real, this.#given))) return undefined;
    const where = this.#roots.length === 0 ? 'the folder that it lies in' : 'the folder of --root';
    return `leads out of ${where} by a symbolic link, or lies elsewhere, and is not read: give a --root that holds it`;
  }

  /** Why a file in the folder must not be read. */
  problemOf(file: string): string | undefined {
    const [real, folder] = [realPath(file), realPath(this.#given)];
    if (!this.#isFolder || real === undefined || folder === undefined) return undefined;
    if (isWithin(folder, real, relative(this.#given, file))) return undefined;
    return `is a symbolic link that leads out of ${this.#given}, and is not read: put the file itself there`;
  }
}

/** @throws UsageError that begins with `name` */
export function refuseOutside(name: string, path: string, roots: readonly string[]): void {
  const problem = new Containment(path, roots).problem();
  if (problem !== undefined) throw new UsageError(`${name}: ${problem}`);
}

/** `written` is how the file is named. What git keeps for itself, tokens among it, is not reached by a link from outside. */
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
    return realpathSync(path);
  } catch {
    return undefined;
  }
}
