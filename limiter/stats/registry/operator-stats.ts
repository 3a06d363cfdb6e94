/** Statistics of operators' actions: changes by the admin API, and overrides. */
import type { StatsRegistry } from './stats-registry.ts';

export const adminChanges = ['counters-reset', 'override-set', 'override-removed', 'grant-given'] as const;
const adminRejections = ['foreign', 'unauthenticated', 'slowed', 'permission_denied'] as const;

/** Changes made with the admin API, and those that were rejected. */
export interface AdminStats {
  changed(what: (typeof adminChanges)[number]): void;
  refused(reason: (typeof adminRejections)[number]): void;
}

export function createAdminStats(registry: StatsRegistry): AdminStats {
  const tagged = <Value extends string>(name: string, tag: string, values: readonly Value[]) => {
    const slots = new Map(values.map((value) => [value, registry.counter(name, [[tag, value]])]));
    return (value: Value) => registry.add(slots.get(value) as number, 1);
  };
  return {
    changed: tagged('ratelimit.admin.changes', 'what', adminChanges),
    refused: tagged('ratelimit.admin.refused', 'reason', adminRejections),
  };
}
