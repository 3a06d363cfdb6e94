import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** CPU time that a process has used, user and system, all threads, in µs. Linux: /proc/<pid>/schedstat per thread is finer, /proc/<pid>/stat counts ended threads too. */
export function processCpuUs(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  // The second field is the program's name in parentheses and may hold spaces; fields 14 and 15 are the times.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  return ticks * 10_000;
}

/** Keeps a process and its threads on one core, where the system has `taskset`; elsewhere it runs where it likes. */
export function keepOnCore(pid: number, core: number): void {
  spawnSync('taskset', ['-a', '-p', '-c', String(core), String(pid)], { stdio: 'ignore' });
}
