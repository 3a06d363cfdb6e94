/**
 * Nothing of this process outlives it, however it ends. A shell in a session of its own waits for the end of a pipe that only
 * this process holds, so neither Ctrl-C nor SIGKILL keeps it from its work.
 */
import { type ChildProcess, spawn } from 'node:child_process';

/** Kills a child of this process, and deletes `folders`, when this process ends before the child does. */
export function endWithUs(child: ChildProcess, folders: readonly string[] = []): void {
  if (child.pid === undefined) return;
  const stop = atOurEnd('kill -9 "$0"; rm -rf -- "$@"', [String(child.pid), ...folders]);
  child.once('exit', stop);
}

/** Deletes the folder when this process ends before it has called what this returns. */
export function deleteWithUs(folder: string): () => void {
  return atOurEnd('rm -rf -- "$0"', [folder]);
}

function atOurEnd(script: string, args: readonly string[]): () => void {
  const guard = spawn('/bin/sh', ['-c', `read -r _; ${script}`, ...args], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  guard.on('error', () => {});
  guard.stdin.on('error', () => {});
  guard.unref();
  // Node has a socket for a pipe. It would keep this process alive.
  (guard.stdin as unknown as { unref(): void }).unref();
  return () => void guard.kill('SIGKILL');
}
