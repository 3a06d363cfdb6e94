/** Kuadrant's service, beside Envoy's on the gRPC listener: its gateways ask Weir as they ask limitador. */
import type { Capability } from '../capabilities/capability.ts';
import type { KuadrantSettings } from './threads.ts';

export const kuadrant = {
  name: 'kuadrant',
  isWanted: () => true,
  load: () => import('./threads.ts'),
} as const satisfies Capability<KuadrantSettings>;
