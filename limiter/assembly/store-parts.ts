import type { Health } from '../../process/grpc/health.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { Timers } from '../../process/time/clock.ts';
import type { Clock } from '../../process/time/process-clock.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import type { CounterStore } from '../stores/counter-store.ts';
import type { ResolveSrv } from '../stores/memcache/srv-lookup.ts';
import type { SpanMaker } from '../tracing/span-maker.ts';
import type { OptionalParts } from './optional-parts.ts';

/** What it takes to open a store. */
export interface StoreParts {
  settings: LimiterSettings;
  clock: Clock;
  timers: Timers;
  random: () => number;
  registry: StatsRegistry;
  health: Health;
  log: Logger;
  /** Makes the spans of what the store does. Undefined where tracing is off. */
  spanMaker?: (() => SpanMaker | undefined) | undefined;
  optional: Pick<OptionalParts, 'redis' | 'memcache'>;
  /** Of MEMCACHE_SRV. Defaults to the system's. */
  resolveSrv?: ResolveSrv | undefined;
}

export interface OpenedStore {
  store: CounterStore;
  /** Waits for the first answer of the store, for as long as it takes. */
  connect(): Promise<void>;
}
