/** `/debug/pprof/`: profiles of each thread. */
import type { Capability } from '../capabilities/capability.ts';

export const pprof = {
  name: 'pprof',
  isWanted: () => true,
  load: () => import('./threads.ts'),
} as const satisfies Capability<unknown>;
