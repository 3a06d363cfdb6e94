/** What Git has of a file, for comparisons that a rewritten file cannot escape. */
import { spawnSync } from 'node:child_process';

/** What branches begin from, the first that exists first. */
const mainBranches = ['origin/HEAD', 'origin/main', 'main'];

/**
 * The text of a file where this branch began. On the main branch: in HEAD if the file has changed since, and in the commit before otherwise.
 * `beforePush`: the last commit of the main branch before a push to it, which may be of several commits.
 */
export function committedText(root: string, file: string, beforePush?: string): string | undefined {
  const git = (...args: string[]): string | undefined => {
    // In a container the folder may belong to another user, and Git would read nothing.
    const trusted = ['-c', `safe.directory=${root}`, ...args];
    const { status, stdout } = spawnSync('git', trusted, {
      cwd: root,
      encoding: 'utf8',
      maxBuffer: 1 << 26,
    });
    return status === 0 ? stdout : undefined;
  };
  const head = git('rev-parse', 'HEAD')?.trim();
  if (head === undefined) return undefined;
  const starts = beforePush ? [...mainBranches, beforePush] : mainBranches;
  const begins = starts.map((branch) => git('merge-base', 'HEAD', branch)?.trim());
  const begin = begins.find((commit) => commit !== undefined && commit !== head);
  const isChanged = git('diff', '--quiet', 'HEAD', '--', file) === undefined;
  const before = isChanged ? head : git('rev-parse', '--verify', '--quiet', 'HEAD^1')?.trim();
  return git('show', `${begin ?? before ?? head}:./${file}`);
}
