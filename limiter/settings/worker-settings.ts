/** LIMITER_WORKERS, and the settings that contradict it. A part of the table in `settings.ts`. */
import { z } from 'zod';
import { integer, type SettingKind } from '../../process/settings/settings-kinds.ts';
import { problems, type SettingsError, type SettingsTable } from '../../process/settings/settings-reader.ts';

/** Chosen: more threads than current machines have cores. */
const maxWorkers = 256;

type WorkerCount = number | 'auto';

function workerCount(): SettingKind<WorkerCount> {
  const kind = integer({ min: 1, max: maxWorkers });
  return {
    expected: `auto or ${kind.expected}`,
    brief: `auto or ${kind.brief}`,
    schema: z.union([z.literal('auto'), kind.schema]),
    format: String,
  };
}

export const workerSettings = {
  limiterWorkers: {
    name: 'LIMITER_WORKERS',
    kind: workerCount(),
    default: 1 as WorkerCount,
    summary:
      'Threads that answer callers on the same ports; `auto`: one for each core. Each has its own store connections, local cache and bounds. See [several cores](running.md#several-cores). Not in the Go service.',
  },
} as const satisfies SettingsTable;

interface Neighbors {
  limiterWorkers?: WorkerCount;
  backendType?: string;
  grpcUds?: string;
}

/** `auto` is an error even on a machine with one core, so that validity does not depend on the machine. */
export function workerProblems({
  limiterWorkers = 1,
  backendType,
  grpcUds = '',
}: Neighbors): SettingsError[] {
  return problems([
    [
      limiterWorkers !== 1 && backendType === 'memory',
      'LIMITER_WORKERS',
      'BACKEND_TYPE=memory cannot be shared by several threads, because each would count for itself; set LIMITER_WORKERS=1 or BACKEND_TYPE=redis',
    ],
    [
      limiterWorkers !== 1 && grpcUds !== '',
      'LIMITER_WORKERS',
      'a Unix socket (GRPC_UDS) cannot be shared by several threads; set LIMITER_WORKERS=1',
    ],
  ]);
}

/** Returns the number of threads. `cores` is the number of cores that this process may use. */
export function workersWanted(count: WorkerCount, cores: number): number {
  return count === 'auto' ? Math.min(Math.max(1, cores), maxWorkers) : count;
}
