/** Finds the other limiter of `npm run bench -- --beside`: a folder with a checkout, or a commit, which is checked out for the run. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, statSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * Returns the folder of the checkout. A commit is unpacked into `folder`, which the caller deletes, and uses the installed packages of
 * this checkout. Throws if `beside` is neither a folder nor a commit.
 */
export function besideCheckout(beside: string, folder: string): string {
  const given = resolve(beside);
  if (statSync(given, { throwIfNoEntry: false })?.isDirectory() === true) return given;
  const commit = commitOf(beside);
  if (commit === undefined) throw new Error(`--beside: ${beside} is neither a folder nor a commit`);
  const checkout = join(folder, commit);
  mkdirSync(checkout, { recursive: true });
  const archive = execFileSync('git', ['archive', commit], {
    cwd: root,
    maxBuffer: Number.POSITIVE_INFINITY,
  });
  execFileSync('tar', ['-x', '-C', checkout], { input: archive });
  symlinkSync(join(root, 'node_modules'), join(checkout, 'node_modules'));
  return checkout;
}

function commitOf(name: string): string | undefined {
  const git = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${name}^{commit}`];
  try {
    return execFileSync('git', git, {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return undefined;
  }
}
