/** RLQS: quota clients, such as Envoy's filter rate_limit_quota, decide by themselves. docs/quota-service.md describes it. */
import type { Capability } from '../capabilities/capability.ts';
import { type QuotaSettings, rows } from './quota-settings.ts';

export const quotaService = {
  name: 'quota-service',
  settings: { title: 'Quota clients', before: 'gRPC connections', rows, ownPrefixes: ['RLQS_'] },
  isWanted: ({ rlqs }) => rlqs,
  load: () => import('./threads.ts'),
} as const satisfies Capability<QuotaSettings>;
