/** REFUSALS_KEPT: recently rate-limited requests. `/v1/refusals` and `weir why` show them. */
import type { Capability } from '../capabilities/capability.ts';
import { type OverLimitSettings, overLimitSettings } from './settings.ts';

export const overLimit = {
  name: 'over-limit',
  settings: { title: 'Top offenders', rows: overLimitSettings },
  // Without rows, the routes show that there are none.
  isWanted: () => true,
  load: () => import('./threads.ts'),
} as const satisfies Capability<OverLimitSettings>;
