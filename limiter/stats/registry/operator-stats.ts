/** Statistics of operators' actions: changes made with the admin API, and those that were rejected. */
import type { StatsRegistry } from './stats-registry.ts';

export const adminChanges = ['counters-reset', 'override-set', 'override-removed', 'grant-given'] as const;
const adminRejections = ['foreign', 'unauthenticated', 'slowed', 'permission_denied'] as const;

export function createAdminStats(registry: StatsRegistry) {
  return {
    changed: registry.countingBy('ratelimit.admin.changes', 'what', adminChanges),
    rejected: registry.countingBy('ratelimit.admin.refused', 'reason', adminRejections),
  };
}
