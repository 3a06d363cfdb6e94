/**
 * The setup of all tests: what each file costs in processor time, with the programs that it started and that have ended.
 * cost-table.ts prints it.
 */
import { readFileSync } from 'node:fs';
import { afterAll } from 'vitest';
import type { CountsApiServers } from './own-api-server.ts';

declare module 'vitest' {
  interface TaskMeta {
    /** Seconds of processor time of the file: of its process, and of the programs that it waited for. */
    cpuSeconds?: number;
    /** The part of it that API servers took. */
    apiServerCpuSeconds?: number;
  }
}

/** A tick of /proc/self/stat is 1/100 s on every Linux that Node runs on. proc(5). */
const ticksPerSecond = 100;

/** Where files share a process, the next one starts at what the last one left. */
const counted = globalThis as { countedCpuSeconds?: number };

function usedSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6 + endedProgramsSeconds();
}

/** Of child processes that were waited for, and of theirs; 0 where the system has no /proc. proc(5), cutime and cstime. */
function endedProgramsSeconds(): number {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[13]) + Number(fields[14])) / ticksPerSecond;
  } catch {
    return 0;
  }
}

// Registered before the hooks of the file, so it runs after them: what they stop has ended.
// biome-ignore lint/correctness/noEmptyPattern: vitest reads which fixtures a hook needs from its first parameter.
afterAll(({}, { meta }) => {
  const used = usedSeconds();
  meta.cpuSeconds = used - (counted.countedCpuSeconds ?? 0);
  counted.countedCpuSeconds = used;
  const servers = globalThis as CountsApiServers;
  meta.apiServerCpuSeconds = servers.apiServerCpuSeconds ?? 0;
  servers.apiServerCpuSeconds = 0;
});
