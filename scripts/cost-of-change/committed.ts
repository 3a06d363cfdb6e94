/** Reads files and the whole project from Git, for comparisons that a rewritten file cannot evade. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Branches from which other branches begin. The first one that exists counts. */
const mainBranches = ['origin/HEAD', 'origin/main', 'main'];

/** Runs Git in a folder. Returns undefined if Git fails. In a container the folder may belong to another user, which Git would reject. */
function gitIn(root: string): (...args: string[]) => string | undefined {
  return (...args) => {
    const trusted = ['-c', `safe.directory=${root}`, ...args];
    const { status, stdout } = spawnSync('git', trusted, {
      cwd: root,
      encoding: 'utf8',
      maxBuffer: 1 << 26,
    });
    return status === 0 ? stdout : undefined;
  };
}

/**
 * Returns the commit where this branch began. On the main branch, returns HEAD if the file has changed since, and otherwise the
 * commit before. `beforePush`: the last commit of the main branch before a push, which may contain several commits.
 */
export function baseCommit(root: string, file: string, beforePush?: string): string | undefined {
  const git = gitIn(root);
  const head = git('rev-parse', 'HEAD')?.trim();
  if (head === undefined) return undefined;
  const starts = beforePush ? [...mainBranches, beforePush] : mainBranches;
  const begins = starts.map((branch) => git('merge-base', 'HEAD', branch)?.trim());
  const begin = begins.find((commit) => commit !== undefined && commit !== head);
  const isChanged = git('diff', '--quiet', 'HEAD', '--', file) === undefined;
  const before = isChanged ? head : git('rev-parse', '--verify', '--quiet', 'HEAD^1')?.trim();
  return begin ?? before ?? head;
}

/** Returns the text of a file in `baseCommit`. */
export function committedText(root: string, file: string, beforePush?: string): string | undefined {
  const commit = baseCommit(root, file, beforePush);
  return commit === undefined ? undefined : gitIn(root)('show', `${commit}:./${file}`);
}

/** Writes the project of a commit to a temporary folder, which is removed when `use` returns. */
export function withCommit<T>(root: string, commit: string, use: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'weir-commit-'));
  try {
    const archive = join(folder, 'commit.tar');
    const trusted = ['-c', `safe.directory=${root}`];
    execFileSync('git', [...trusted, 'archive', '--format=tar', `--output=${archive}`, commit], {
      cwd: root,
    });
    execFileSync('tar', ['-xf', archive, '-C', folder]);
    rmSync(archive);
    return use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
