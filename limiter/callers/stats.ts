/** Statistics of callers. */
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';

/** Functions to call for a rejected request, by its caller. Counters of `names` are shown from the start. */
export interface CallerStats {
  show(names: readonly string[]): void;
  rejected(caller: string, reason: string): void;
  unknownToken(): void;
}

/** Chosen: the number of names with separate counters over the life of a process, across all files. */
const maxCallerNames = 4_000;

/** Registers `ratelimit.callers.refused` by the tags `caller` and `reason`, and `ratelimit.callers.unknown_tokens`. */
export function createCallerStats(registry: StatsRegistry): CallerStats {
  const names = new Set<string>();
  const slotOf = (caller: string, reason: string): number =>
    registry.counter('ratelimit.callers.refused', [
      ['caller', caller],
      ['reason', reason],
    ]);
  slotOf('unknown', 'unauthenticated');
  return {
    unknownToken: registry.counting('ratelimit.callers.unknown_tokens'),
    show: (shown) => {
      for (const name of shown) {
        if (names.size >= maxCallerNames) return;
        names.add(name);
        for (const reason of ['permission_denied', 'over_rate']) slotOf(name, reason);
      }
    },
    rejected: (caller, reason) => {
      const name = names.has(caller) || caller === 'unknown' ? caller : 'other';
      registry.add(slotOf(name, reason), 1);
    },
  };
}

/** Registers statistics of CALLERS_FILE: how many entries are in force, and whether newer ones were rejected. */
export function registerCallersFile(
  registry: StatsRegistry,
  file: { callers(): number; wasLastRejected(): boolean },
): void {
  registry.gauge('ratelimit.callers.entries', () => file.callers());
  registry.gauge('ratelimit.callers.load_failed', () => (file.wasLastRejected() ? 1 : 0));
}
