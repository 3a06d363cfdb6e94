/** The top offenders of this thread, by the settings: counted by the service, shown by the debug listener. */

import type { Timers } from '../../process/time/clock.ts';
import type { Clock } from '../../process/time/process-clock.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { registerTopStats } from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { TopOffenders } from '../stats/top/top-offenders.ts';

export interface OpenedTop {
  offenders: TopOffenders;
  /** No new period begins. */
  close(): void;
}

export interface TopParts {
  settings: LimiterSettings;
  clock: Clock;
  timers: Timers;
  registry: StatsRegistry;
}

/** Undefined with STATS_TOP_KEYS=0. */
export function openTop({ settings, clock, timers, registry }: TopParts): OpenedTop | undefined {
  if (settings.statsTopKeys === 0) return undefined;
  const offenders = new TopOffenders({
    keysPerDomain: settings.statsTopKeys,
    maxBytes: settings.statsTopMaxBytes,
    clock,
  });
  registerTopStats(registry, offenders);
  return { offenders, close: timers.every(settings.statsTopPeriodMs, () => offenders.rotate()) };
}
