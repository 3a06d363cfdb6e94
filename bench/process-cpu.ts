import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/**
 * Returns the CPU time of a process, user and system, of all its threads, in µs. On Linux, /proc/<pid>/schedstat is more precise per
 * thread, and /proc/<pid>/stat also counts threads that have ended.
 */
export function processCpuUs(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The second field is the program's name in parentheses, which may contain spaces. Fields 14 and 15 are the times.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  return ticks * 10_000;
}

/** Moves a process and its threads to one core, if the system has `taskset`. */
export function keepOnCore(pid: number, core: number): void {
  spawnSync('taskset', ['-a', '-p', '-c', String(core), String(pid)], { stdio: 'ignore' });
}
