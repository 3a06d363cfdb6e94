/** CALLERS_FILE: callers and their rights. */
import type { Capability } from '../capabilities/capability.ts';
import { type CallersSettings, rows } from './settings.ts';

export const callers = {
  name: 'callers',
  settings: { title: 'Access', before: 'httpServerUseTls', rows, ownPrefixes: ['CALLERS_'] },
  isWanted: ({ callersFile }) => callersFile !== '',
  load: () => import('./threads.ts'),
} as const satisfies Capability<CallersSettings>;
