/** Where the settings say that statistics go. Every sink is joined here. */
import { addressText } from '../process/bind.ts';
import type { Clock } from '../process/clock.ts';
import type { Logger } from '../process/logger.ts';
import type { Timers } from '../process/timers.ts';
import { packageVersion } from '../process/version.ts';
import { listenerErrors } from './listener-error.ts';
import * as lines from './log-lines.ts';
import type { LimiterSettings } from './settings.ts';
import type { OutputStream } from './stats/descriptor-output.ts';
import { DogStatsdSink, Mogrifiers } from './stats/dogstatsd/index.ts';
import { registerSinkStats } from './stats/limiter-stats.ts';
import { OutputSink } from './stats/output-sink.ts';
import { builtInMapping, PrometheusSink, readMapperFile } from './stats/prometheus/index.ts';
import type { StatsRegistry } from './stats/stats-registry.ts';
import { StatsdSink } from './stats/statsd-sink.ts';
import { type SinkName, sinkOf } from './stats-settings.ts';

export interface Sink {
  /** Rejects when the limiter cannot run without it. */
  start(): void | Promise<void>;
  /** The last values, then the end; settles about when `timeoutMs` are over at the latest. */
  close(timeoutMs: number): Promise<void>;
}

export interface SinkParts {
  settings: LimiterSettings;
  /** Of the whole process; sinks read it as a StatsSource, and may have statistics of their own in it. */
  source: StatsRegistry;
  clock: Clock;
  timers: Timers;
  log: Logger;
  /** Standard output. */
  output: OutputStream;
}

const openers: Record<SinkName, (parts: SinkParts) => Sink | undefined> = {
  none: () => undefined,
  statsd: openStatsd,
  dogstatsd: openDogStatsd,
  output: openOutput,
  prometheus: openPrometheus,
};

/** Throws an Error when it cannot be opened as the settings say. */
export function openSink(parts: SinkParts): Sink | undefined {
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

/** Throws a MapperFileError. */
function openPrometheus({ settings, source, clock, timers, log }: SinkParts): Sink {
  const { prometheusAddress: address, prometheusMapperYaml: mapper } = settings;
  const responseTimeAsMilliseconds = settings.prometheusResponseTimeAsMilliseconds;
  const { mapping, warnings } =
    mapper === ''
      ? { mapping: builtInMapping({ responseTimeAsMilliseconds }), warnings: [] }
      : readMapperFile(mapper);
  for (const warning of warnings) lines.mapperWarning(log, warning);
  const sink = new PrometheusSink({
    source,
    mapping,
    address,
    path: settings.prometheusPath,
    clock,
    timers,
    listener: {
      listening: (port) => lines.listeningForPrometheus(log, addressText({ ...address, port })),
      conflict: (stat, metric) => lines.metricNameTaken(log, stat, metric),
      fault: (error) => lines.callFault(log, 'Prometheus', error),
    },
  });
  return {
    start: () => sink.start().catch(listenerErrors.prometheus),
    close: () => sink.close(),
  };
}
