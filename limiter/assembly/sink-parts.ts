import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { Timers } from '../../process/time/clock.ts';
import type { Clock } from '../../process/time/process-clock.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import type { OutputStream } from '../stats/registry/descriptor-output.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';

/** What statistics go to. */
export interface Sink {
  /** Rejects when the limiter cannot run without it. */
  start(): void | Promise<void>;
  /** The last values, then the end; settles about when `timeoutMs` are over at the latest. */
  close(timeoutMs: number): Promise<void>;
}

/** What it takes to open one. */
export interface SinkParts {
  settings: LimiterSettings;
  /** Of the whole process; sinks read it as a StatsSource, and may have statistics of their own in it. */
  source: StatsRegistry;
  clock: Clock;
  timers: Timers;
  log: Logger;
  /** Of an HTTP listener. */
  connections: HttpConnectionsOptions;
  /** Standard output. */
  output: OutputStream;
}
