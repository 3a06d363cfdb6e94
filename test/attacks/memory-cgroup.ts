/** A group of processes with a limit on their memory, as the container of a pod is: cgroup v1 or v2. */
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface MemoryCgroup {
  /** A process that writes its pid here is in it, with all that it starts. */
  procsFile: string;
  /** How many processes of it were ended for want of memory. */
  oomKills(): number;
  /** When none of its processes lives any more. */
  remove(): void;
}

interface Controller {
  /** Where its groups are. */
  folder: string;
  /** Files to write when a group is made, with what; a later one that fails is left alone. */
  limits: (bytes: number) => readonly (readonly [string, string])[];
  /** Has a line `oom_kill <count>`. */
  events: string;
}

/** Needs the rights of root, as a rule; `missing` says why there is none. */
export function createMemoryCgroup(name: string, limitBytes: number): MemoryCgroup | { missing: string } {
  const controller = memoryController(readFileSync('/proc/self/mountinfo', 'utf8'));
  if (controller === undefined) return { missing: 'no memory controller of cgroups is mounted' };
  const folder = join(controller.folder, name);
  const at = (file: string): string => join(folder, file);
  try {
    mkdirSync(folder);
    const [[file, value], ...others] = controller.limits(limitBytes) as [readonly [string, string]];
    writeFileSync(at(file), value);
    for (const [further, text] of others as readonly (readonly [string, string])[]) {
      // Without swap there is nothing to limit.
      writeIfThere(at(further), text);
    }
  } catch (error) {
    return { missing: `no cgroup can be made at ${folder}: ${(error as NodeJS.ErrnoException).code}` };
  }
  return {
    procsFile: at('cgroup.procs'),
    oomKills: () => Number(/^oom_kill (\d+)$/m.exec(readFileSync(at(controller.events), 'utf8'))?.[1] ?? 0),
    remove: () => rmdirSync(folder),
  };
}

/** From /proc/self/mountinfo: version 1 where it is mounted with memory, else version 2. */
function memoryController(mounts: string): Controller | undefined {
  const entries = mounts.split('\n').map((line) => {
    const [before = '', after = ''] = line.split(' - ');
    const [type, , options = ''] = after.split(' ');
    return { folder: before.split(' ')[4] ?? '', type, options: options.split(',') };
  });
  const v1 = entries.find(({ type, options }) => type === 'cgroup' && options.includes('memory'));
  if (v1 !== undefined) {
    return {
      folder: v1.folder,
      limits: (bytes) => [
        ['memory.limit_in_bytes', String(bytes)],
        ['memory.memsw.limit_in_bytes', String(bytes)],
      ],
      events: 'memory.oom_control',
    };
  }
  const v2 = entries.find(({ type }) => type === 'cgroup2');
  if (v2 === undefined) return undefined;
  writeIfThere(join(v2.folder, 'cgroup.subtree_control'), '+memory');
  return {
    folder: v2.folder,
    limits: (bytes) => [
      ['memory.max', String(bytes)],
      ['memory.swap.max', '0'],
    ],
    events: 'memory.events',
  };
}

function writeIfThere(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch {}
}
