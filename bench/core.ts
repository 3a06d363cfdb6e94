import { spawnSync } from 'node:child_process';

/** Keeps a process and its threads on one core, where the system has `taskset`; elsewhere it runs where it likes. */
export function keepOnCore(pid: number, core: number): void {
  spawnSync('taskset', ['-a', '-p', '-c', String(core), String(pid)], { stdio: 'ignore' });
}
