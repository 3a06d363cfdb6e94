/** Statistics of what operators do: changes by the admin API, and what lies over the rules. */
import type { StatsRegistry } from './stats-registry.ts';

export const adminChanges = ['counters-reset', 'override-set', 'override-removed', 'grant-given'] as const;
const adminRefusals = ['foreign', 'unauthenticated', 'slowed', 'permission_denied'] as const;

/** What somebody changed by the admin API, and what of it was refused. */
export interface AdminStats {
  changed(what: (typeof adminChanges)[number]): void;
  refused(reason: (typeof adminRefusals)[number]): void;
}

export function createAdminStats(registry: StatsRegistry): AdminStats {
  const tagged = <Value extends string>(name: string, tag: string, values: readonly Value[]) => {
    const slots = new Map(values.map((value) => [value, registry.counter(name, [[tag, value]])]));
    return (value: Value) => registry.add(slots.get(value) as number, 1);
  };
  return {
    changed: tagged('ratelimit.admin.changes', 'what', adminChanges),
    refused: tagged('ratelimit.admin.refused', 'reason', adminRefusals),
  };
}

/** Of the main thread. */
export function registerOverrideStats(
  registry: StatsRegistry,
  {
    inForce,
    files,
  }: {
    inForce: { readonly count: number; readonly conflicted: number };
    files: { readonly lastWasRefused: boolean };
  },
): void {
  registry.gauge('ratelimit.overrides.in_force', () => inForce.count);
  registry.gauge('ratelimit.overrides.conflicted', () => inForce.conflicted);
  registry.gauge('ratelimit.overrides.files_refused', () => Number(files.lastWasRefused));
}
