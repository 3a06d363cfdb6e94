/** Overrides: temporary changes of limits, by files (OVERRIDES_DIR), by `/v1/overrides` and by a control plane. */
import type { Capability } from '../capabilities/capability.ts';
import { type OverrideSettings, rows } from './settings.ts';

export const overrides = {
  name: 'overrides',
  settings: { title: 'Overrides', before: 'Headers', rows },
  isWanted: () => true,
  load: () => import('./threads.ts'),
} as const satisfies Capability<OverrideSettings>;
