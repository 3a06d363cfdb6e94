/** Where the settings say that statistics go. Every sink is joined here. */

import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import type { Logger } from '../../process/log/logger.ts';
import { packageVersion } from '../../process/log/process-lines.ts';
import { addressText } from '../../process/net/bind.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import * as lines from '../log/lines.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { type SinkName, sinkOf } from '../settings/stats-settings.ts';
import type { OutputStream } from '../stats/registry/detailed-metrics.ts';
import { registerSinkStats } from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { DogStatsdSink } from '../stats/sinks/dogstatsd-sink.ts';
import { Mogrifiers } from '../stats/sinks/mogrifier.ts';
import { OutputSink } from '../stats/sinks/output-sink.ts';
import { StatsdSink } from '../stats/sinks/statsd-sink.ts';
import { loaded, type OptionalParts } from './optional-parts.ts';

interface OpenSinkParts extends SinkParts {
  optional: Pick<OptionalParts, 'prometheus'>;
}

const openers: Record<SinkName, (parts: OpenSinkParts) => Sink | undefined> = {
  none: () => undefined,
  statsd: openStatsd,
  dogstatsd: openDogStatsd,
  output: openOutput,
  prometheus: (parts) =>
    loaded(parts.optional.prometheus, 'the endpoint for Prometheus').openPrometheus(parts),
};

/** Throws an Error when it cannot be opened as the settings say. */
export function openSink(parts: OpenSinkParts): Sink | undefined {
  return openers[sinkOf(parts.settings)](parts);
}

function openStatsd({ settings, source, timers, log }: SinkParts): Sink {
  const { statsdHost: host, statsdPort: port, statsdProtocol: protocol } = settings;
  const address = addressText({ host, port });
  const sink = new StatsdSink({
    source,
    host,
    port,
    protocol,
    flushIntervalMs: settings.statsFlushIntervalMs,
    timers,
    listener: lines.statsdLines(log, address),
  });
  registerSinkStats(source, 'statsd', sink);
  return sink;
}

function openDogStatsd({ settings, source, timers, log }: SinkParts): Sink {
  const { statsdHost: host, statsdPort: port, mogrifiers } = settings;
  const address = addressText({ host, port });
  const sink = new DogStatsdSink({
    source,
    host,
    port,
    flushIntervalMs: settings.statsFlushIntervalMs,
    mogrifiers: new Mogrifiers(mogrifiers),
    version: packageVersion(),
    timers,
    listener: lines.dogStatsdLines(log, address),
  });
  registerSinkStats(source, 'dogstatsd', sink);
  return sink;
}

function openOutput({ settings, source, clock, timers, output }: SinkParts): Sink {
  const sink = new OutputSink({
    source,
    output,
    clock,
    timers,
    flushIntervalMs: settings.statsFlushIntervalMs,
  });
  registerSinkStats(source, 'output', sink);
  return sink;
}

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
