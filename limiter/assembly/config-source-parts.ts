import type { Logger } from '../../process/log/logger.ts';
import type { Timers } from '../../process/time/clock.ts';
import type { Clock } from '../../process/time/process-clock.ts';
import type { ConfigSource } from '../config-source/config-source.ts';
import type { OriginLines } from '../log/lines.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';

/** What it takes to open a source of rules. */
export interface ConfigSourceParts {
  settings: LimiterSettings;
  clock: Clock;
  timers: Timers;
  random: () => number;
  registry: StatsRegistry;
  log: Logger;
}

export interface OpenedConfigSource {
  source: ConfigSource;
  origin: OriginLines;
}
