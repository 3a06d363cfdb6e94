/** LIMITER_WORKERS, and what does not go with it. A part of the table in `settings.ts`. */
import { z } from 'zod';
import { integer, type SettingKind } from '../../process/settings/settings-kinds.ts';
import type { SettingsError, SettingsTable } from '../../process/settings/settings-reader.ts';

/** Chosen: more threads than machines of today have cores. */
const mostWorkers = 256;

export type WorkerCount = number | 'auto';

function workerCount(): SettingKind<WorkerCount> {
  const kind = integer({ min: 1, max: mostWorkers });
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
      'Threads that answer callers, on the same ports; `auto`: as many as there are cores. Each has connections to the store, a local cache and bounds of its own; see [operations](operations.md#several-cores). Not in the Go service.',
  },
} as const satisfies SettingsTable;

interface Neighbours {
  limiterWorkers?: WorkerCount;
  backendType?: string;
  grpcUds?: string;
}

/** `auto` is refused on a machine with one core, too: what is right does not depend on the machine. */
export function workerSettingsProblems(settings: Neighbours): SettingsError[] {
  const { limiterWorkers = 1, backendType, grpcUds = '' } = settings;
  if (limiterWorkers === 1) return [];
  const problems: string[] = [];
  if (backendType === 'memory') {
    problems.push(
      'BACKEND_TYPE=memory cannot be shared by several threads, each would count for itself; set LIMITER_WORKERS=1 or BACKEND_TYPE=redis',
    );
  }
  if (grpcUds !== '') {
    problems.push('a Unix socket (GRPC_UDS) cannot be shared by several threads; set LIMITER_WORKERS=1');
  }
  return problems.map((problem) => ({
    variable: 'LIMITER_WORKERS',
    message: `LIMITER_WORKERS: ${problem}`,
  }));
}

/** How many threads that are. `cores` are those that this process may use. */
export function workersWanted(count: WorkerCount, cores: number): number {
  return count === 'auto' ? Math.min(Math.max(1, cores), mostWorkers) : count;
}
