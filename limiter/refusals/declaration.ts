/** REFUSALS_KEPT: who was refused of late, as `/v1/refusals` and `weir why` show. */
import type { Capability } from '../capabilities/capability.ts';
import { type RefusalSettings, refusalSettings } from './settings.ts';

export const refusals = {
  name: 'refusals',
  settings: { title: 'Top offenders', rows: refusalSettings },
  // Without rows it answers that there are none.
  isWanted: () => true,
  load: () => import('./threads.ts'),
} as const satisfies Capability<RefusalSettings>;
