/** STATS_TOP_*: the keys that are most often over their limit. `/top`, `/v1/top` and `weir top` show them. */
import type { Capability } from '../capabilities/capability.ts';
import { type TopSettings, topSettings } from './settings.ts';

export const topOffenders = {
  name: 'top-offenders',
  settings: { title: 'Top offenders', rows: topSettings, ownPrefixes: ['STATS_TOP_'] },
  // Without keys, the pages show that there are none.
  isWanted: () => true,
  load: () => import('./threads.ts'),
} as const satisfies Capability<TopSettings>;
