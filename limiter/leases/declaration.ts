/** LEASES: takes hits of busy counters in advance, see `lease-book.ts`. */
import type { Capability } from '../capabilities/capability.ts';
import { defaultLease, type LeaseSettings, rows } from './settings.ts';

export const leases = {
  name: 'leases',
  settings: { title: 'Leases', before: 'When the store fails', rows, ownPrefixes: ['LEASES', 'LEASE_SHARE'] },
  isWanted: (settings) => defaultLease(settings) !== undefined,
  load: () => import('./threads.ts'),
} as const satisfies Capability<LeaseSettings>;
