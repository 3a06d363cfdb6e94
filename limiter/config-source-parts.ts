import type { Clock } from '../process/clock.ts';
import type { Logger } from '../process/logger.ts';
import type { Timers } from '../process/timers.ts';
import type { ConfigSource } from './config-source/index.ts';
import type { OriginLines } from './log-lines.ts';
import type { LimiterSettings } from './settings.ts';
import type { StatsRegistry } from './stats/stats-registry.ts';

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
