/** STATS_TOP_*: whose keys are most often over their limit, as `/top`, `/v1/top` and `weir top` show. */
import type { Capability } from '../capabilities/capability.ts';
import { type TopSettings, topSettings } from './settings.ts';

export const topOffenders = {
  name: 'top-offenders',
  settings: { title: 'Top offenders', rows: topSettings, ownPrefixes: ['STATS_TOP_'] },
  // Without keys it says so on its pages.
  isWanted: () => true,
  load: () => import('./threads.ts'),
} as const satisfies Capability<TopSettings>;
