/**
 * No program and no folder outlives the process that registers it here, however that process ends. A shell in its own session waits for
 * the end of a pipe that only this process holds. Therefore neither Ctrl-C nor SIGKILL prevents its work.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Writable } from 'node:stream';

/** Reads lines of a number, what to do at the end with this number, and with what. `nothing` replaces an earlier line. */
const script = `
last=0
while read -r number what target; do
  eval "what_$number=\\$what target_$number=\\$target"
  if [ "$number" -gt "$last" ]; then last=$number; fi
done
for wanted in kill delete; do
  number=0
  while [ "$number" -lt "$last" ]; do
    number=$((number + 1))
    eval "what=\\$what_$number target=\\$target_$number"
    if [ "$what" != "$wanted" ]; then continue; fi
    if [ "$what" = kill ]; then kill -s KILL -- "$target"; else rm -rf -- "$target"; fi
  done
done`;

let guard: Writable | undefined;
let last = 0;

/** Kills a child of this process when this process ends first. `group`: with all processes of the group that the child leads. */
export function endWithUs(child: ChildProcess, { group = false } = {}): void {
  if (child.pid === undefined) return;
  const forget = atOurEnd('kill', `${group ? '-' : ''}${child.pid}`);
  // Members of a group may outlive the child, with its output.
  child.once(group ? 'close' : 'exit', forget);
}

/** Deletes the folder when this process ends before it has called the returned function. */
export function deleteWithUs(folder: string): () => void {
  return atOurEnd('delete', folder);
}

function atOurEnd(what: 'kill' | 'delete', target: string): () => void {
  guard ??= startGuard();
  last += 1;
  const number = last;
  guard.write(`${number} ${what} ${target}\n`);
  return () => void guard?.write(`${number} nothing\n`);
}

function startGuard(): Writable {
  const shell = spawn('/bin/sh', ['-c', script], {
    // Without standard error, because a process may already have ended.
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    env: { PATH: process.env['PATH'] },
  });
  shell.on('error', () => {});
  shell.stdin.on('error', () => {});
  shell.unref();
  // Node has a socket for a pipe. It would keep this process alive.
  (shell.stdin as unknown as { unref(): void }).unref();
  return shell.stdin;
}
