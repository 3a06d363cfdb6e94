/** Kuadrant's service, beside Envoy's on the gRPC listener. Its gateways send Weir the requests that they send limitador. */
import type { Capability } from '../capabilities/capability.ts';
import type { KuadrantSettings } from './threads.ts';

export const kuadrant = {
  name: 'kuadrant',
  isWanted: () => true,
  load: () => import('./threads.ts'),
} as const satisfies Capability<KuadrantSettings>;
