/** REFUSALS_KEPT: recently rate-limited requests. `/v1/refusals` and `weir why` show them. */
import type { Capability } from '../capabilities/capability.ts';
import { type RefusalSettings, refusalSettings } from './settings.ts';

export const refusals = {
  name: 'refusals',
  settings: { title: 'Top offenders', rows: refusalSettings },
  // Without rows, the routes show that there are none.
  isWanted: () => true,
  load: () => import('./threads.ts'),
} as const satisfies Capability<RefusalSettings>;
