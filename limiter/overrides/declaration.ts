/** Overrides: temporary changes of limits, from files (OVERRIDES_DIR), from `/v1/overrides` and from a control plane. */
import type { Capability } from '../capabilities/capability.ts';
import { type OverrideSettings, rows } from './settings.ts';

export const overrides = {
  name: 'overrides',
  settings: { title: 'Overrides', before: 'Headers', rows },
  isWanted: () => true,
  load: () => import('./threads.ts'),
} as const satisfies Capability<OverrideSettings>;
