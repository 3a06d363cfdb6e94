/** PROFILES_FILE: decisions for proxies other than Envoy. Without a name, the file beside the rules may appear at any time. */
import type { Capability } from '../capabilities/capability.ts';
import { type ForwardAuthSettings, rows } from './settings.ts';

export const forwardAuth = {
  name: 'forward-auth',
  settings: { title: 'Rules', before: 'forceStartWithoutInitialConfig', rows },
  isWanted: () => true,
  load: () => import('./threads.ts'),
} as const satisfies Capability<ForwardAuthSettings>;
